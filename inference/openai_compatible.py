"""Endpoints that speak OpenAI's chat API: vLLM, SGLang, OpenAI and others, through the official ``openai`` client."""

import asyncio
import base64
import json
import os
from typing import Any

import openai

from inference.errors import CallError, Failure
from inference.request import Completion, Reply, Request
from inference.retry import with_retries
from inference.settings import EndpointSettings
from schemas.messages import MediaPart, TextPart
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
        """See :class:`inference.endpoint.Endpoint`; asked again for samples that came back empty or not at all."""
        got: list[Completion] = []
        requests = retries = tokens_in = tokens_out = tokens_reasoning = 0
        while len(got) < len(request.indices):
            wanted = min(len(request.indices) - len(got), self.settings.samples_per_request)
            async with self._slots:
                reply, sent = await with_retries(lambda n=wanted: self._send(request, n), self.settings.max_retries)
            got.extend(reply.completions)
            requests += sent
            retries += sent - 1
            tokens_in += reply.tokens_in
            tokens_out += reply.tokens_out
            tokens_reasoning += reply.tokens_reasoning
        return Reply(tuple(got), requests, retries, tokens_in, tokens_out, tokens_reasoning)

    async def _send(self, request: Request, n: int) -> Reply:
        body = await asyncio.to_thread(self._body, request, n)
        try:
            answer = await self._client.chat.completions.create(**body)
        except openai.APIError as error:
            raise _as_call_error(error) from error
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

    async def check(self) -> str:
        """Ask the server for its models."""
        try:
            listed = await self._client.models.list()
        except openai.APIError as error:
            raise _as_call_error(error) from error
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
    """The usable samples of a response, at most ``n``; raises when there is none. An empty sample is not usable."""
    choices = getattr(answer, "choices", None)
    if not choices:
        raise CallError(Failure.GARBLED, "the response has no choices")
    completions = []
    for choice in choices[:n]:
        message = choice.message
        if getattr(message, "refusal", None):
            raise CallError(Failure.REFUSED, message.refusal[:200])
        reasoning = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None) or ""
        text = message.content or ""
        if text.strip() or choice.finish_reason == "length":
            completions.append(Completion(text, reasoning, choice.finish_reason or "stop"))
    if not completions:
        raise CallError(Failure.EMPTY, f"empty content, finish_reason {choices[0].finish_reason}")
    usage = answer.usage
    details = getattr(usage, "completion_tokens_details", None)
    return Reply(
        tuple(completions),
        tokens_in=usage.prompt_tokens if usage else 0,
        tokens_out=usage.completion_tokens if usage else 0,
        tokens_reasoning=getattr(details, "reasoning_tokens", None) or 0,
    )


def _as_call_error(error: openai.APIError) -> CallError:
    if isinstance(error, openai.APITimeoutError):
        return CallError(Failure.TIMEOUT, "no reply in time")
    if isinstance(error, openai.APIConnectionError):
        return CallError(Failure.CONNECTION, str(error.__cause__ or error))
    if isinstance(error, openai.APIStatusError):
        failure = {401: Failure.UNAUTHORISED, 403: Failure.UNAUTHORISED, 429: Failure.RATE_LIMITED}.get(
            error.status_code, Failure.SERVER_ERROR if error.status_code >= 500 else Failure.BAD_REQUEST
        )
        wait = error.response.headers.get("retry-after", "")
        retry_after_s = float(wait) if wait.replace(".", "", 1).isdigit() else None
        return CallError(failure, f"HTTP {error.status_code}: {error.message[:300]}", retry_after_s=retry_after_s)
    return CallError(Failure.GARBLED, error.message[:300])
