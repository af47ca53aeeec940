"""Endpoints that speak OpenAI's chat API: vLLM, SGLang, OpenAI and others, through the official ``openai`` client."""

import asyncio
import base64
import json
import math
import os
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import openai

from inference.errors import CallError, Failure
from inference.request import Completion, Reply, Request, joined
from inference.retry import with_retries
from inference.settings import EndpointSettings
from schemas.messages import MediaPart, TextPart
from schemas.text import storable
from vision.media import MediaStore
from vision.overlay import encode_png

_SHOWN_AS_IS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


class OpenAIEndpoint:
    """One model behind ``base_url``. See :class:`inference.endpoint.Endpoint`."""

    def __init__(self, settings: EndpointSettings, media: MediaStore, threads: int) -> None:
        if not settings.base_url:
            raise ValueError(f"endpoint {settings.model!r}: an openai endpoint needs a base_url")
        self.settings = settings
        self._media = media
        self._slots = asyncio.Semaphore(settings.max_concurrency)
        self._client = openai.AsyncOpenAI(
            base_url=settings.base_url,
            api_key=_api_key(settings),
            max_retries=0,
            timeout=openai.Timeout(settings.timeout_s, connect=settings.connect_timeout_s),
        )

    @property
    def revision(self) -> str:
        """The revision that the config declares."""
        return self.settings.revision

    async def generate(self, request: Request) -> Reply:
        """See :class:`inference.endpoint.Endpoint`; asked again for samples that came back unusable or not at all."""
        parts: list[Reply] = []
        while (got := sum(len(part.completions) for part in parts)) < len(request.indices):
            wanted = min(len(request.indices) - got, self.settings.samples_per_request)
            try:
                part, tries = await with_retries(lambda n=wanted: self._send(request, n), self.settings.max_retries)
            except CallError as error:
                error.partial = joined([*parts, Reply((), requests=error.requests, retries=error.requests - 1)])
                raise
            parts.append(replace(part, requests=tries, retries=tries - 1))
        return joined(parts)

    async def _send(self, request: Request, n: int) -> Reply:
        async with self._slots:
            body = await asyncio.to_thread(self._body, request, n)
            try:
                answer = await self._client.chat.completions.create(**body)
            except openai.APIError as error:
                raise self._as_call_error(error) from error
            except ValueError as error:  # a body that is not JSON
                raise CallError(Failure.GARBLED, f"not JSON: {error}"[:300]) from error
        return _reply(answer, n)

    def _body(self, request: Request, n: int) -> dict[str, Any]:
        content = [
            {"type": "text", "text": part.text} if isinstance(part, TextPart) else self._image(part)
            for part in request.prompt.user
        ]
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        if request.prompt.system:
            messages.insert(0, {"role": "system", "content": request.prompt.system})
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": messages,
            "n": n,
            "temperature": request.sampling.temperature,
            "top_p": request.sampling.top_p,
            "max_tokens": request.sampling.max_tokens,
        }
        if request.prompt.reply_schema is not None and self.settings.structured_output:
            schema = json.loads(request.prompt.reply_schema)
            name = request.prompt.name.replace(".", "_")
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": name, "schema": schema, "strict": True},
            }
        return body

    def _image(self, part: MediaPart) -> dict[str, Any]:
        data = self._media.open_bytes(part.uri)
        mime = next((mime for magic, mime in _SHOWN_AS_IS.items() if data.startswith(magic)), None)
        if mime is None or not part.upright:
            data, mime = encode_png(self._media.pixels(part.uri)), "image/png"
        url = f"data:{mime};base64,{base64.b64encode(data).decode()}"
        return {"type": "image_url", "image_url": {"url": url}}

    def _as_call_error(self, error: openai.APIError) -> CallError:
        """The client's error as ours, without the API key, which some servers echo."""
        if isinstance(error, openai.APITimeoutError):
            return CallError(Failure.TIMEOUT, "no reply in time")
        if isinstance(error, openai.APIConnectionError):
            return CallError(Failure.CONNECTION, str(error.__cause__ or error)[:300])
        message = error.message.replace(self._client.api_key, "***")[:300]
        if isinstance(error, openai.APIStatusError):
            wait_s = retry_after_s(error.response.headers.get("retry-after", ""), datetime.now(UTC))
            return CallError(
                _failure_of(error.status_code), f"HTTP {error.status_code}: {message}", retry_after_s=wait_s
            )
        return CallError(Failure.GARBLED, message)

    async def check(self) -> str:
        """Ask the server for its models."""
        try:
            listed = await self._client.models.list()
        except openai.APIError as error:
            raise self._as_call_error(error) from error
        names = [model.id for model in listed.data]
        if self.settings.model not in names:
            raise CallError(
                Failure.BAD_REQUEST, f"{self.settings.base_url} serves {names}, not {self.settings.model!r}"
            )
        return f"serves {self.settings.model}"

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _api_key(settings: EndpointSettings) -> str:
    if not settings.api_key_env:
        return "none"
    key = os.environ.get(settings.api_key_env)
    if not key:
        raise ValueError(f"endpoint {settings.model!r}: the environment variable {settings.api_key_env} is not set")
    return key


def _reply(answer: Any, n: int) -> Reply:
    """The usable samples of a response, at most ``n``; raises CallError when there is none.

    An empty sample and a refused one are not usable, nor is one of another form than the API's.
    """
    choices = getattr(answer, "choices", None)
    if not isinstance(choices, list) or not choices:
        raise CallError(Failure.GARBLED, "the response has no choices")
    completions, failures = [], []
    for choice in choices[:n]:
        try:
            completions.append(_completion(choice))
        except CallError as error:
            failures.append(error)
    if not completions:
        raise failures[0]
    usage = getattr(answer, "usage", None)
    return Reply(
        tuple(completions),
        tokens_in=_tokens(usage, "prompt_tokens"),
        tokens_out=_tokens(usage, "completion_tokens"),
        tokens_reasoning=_tokens(getattr(usage, "completion_tokens_details", None), "reasoning_tokens"),
    )


def _completion(choice: Any) -> Completion:
    message = getattr(choice, "message", None)
    text, refusal = getattr(message, "content", None) or "", getattr(message, "refusal", None)
    reasoning = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None) or ""
    finish_reason = getattr(choice, "finish_reason", None) or "stop"
    if not all(isinstance(value, str) for value in (text, reasoning, finish_reason)) or message is None:
        raise CallError(Failure.GARBLED, f"a choice of another form: {choice!r:.120}")
    if refusal:
        raise CallError(Failure.REFUSED, str(refusal)[:200])
    if not text.strip() and finish_reason != "length":
        raise CallError(Failure.EMPTY, f"empty content, finish_reason {finish_reason}")
    return Completion(storable(text), storable(reasoning), finish_reason)


def _tokens(usage: Any, name: str) -> int:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) else 0


def _failure_of(status: int) -> Failure:
    if status in (401, 403):
        return Failure.UNAUTHORISED
    if status == 408:
        return Failure.TIMEOUT
    if status == 429:
        return Failure.RATE_LIMITED
    return Failure.SERVER_ERROR if status >= 500 else Failure.BAD_REQUEST


def retry_after_s(header: str, now: datetime) -> float | None:
    """Seconds of a Retry-After header, given as a number or as a date; None when it is neither."""
    try:
        seconds = float(header)
    except ValueError:
        try:
            return max(0.0, (parsedate_to_datetime(header) - now).total_seconds())
        except (TypeError, ValueError):
            return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
