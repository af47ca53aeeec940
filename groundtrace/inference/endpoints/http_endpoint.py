"""Provides the base class of endpoints over HTTP. It posts JSON, handles errors, checks the server, and removes the API
key from texts.

A subclass writes a request in the form of one API, and reads the reply (docs/extend.md shows an example). Requests use
aiohttp. Redirects are not followed, so that the API key is never sent to another server.
"""

import abc
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from groundtrace.inference.endpoint import EndpointError
from groundtrace.inference.endpoints.keys import api_key, scrub
from groundtrace.inference.endpoints.media_parts import media_bytes
from groundtrace.inference.endpoints.wire import (
    failure_of,
    field_of,
    json_bytes,
    message_of,
    read_body,
    retry_after_s,
    status_of,
)
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.flow.requests import Flow
from groundtrace.inference.request import Reply, Request
from groundtrace.inference.settings import EndpointSettings
from groundtrace.schemas.text import whole
from groundtrace.vision.media import MediaStore

if TYPE_CHECKING:
    import aiohttp

MAX_MESSAGE_CHARS = 300
MAX_NAMED = 8
"""The largest number of a server's models that an error message lists."""
File = tuple[bytes, str]
"""The bytes of one image or video of a prompt, and their MIME type."""


class HttpEndpoint(abc.ABC):
    """Sends requests to one model of the server at ``settings.base_url``. This is the common part of all endpoints over
    HTTP (:class:`groundtrace.inference.endpoint.Endpoint`). A subclass implements :meth:`conversation` and
    :meth:`ask`.

    ``media`` is the store from which the images and videos of prompts are read. The argument ``threads`` is not used.
    The endpoint's :class:`groundtrace.inference.flow.requests.Flow` limits the requests, retries failed requests, and
    sends a second copy of slow requests.
    """

    def __init__(self, settings: EndpointSettings, media: MediaStore, threads: int) -> None:
        if not settings.base_url:
            raise EndpointError(
                f"endpoint {settings.model!r} of the kind {settings.kind} has no base_url: set it to the server's URL"
            )
        self.settings = settings
        self.url = settings.base_url.rstrip("/")
        self.key = api_key(settings)
        self._media = media
        self._flow = Flow(settings)
        self._session: aiohttp.ClientSession | None = None

    @abc.abstractmethod
    def conversation(self, request: Request, files: Sequence[File]) -> Any:
        """Return the request's prompt in the form of the API. The method is called once for all samples of a request.

        ``files`` are the bytes and MIME types of the prompt's images and videos, in the order of
        ``request.prompt.media``.
        """

    @abc.abstractmethod
    async def ask(self, request: Request, n: int, conversation: Any) -> Reply:
        """Send one HTTP request for ``n`` samples (generated texts), and return the reply. ``conversation`` is the
        prompt in the form of the API, as :meth:`conversation` returned it. The reply may have fewer samples than ``n``;
        the caller then requests the missing samples again.

        Raises CallError if the request fails.
        """

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the HTTP headers that each request needs, with the API key."""
        return {"authorization": f"Bearer {self.key}"}

    @property
    def revision(self) -> str:
        """Return the version of the model from the settings. It is a part of the cache keys."""
        return self.settings.revision

    async def generate(self, request: Request) -> Reply:
        """Send the request to the server, and return a reply with one sample (generated text) for each number in
        ``request.indices`` (the numbers of the requested samples). Raises CallError if the request fails after all
        retries.
        """
        if not request.prompt.media:
            return await self._collect(request, [])
        media = request.prompt.media
        reading = self._flow.holding(lambda: [media_bytes(self._media, part) for part in media], _encoded_bytes)
        async with reading as files:
            return await self._collect(request, files)

    async def _collect(self, request: Request, files: Sequence[File]) -> Reply:
        conversation = self.conversation(request, files)
        return await self._flow.collect(request, lambda request, n: self.ask(request, n, conversation))

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Post ``body`` as JSON to the server, and return the parsed JSON of the response. ``path`` is relative to the
        base URL, or to the server's root if it begins with a slash.

        Raises CallError if the connection fails, the status is not 200, or the response is not JSON.
        """
        base = self.url.removesuffix("/v1") if path.startswith("/") else f"{self.url}/"
        return await self._answer("POST", f"{base}{path}", json_bytes(body))

    async def check(self) -> str:
        """Ask the server for the list of its models, and check that the endpoint's model is in it. Returns one line for
        the user that names the model.

        The request is a GET of ``models`` under the base URL. In the response, ``data`` must be a list with one object
        for each model. The ``id`` of an object is the model's name. Raises CallError if the request fails, or if the
        response has no such list. CallError is also raised if the endpoint's model is not in the list, unless the
        setting ``check_model`` is False.
        """
        try:
            listed = field_of(await self._answer("GET", f"{self.url}/models"), "data")
        except CallError as error:
            raise self._with_hint(error) from None
        if not isinstance(listed, list):
            raise self._with_hint(
                CallError(Failure.GARBLED, f"the response of {self.url}/models has no list of models: check base_url")
            )
        names = [str(field_of(model, "id")) for model in listed]
        if self.settings.check_model and self.settings.model not in names:
            message = self.clean(f"{self.url} serves {names[:MAX_NAMED]}, not {self.settings.model!r}")
            raise CallError(Failure.UNKNOWN_MODEL, message)
        return f"serves {self.settings.model}"

    def clean(self, message: str) -> str:
        """Return an error message without the API key, shortened to 300 characters. The key is removed before the
        message is shortened, since otherwise a part of the key could be left.
        """
        return scrub(message, self.key)[:MAX_MESSAGE_CHARS]

    def text(self, written: str) -> str:
        """Return the text of a model's reply without the API key, and without characters that cannot be stored."""
        return scrub(whole(written), self.key)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _answer(self, method: str, url: str, body: bytes | None = None) -> Any:
        import aiohttp  # takes 0.1 s, which a run with all replies in its cache does not need

        sending = self._client().request(method, url, data=body, allow_redirects=False)
        # The client's errors quote a broken response, which may echo the API key, so they are not kept as causes.
        try:
            async with sending as response:
                data = await read_body(response.content.iter_any())
                if response.status != 200:
                    raise self._refusal(response.status, data, response.headers)
        except aiohttp.ServerTimeoutError as error:
            away = isinstance(error, aiohttp.ConnectionTimeoutError)
            raise CallError(
                Failure.TIMEOUT, self.clean(f"the server did not reply in time: {error}"), unreachable=away
            ) from None
        except aiohttp.ClientPayloadError as error:
            raise CallError(Failure.CONNECTION, self.clean(f"the response ended early: {error}")) from None
        except (aiohttp.ClientError, OSError) as error:
            raise CallError(
                Failure.CONNECTION, self.clean(f"the request failed with {type(error).__name__}: {error}")
            ) from None
        return self._parsed(data)

    def _refusal(self, status: int, data: bytes, headers: Mapping[str, str]) -> CallError:
        """Return the error for a response whose HTTP ``status`` is not 200. ``data`` is the response's body, and
        ``headers`` are its headers; the error holds the wait that the header Retry-After demands.
        """
        wait_s = retry_after_s(headers.get("retry-after", ""), datetime.now(UTC))
        message = self.clean(f"HTTP {status}: {message_of(data)}")
        meant = status_of(status, data)
        return CallError(failure_of(meant), message, status=meant, retry_after_s=wait_s)

    def _parsed(self, data: bytes) -> Any:
        try:
            return json.loads(data, strict=False)
        except (ValueError, RecursionError):
            text = scrub(data.decode("utf-8", "replace"), self.key)
            raise CallError(Failure.GARBLED, f"the server's response is not JSON: {text[:120]!r}") from None

    def _client(self) -> "aiohttp.ClientSession":
        """Return the HTTP client session. Its connections can be used only on the event loop on which they are created.
        So the session is created at the first call of this method, on the event loop that sends the requests."""
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(
                total=None,
                connect=None,
                sock_connect=self.settings.connect_timeout_s,
                sock_read=self.settings.read_timeout_s,
            )
            headers = {**self.headers, "content-type": "application/json"}
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers)
        return self._session

    def _with_hint(self, error: CallError) -> CallError:
        """Return the error. If it may be due to a base URL without /v1, the returned error's message has a hint: the
        URLs of most servers end with /v1."""
        if self.url.endswith("/v1") or error.failure not in (Failure.BAD_REQUEST, Failure.GARBLED):
            return error
        hint = f"{error.message} (most servers have their API under /v1: is base_url {self.url}/v1?)"
        return CallError(error.failure, hint)


def _encoded_bytes(files: Sequence[File]) -> int:
    return sum(len(data) for data, _ in files) * 4 // 3
