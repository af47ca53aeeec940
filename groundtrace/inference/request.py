"""The request and the reply of a model call, and the key under which a reply is kept."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import Field

from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.messages import MediaPart, Part
from groundtrace.schemas.usage import NOTHING, ONE_REQUEST, Usage

KEY_VERSION = 1

Temperature = Annotated[float, Field(ge=0, le=2)]
"""What the servers take."""


@dataclass(frozen=True)
class Sampling:
    """How to sample: ``n`` replies at ``temperature`` and ``top_p``, each of at most ``max_tokens`` new tokens."""

    n: int = 1
    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 2048

    def __post_init__(self) -> None:
        for name in ("n", "max_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.temperature <= 2:
            raise ValueError(f"temperature must be in [0, 2], got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")


@dataclass(frozen=True)
class Continuation:
    """A text whose log-probability is wanted: that of ``text`` after the prompt and the reply's beginning ``given``.

    For Argos Eq. 5, P(ŷ|q,r,v), ``given`` is the reasoning r and ``text`` the answer ŷ.
    """

    given: str
    text: str


@dataclass(frozen=True)
class Request:
    """A filled prompt with its sampling. ``indices`` are the sample numbers wanted, ``range(n)`` or a part of it.

    With a ``continuation`` nothing is sampled: the one completion is its text with a log-probability for each token.
    ``arrived``, if given, is told of each part of the reply when the server has sent it, before another request takes
    its place: the number of the samples before it, and the part. :class:`groundtrace.inference.flow.requests.Flow` does
    so.
    """

    prompt: RenderedPrompt
    sampling: Sampling
    indices: tuple[int, ...]
    continuation: Continuation | None = None
    arrived: "Callable[[int, Reply], None] | None" = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Completion:
    """One sample of a model. ``reasoning`` is what a server returns apart from the text, "" if nothing.

    Only a scored continuation has ``logprobs`` (nats), one for each of its tokens. ``answered_by`` is the model that
    the server names in its response, "" where that is the one asked for, or none. ``taken_from`` is the run folder
    from whose cache it was taken over, "" where it was asked for here.
    """

    text: str
    reasoning: str = ""
    finish_reason: str = "stop"
    logprobs: tuple[float, ...] = ()
    answered_by: str = ""
    taken_from: str = ""

    @property
    def is_truncated(self) -> bool:
        """Whether the budget of tokens, or the server's own limit, cut the sample off before its end."""
        return self.finish_reason == "length"


@dataclass(frozen=True)
class Reply:
    """The samples in the order of the request's indices, with what they took in requests and tokens."""

    completions: tuple[Completion, ...]
    usage: Usage = ONE_REQUEST


def joined(replies: Sequence[Reply]) -> Reply:
    """Several replies to parts of one request as one."""
    return Reply(
        tuple(completion for reply in replies for completion in reply.completions),
        sum((reply.usage for reply in replies), NOTHING),
    )


def cache_key(
    model: str,
    revision: str,
    prompt: RenderedPrompt,
    sampling: Sampling,
    index: int,
    continuation: Continuation | None = None,
) -> str:
    """SHA-256 of all that can change the reply, as 64 hexadecimal digits.

    That is the model and its declared revision, the messages with media digests, the reply schema and the sampling
    parameters with the sample's number, and the continuation to be scored, if any; not ``n`` and not ``max_tokens``,
    so that a larger budget finds the good replies.
    """
    body = {
        "v": KEY_VERSION,
        "model": model,
        "revision": revision,
        "system": prompt.system,
        "user": [_canonical(part) for part in prompt.user],
        "schema": prompt.reply_schema,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "sample": index,
    }
    if continuation is not None:
        body["continuation"] = [continuation.given, continuation.text]
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def fresh_key(key: str, since: str) -> str:
    """The key of a sample where only replies count that were asked for ``since`` an ISO time ("": all do)."""
    return hashlib.sha256(f"{since} {key}".encode()).hexdigest() if since else key


def _canonical(part: Part) -> dict[str, str]:
    if isinstance(part, MediaPart):
        return {"media": part.sha256, "kind": part.kind}
    return {"text": part.text}


CHARACTERS_PER_TOKEN = 4
TOKENS_PER_MEDIUM = 1000


def with_tokens(reply: Reply, prompt: RenderedPrompt) -> Reply:
    """The reply with a rough count in place of each of the two counts of tokens that its server has not told: limits
    and budgets would take it for free. Every prompt has tokens, and every text that came.
    """
    usage = reply.usage
    characters = sum(len(each.text) + len(each.reasoning) for each in reply.completions)
    tokens_in = usage.tokens_in or estimated_tokens(prompt)
    tokens_out = usage.tokens_out or -(-characters // CHARACTERS_PER_TOKEN)
    return replace(reply, usage=replace(usage, tokens_in=tokens_in, tokens_out=tokens_out))


def estimated_tokens(prompt: RenderedPrompt) -> int:
    """A rough count of the prompt's tokens, for rate limits and budgets where the server has not told the exact one."""
    texts = sum(len(part.text) for part in prompt.user if not isinstance(part, MediaPart)) + len(prompt.system)
    return texts // CHARACTERS_PER_TOKEN + TOKENS_PER_MEDIUM * len(prompt.media)
