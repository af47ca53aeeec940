"""Endpoints with OpenAI's chat API: vLLM, SGLang, OpenAI and others.

Requests use aiohttp: the official client needs several times the CPU time per call and keeps a fast server less busy
(benchmarks/bench_saturation.py measures both). Redirects are not followed, since the API key would be sent along.
"""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import aiohttp

from groundtrace.inference.endpoints.continuation import score
from groundtrace.inference.endpoints.keys import api_key, scrub
from groundtrace.inference.endpoints.media_parts import media_bytes
from groundtrace.inference.endpoints.openai_reply import reply_of
from groundtrace.inference.endpoints.wire import failure_of, field_of, message_of, read_body, retry_after_s, status_of
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.flow.requests import Flow
from groundtrace.inference.request import Completion, Reply, Request
from groundtrace.inference.settings import EndpointSettings
from groundtrace.schemas.messages import MediaPart, TextPart
from groundtrace.schemas.usage import Usage
from groundtrace.vision.media import MediaStore

MAX_MESSAGE_CHARS = 300
MAX_NAMED = 8
"""The most models of a server's list that a message names."""


class OpenAIEndpoint:
    """One model behind ``base_url``. See :class:`groundtrace.inference.endpoint.Endpoint`."""

    def __init__(self, settings: EndpointSettings, media: MediaStore, threads: int) -> None:
        if not settings.base_url:
            raise ValueError(f"endpoint {settings.model!r}: an openai endpoint needs a base_url")
        self.settings = settings
        self._url = settings.base_url.rstrip("/")
        self._media = media
        self._key = api_key(settings)
        self._flow = Flow(settings)
        self._session: aiohttp.ClientSession | None = None

    @property
    def revision(self) -> str:
        """The revision in the config, with the seed, which changes the samples."""
        return revision_of(self.settings)

    async def generate(self, request: Request) -> Reply:
        """See :class:`groundtrace.inference.endpoint.Endpoint`."""
        if not request.prompt.media:
            return await self._collect(request, [])
        media = request.prompt.media
        reading = self._flow.holding(lambda: [media_bytes(self._media, part) for part in media], _encoded_bytes)
        async with reading as files:
            return await self._collect(request, files)

    async def _collect(self, request: Request, files: list[tuple[bytes, str]]) -> Reply:
        messages = _messages(request, files)
        return await self._flow.collect(request, lambda request, n: self._send(request, n, messages))

    async def _send(self, request: Request, n: int, messages: list[dict[str, Any]]) -> Reply:
        if request.continuation is not None:
            try:
                logprobs, tokens_in = await score(self._post, self.settings.model, messages, request.continuation)
            except CallError as error:
                message = self._clean(error.message)
                raise CallError(
                    error.failure, message, retry_after_s=error.retry_after_s, partial=error.partial
                ) from None
            completion = Completion(request.continuation.text, logprobs=logprobs)
            return Reply((completion,), Usage(requests=1, tokens_in=tokens_in))
        answer = await self._post("chat/completions", self._body(request, n, messages))
        return reply_of(answer, n, self._key, self.settings.model)

    def _body(self, request: Request, n: int, messages: list[dict[str, Any]]) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": messages,
            "n": n,
            "temperature": request.sampling.temperature,
            "top_p": request.sampling.top_p,
            "max_tokens": request.sampling.max_tokens,
        }
        if self.settings.seed is not None:
            body["seed"] = self.settings.seed + request.indices[0]
        if request.prompt.reply_schema is not None and self.settings.structured_output:
            schema = json.loads(request.prompt.reply_schema)
            name = "".join(letter if letter.isalnum() else "_" for letter in request.prompt.name)
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": name, "schema": schema, "strict": True},
            }
        return body

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        """The server's JSON; ``path`` is under the base URL, or with a leading slash under the server's root."""
        base = self._url.removesuffix("/v1") if path.startswith("/") else f"{self._url}/"
        return await self._answer("POST", f"{base}{path}", json.dumps(body).encode())

    async def _answer(self, method: str, url: str, body: bytes | None = None) -> Any:
        """The server's JSON. Raises CallError for all errors of connection and response."""
        sending = self._client().request(method, url, data=body, allow_redirects=False)
        # The client's errors quote a broken response, which may echo the API key, so they are not kept as causes.
        try:
            async with sending as response:
                data = await read_body(response.content.iter_any())
                if response.status != 200:
                    raise self._refusal(response.status, data, response.headers)
        except aiohttp.ServerTimeoutError as error:
            away = isinstance(error, aiohttp.ConnectionTimeoutError)
            raise CallError(Failure.TIMEOUT, self._clean(f"no reply in time: {error}"), unreachable=away) from None
        except aiohttp.ClientPayloadError as error:
            raise CallError(Failure.CONNECTION, self._clean(f"the body ended early: {error}")) from None
        except (aiohttp.ClientError, OSError) as error:
            raise CallError(Failure.CONNECTION, self._clean(f"{type(error).__name__}: {error}")) from None
        return self._parsed(data)

    def _refusal(self, status: int, data: bytes, headers: Mapping[str, str]) -> CallError:
        """The error for an HTTP status that is not 200."""
        wait_s = retry_after_s(headers.get("retry-after", ""), _now())
        message = self._clean(f"HTTP {status}: {message_of(data)}")
        meant = status_of(status, data)
        return CallError(failure_of(meant), message, status=meant, retry_after_s=wait_s)

    def _parsed(self, data: bytes) -> Any:
        try:
            return json.loads(data, strict=False)
        except (ValueError, RecursionError):
            text = scrub(data.decode("utf-8", "replace"), self._key)
            raise CallError(Failure.GARBLED, f"not JSON: {text[:120]!r}") from None

    def _clean(self, message: str) -> str:
        """The message without the key, then shortened; in this order, so that no part of a key is left."""
        return scrub(message, self._key)[:MAX_MESSAGE_CHARS]

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(
                total=None,
                connect=None,
                sock_connect=self.settings.connect_timeout_s,
                sock_read=self.settings.read_timeout_s,
            )
            headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json"}
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers)
        return self._session

    async def check(self) -> str:
        """Ask the server for its models."""
        try:
            listed = field_of(await self._answer("GET", f"{self._url}/models"), "data")
        except CallError as error:
            raise self._with_hint(error) from None
        if not isinstance(listed, list):
            raise self._with_hint(CallError(Failure.GARBLED, f"{self._url}/models lists no models"))
        names = [str(field_of(model, "id")) for model in listed]
        if self.settings.check_model and self.settings.model not in names:
            told = self._clean(f"{self._url} serves {names[:MAX_NAMED]}, not {self.settings.model!r}")
            raise CallError(Failure.UNKNOWN_MODEL, told)
        return f"serves {self.settings.model}"

    def _with_hint(self, error: CallError) -> CallError:
        """The error, with a hint if the URL does not end with /v1, as that of most servers does."""
        if self._url.endswith("/v1") or error.failure not in (Failure.BAD_REQUEST, Failure.GARBLED):
            return error
        hint = f"{error.message} (most servers have their API under /v1: is base_url {self._url}/v1?)"
        return CallError(error.failure, hint)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


def _now() -> datetime:
    return datetime.now(UTC)


def revision_of(settings: EndpointSettings) -> str:
    """The declared revision for cache keys, with the seed if one is set."""
    return settings.revision if settings.seed is None else f"{settings.revision}#seed={settings.seed}"


def _messages(request: Request, files: list[tuple[bytes, str]]) -> list[dict[str, Any]]:
    """The conversation, with text and media in exactly the order of the prompt."""
    data = iter(files)
    content = [
        {"type": "text", "text": part.text} if isinstance(part, TextPart) else _media(part, *next(data))
        for part in request.prompt.user
    ]
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if request.prompt.system:
        messages.insert(0, {"role": "system", "content": request.prompt.system})
    return messages


def _encoded_bytes(files: list[tuple[bytes, str]]) -> int:
    return sum(len(data) for data, _ in files) * 4 // 3


def _media(part: MediaPart, data: bytes, mime: str) -> dict[str, Any]:
    kind = "video_url" if part.kind == "video" else "image_url"
    return {"type": kind, kind: {"url": f"data:{mime};base64,{base64.b64encode(data).decode()}"}}
