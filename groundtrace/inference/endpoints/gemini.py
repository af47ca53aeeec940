"""Sends requests to Google's Gemini models over Gemini's REST API, with the official ``google-genai`` client.

Two parts of this client are not used. Its typed responses are not used, because one candidate (generated text) of an
unknown form would make all candidates fail. Its HTTP session is not used, because it has no connect or read timeout,
reads a body of any size, and follows redirects with the API key.
"""

import json
import re
from collections.abc import Awaitable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import aiohttp
from google import genai
from google.genai import types

from groundtrace.grading.messages import MediaPart
from groundtrace.inference.endpoint import EndpointError
from groundtrace.inference.endpoints.finish_reasons import Finish, finish_of
from groundtrace.inference.endpoints.keys import NO_KEY, api_key, scrub
from groundtrace.inference.endpoints.media_parts import media_bytes
from groundtrace.inference.endpoints.wire import (
    failure_of,
    field_of,
    message_of,
    other_model,
    read_body,
    retry_after_s,
    status_of,
    token_count,
)
from groundtrace.inference.errors import NOT_SENT, CallError, Failure
from groundtrace.inference.flow.requests import Flow
from groundtrace.inference.request import TRUNCATED, Completion, Reply, Request
from groundtrace.inference.settings import EndpointSettings
from groundtrace.schemas.text import whole
from groundtrace.schemas.usage import Usage
from groundtrace.vision.media import MediaStore

MAX_REQUEST_BYTES = 20_000_000
"""The API's limit, in bytes, for a request that contains its media as base64."""
MAX_CANDIDATES = 8
"""The most samples that the API returns for one request."""
MAX_MESSAGE = 300

_RETRY_DELAY = re.compile(rb'"retryDelay"\s*:\s*"(\d{1,9}(?:\.\d{1,9})?)s"')
_VIDEO_MIMES = {"video/x-msvideo": "video/avi", "video/x-matroska": ""}
"""Maps the MIME type of a video format to the API's own name for this format, if the two names differ.

The value is "" for a format that the API does not accept.
"""


