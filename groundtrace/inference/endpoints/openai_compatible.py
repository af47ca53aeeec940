"""Sends requests to servers with OpenAI's chat API, which vLLM, SGLang, OpenAI and others provide.

OpenAI's official client is not used. It needs several times the CPU time per call, so it cannot send enough requests to
keep a fast server busy (benchmarks/bench_saturation.py measures the CPU time and the calls per second).
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

from groundtrace.grading.messages import MediaPart, TextPart
from groundtrace.inference.endpoints.continuation import score
from groundtrace.inference.endpoints.http_endpoint import File, HttpEndpoint
from groundtrace.inference.endpoints.openai_reply import openai_reply
from groundtrace.inference.errors import CallError
from groundtrace.inference.request import Completion, Reply, Request
from groundtrace.inference.settings import EndpointSettings
from groundtrace.schemas.usage import Usage


class OpenAIEndpoint(HttpEndpoint):
    """Sends requests to one model of the server at ``settings.base_url``, which has OpenAI's chat API
    (:class:`groundtrace.inference.endpoint.Endpoint`).
    """

    @property
    def revision(self) -> str:
        """Return the model's revision from the settings, followed by the seed if the settings have one. Another seed
        gives other samples, so the seed is a part of the cache key.
        """
        return revision_of(self.settings)

    def conversation(self, request: Request, files: Sequence[File]) -> list[dict[str, Any]]:
        """Return the request's prompt as a list of chat messages. Texts and media are in exactly the order of the
        prompt. ``files`` are the bytes and MIME types of the images and videos in this order.
        """
        data = iter(files)
        content = [
            {"type": "text", "text": part.text} if isinstance(part, TextPart) else _media(part, *next(data))
            for part in request.prompt.user
        ]
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        if request.prompt.system:
            messages.insert(0, {"role": "system", "content": request.prompt.system})
        return messages

    async def ask(self, request: Request, n: int, conversation: list[dict[str, Any]]) -> Reply:
        """Send one HTTP request, and return the reply. It has at most ``n`` samples (generated texts). If the request
        has a continuation (a given text), the reply has the log-probabilities of this text's tokens instead.
        ``conversation`` is the prompt as a list of chat messages. Raises CallError if the request fails.
        """
        if request.continuation is not None:
            try:
                logprobs, tokens_in = await score(self.post, self.settings.model, conversation, request.continuation)
            except CallError as error:
                message = self.clean(error.message)
                raise CallError(
                    error.failure, message, retry_after_s=error.retry_after_s, partial=error.partial
                ) from None
            completion = Completion(request.continuation.text, logprobs=logprobs)
            return Reply((completion,), Usage(requests=1, tokens_in=tokens_in))
        answer = await self.post("chat/completions", self._body(request, n, conversation))
        return openai_reply(answer, n, self.key, self.settings.model)

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


def revision_of(settings: EndpointSettings) -> str:
    """Return the revision for cache keys: the revision from the settings, followed by the seed if the settings have
    one.
    """
    return settings.revision if settings.seed is None else f"{settings.revision}#seed={settings.seed}"


def _media(part: MediaPart, data: bytes, mime: str) -> dict[str, Any]:
    kind = "video_url" if part.kind == "video" else "image_url"
    return {"type": kind, kind: {"url": f"data:{mime};base64,{base64.b64encode(data).decode()}"}}