class GeminiEndpoint:
    """Implements an endpoint (:class:`groundtrace.inference.endpoint.Endpoint`) for one Gemini model. The requests go
    to ``settings.base_url`` if it is set, else to Google's API. ``media`` is the store from which the images and
    videos of prompts are read. The argument ``threads`` is not used.

    No seed is sent, for two reasons:

    - If a request returns too few samples (generated texts), the prompt is sent again. With the same seed, the second
      request would return the same samples as the first.
    - A seed for each sample is not possible: a request has one seed for all its samples, and it is not known in advance
      how many samples it will return.
    """

    def __init__(self, settings: EndpointSettings, media: MediaStore, threads: int) -> None:
        self.settings = settings
        self._media = media
        self._key = api_key(settings)
        if self._key == NO_KEY and not settings.base_url:
            raise EndpointError(
                f"endpoint {settings.model!r} has no API key: set api_key_env or api_key_file, or the base_url of a "
                "server that needs no key"
            )
        self._flow = Flow(settings)
        self._session: _Session | None = None
        self._opened: genai.Client | None = None

    @property
    def revision(self) -> str:
        """Return the version of the model from the settings. It is a part of the cache keys."""
        return self.settings.revision

    async def generate(self, request: Request) -> Reply:
        """Send the request to the API, and return a reply with one sample (generated text) for each number in
        ``request.indices`` (the numbers of the requested samples). Raises CallError if the request fails after all
        retries.
        """
        if request.continuation is not None:
            raise _not_sent(f"{self.settings.model} cannot score a continuation over Gemini's API: use another model")
        if not request.prompt.media:
            return await self._collect(request, self._parts(request))
        async with self._flow.holding(lambda: self._parts(request), _total_bytes) as parts:
            return await self._collect(request, parts)

    async def _collect(self, request: Request, parts: list[types.Part]) -> Reply:
        size_bytes = _total_bytes(parts) + len(request.prompt.system.encode("utf-8", "replace"))
        if size_bytes > MAX_REQUEST_BYTES:
            raise _not_sent(
                f"the request has {size_bytes} bytes, but Gemini's API accepts at most {MAX_REQUEST_BYTES}: "
                "use smaller images or videos"
            )
        return await self._flow.collect(request, lambda request, n: self._send(request, n, parts))

    def _parts(self, request: Request) -> list[types.Part]:
        """Return the text and the media in exactly the order of the prompt."""
        return [
            self._media_part(part) if isinstance(part, MediaPart) else types.Part(text=whole(part.text))
            for part in request.prompt.user
        ]

    def _media_part(self, part: MediaPart) -> types.Part:
        data, mime = media_bytes(self._media, part)
        if not (taken := _VIDEO_MIMES.get(mime, mime)):
            raise _not_sent(f"Gemini's API does not accept {mime}: convert the video to mp4 or webm")
        return types.Part(inline_data=types.Blob(data=data, mime_type=taken))

    async def _send(self, request: Request, n: int, parts: list[types.Part]) -> Reply:
        wanted = min(n, MAX_CANDIDATES)
        contents, config = types.Content(role="user", parts=parts), self._config(request, wanted)
        models = self._client().aio.models
        asking = models.generate_content(model=self.settings.model, contents=contents, config=config)
        body = (await self._answered(asking)).sdk_http_response.body or ""
        try:
            fields = json.loads(body, strict=False)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise CallError(
                Failure.GARBLED,
                f"the server's response is not a JSON object (check base_url): {scrub(body, self._key)[:120]!r}",
            )
        return gemini_reply(fields, wanted, self._key, self.settings.model)

    def _config(self, request: Request, n: int) -> types.GenerateContentConfig:
        schema = request.prompt.reply_schema if self.settings.structured_output else None
        return types.GenerateContentConfig(
            system_instruction=whole(request.prompt.system) or None,
            temperature=request.sampling.temperature,
            top_p=request.sampling.top_p,
            max_output_tokens=request.sampling.max_tokens,
            candidate_count=n,
            response_mime_type="application/json" if schema is not None else None,
            response_json_schema=json.loads(schema) if schema is not None else None,
            should_return_http_response=True,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            automatic_continuation=False,
        )

    async def _answered(self, asking: Awaitable[Any]) -> Any:
        """Wait for the response to a request, and return it. ``asking`` is the running call of Google's client.

        Raises CallError for all errors of this client and of the connection. An error of the client quotes the body of
        a response that it cannot read, and this body may repeat the API key. So the client's error is not set as the
        cause of the CallError.
        """
        try:
            return await asking
        except aiohttp.ServerTimeoutError as error:
            away = isinstance(error, aiohttp.ConnectionTimeoutError)
            raise CallError(
                Failure.TIMEOUT, self._clean(f"the server did not reply in time: {error}"), unreachable=away
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise CallError(
                Failure.CONNECTION, self._clean(f"the request failed with {type(error).__name__}: {error}")
            ) from None
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise CallError(
                Failure.GARBLED, self._clean(f"the response cannot be read ({type(error).__name__}: {error})")
            ) from None

    async def _raise_for_status(self, response: aiohttp.ClientResponse) -> None:
        """Raise a CallError if the status of a response is not 200.

        aiohttp calls this method before Google's client reads the body of the response. The status is checked here,
        because the error of Google's client does not show the status if the body is broken.
        """
        if response.status == 200:
            return
        data = await read_body(response.content.iter_any())
        meant = status_of(response.status, data)
        delay, header = _RETRY_DELAY.search(data), response.headers.get("retry-after", "")
        wait_s = float(delay[1]) if delay else retry_after_s(header, datetime.now(UTC))
        message = self._clean(f"HTTP {response.status}: {message_of(data)}")
        raise CallError(failure_of(meant), message, status=meant, retry_after_s=wait_s)

    def _clean(self, message: str) -> str:
        return scrub(message, self._key)[:MAX_MESSAGE]

    def _client(self) -> genai.Client:
        """Return the client of Gemini's API. Its connections can be used only on the event loop on which they are
        created. So the client is created at the first call of this method, on the event loop that sends the requests.
        """
        if self._opened is None:
            settings, connector = self.settings, aiohttp.TCPConnector(limit=0)
            timeout = aiohttp.ClientTimeout(sock_connect=settings.connect_timeout_s, sock_read=settings.read_timeout_s)
            self._session = _Session(
                connector=connector,
                timeout=timeout,
                response_class=_Response,
                raise_for_status=self._raise_for_status,
                trust_env=True,
            )
            options = types.HttpOptions(
                base_url=self.settings.base_url or None,
                retry_options=types.HttpRetryOptions(attempts=1),
                aiohttp_client=self._session,
            )
            self._opened = genai.Client(vertexai=False, api_key=self._key, http_options=options)
        return self._opened

    async def check(self) -> str:
        """Request the description of the model from the server. Returns one line for the user that names the model.
        Raises CallError if the server does not have the model.
        """
        found = await self._answered(self._client().aio.models.get(model=self.settings.model))
        if not found.name:
            raise CallError(Failure.GARBLED, "the server's description of the model has no name: check base_url")
        return f"serves {self.settings.model}"

    async def close(self) -> None:
        """Close the connections."""
        if self._opened is not None and self._session is not None:
            await self._session.close()
            await self._opened.aio.aclose()
            self._opened.close()


class _Session(aiohttp.ClientSession):
    """Sends the HTTP requests of Google's client. The timeouts that this client passes are replaced by those of the
    endpoint's settings. Redirects are not followed, so that the API key is never sent to another server."""

    def request(self, method: str, url: Any, **options: Any) -> Any:
        options.update(timeout=self.timeout, allow_redirects=False)
        return super().request(method, url, **options)


class _Response(aiohttp.ClientResponse):
    """Reads a body only up to the limits of :func:`groundtrace.inference.endpoints.wire.read_body`."""

    async def text(self, encoding: str | None = None, errors: str = "strict") -> str:
        return (await read_body(self.content.iter_any())).decode("utf-8", errors)


def gemini_reply(answer: dict[str, Any], n: int, key: str, model: str = "") -> Reply:
    """Convert a response of Gemini's API to a reply. A response holds several candidates (generated texts). The
    reply has the usable ones, at most ``n``, as its samples.

    ``answer`` is the parsed JSON of the response. ``key`` is the API key, which is removed if the server repeats it.
    ``model`` is the requested model. If the response names another model, ``answered_by`` of the samples is that other
    model.

    Raises CallError if no candidate is usable. Only in this case the tokens are counted as wasted. The API reports the
    tokens of the whole response, so the tokens of a single unusable candidate are not known.
    """
    usage = field_of(answer, "usageMetadata")
    thoughts = token_count(usage, "thoughtsTokenCount")
    taken = Usage(
        requests=1,
        tokens_in=token_count(usage, "promptTokenCount"),
        tokens_out=token_count(usage, "candidatesTokenCount") + thoughts,
        tokens_reasoning=thoughts,
        tokens_cached=token_count(usage, "cachedContentTokenCount"),
    )
    read = [_sample(candidate, key) for candidate in _candidates(answer)] or [_none(answer, key)]
    completions = tuple(one for one in read if isinstance(one, Completion))
    for error in read:
        if isinstance(error, CallError) and not completions:
            error.partial = Reply((), replace(taken, tokens_wasted=taken.tokens_in + taken.tokens_out))
            raise error
    answered_by = other_model(field_of(answer, "modelVersion"), model.removeprefix("models/"), key) if model else ""
    used = completions[:n]
    return Reply(tuple(replace(each, answered_by=answered_by) for each in used) if answered_by else used, taken)


def _candidates(answer: dict[str, Any]) -> list[Any]:
    """Return the candidates (generated texts) of a response, as parsed JSON.

    If several candidates have the same index, only the first of them is returned. ``answer`` is the parsed response.
    """
    candidates = field_of(answer, "candidates")
    if not isinstance(candidates, list):
        return []
    numbers = [field_of(candidate, "index") for candidate in candidates]
    return [one for i, one in enumerate(candidates) if numbers[i] is None or numbers.index(numbers[i]) == i]


def _none(answer: dict[str, Any], key: str) -> CallError:
    """Return the error for ``answer``, a response without candidates (generated texts). If the API states why it
    blocked the prompt, the error's message has this reason. ``key`` is the API key, which is removed from the message.
    """
    feedback = field_of(answer, "promptFeedback")
    if not (blocked := field_of(feedback, "blockReason")):
        return CallError(Failure.GARBLED, "the server's response has no candidates")
    message = f"the prompt was blocked: {blocked} {field_of(feedback, 'blockReasonMessage') or ''}"
    return CallError(Failure.REFUSED, scrub(message, key)[:MAX_MESSAGE].rstrip())


def _sample(candidate: Any, key: str) -> Completion | CallError:
    """Return the text and the reasoning of a candidate as a completion.

    A candidate is one of the generated texts in the server's response. If the candidate is not usable, the function
    returns a CallError with the reason; it does not raise this error. ``key`` is the API key, which is removed from the
    texts.
    """
    reason, parts = field_of(candidate, "finishReason"), field_of(field_of(candidate, "content"), "parts") or []
    kind = finish_of(reason) if isinstance(reason, str) else None
    if kind in (Finish.REFUSED, Finish.BROKEN):
        message = (
            f"the model ended the reply with the finish reason {reason} {field_of(candidate, 'finishMessage') or ''}"
        )
        failure = Failure.REFUSED if kind is Finish.REFUSED else Failure.SERVER_ERROR
        return CallError(failure, scrub(message, key)[:MAX_MESSAGE].rstrip())
    texts = [field_of(part, "text") or "" for part in parts] if isinstance(parts, list) else [None]
    # A whole reply always has a known finish reason: without one it is unfinished, with another it was aborted.
    if kind is None or not all(isinstance(text, str) for text in texts):
        return CallError(
            Failure.GARBLED,
            scrub(f"the reply has an unknown form (finish reason {reason!r}): {candidate!r}", key)[:MAX_MESSAGE],
        )
    text = "".join(text for text, part in zip(texts, parts, strict=True) if not field_of(part, "thought"))
    reasoning = "".join(text for text, part in zip(texts, parts, strict=True) if field_of(part, "thought"))
    if not text.strip() and kind is not Finish.CUT:
        return CallError(Failure.EMPTY, f"the reply has no text (finish reason {reason})")
    ended = TRUNCATED if kind is Finish.CUT else "stop"
    return Completion(scrub(whole(text), key), scrub(whole(reasoning), key), ended)


def _total_bytes(parts: list[types.Part]) -> int:
    return sum(map(_size_bytes, parts))


def _size_bytes(part: types.Part) -> int:
    """Return the number of bytes that a part (a text, image or video) needs in the request.

    A request contains its images and videos as base64, so for these parts the size of the base64 text is returned.
    """
    data = part.inline_data.data if part.inline_data is not None else None
    return len((part.text or "").encode()) if data is None else -(-len(data) // 3) * 4


def _not_sent(message: str) -> CallError:
    return CallError(Failure.UNSUPPORTED, message[:MAX_MESSAGE], partial=NOT_SENT)
