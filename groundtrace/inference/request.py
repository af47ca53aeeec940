"""Defines the request to a model and its reply, and the key under which the cache stores a reply."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import Field

from groundtrace.grading.messages import MediaPart, Part
from groundtrace.prompts.loader import RenderedPrompt
from groundtrace.schemas.text import whole
from groundtrace.schemas.usage import NOTHING, ONE_REQUEST, Usage

KEY_VERSION = 1

TRUNCATED = "length"
"""The ``finish_reason`` of a truncated sample."""

Temperature = Annotated[float, Field(ge=0, le=2)]
"""A sampling temperature, in the range that the servers accept."""


@dataclass(frozen=True)
class Sampling:
    """Holds the parameters with which a model samples its replies. ``n`` is the number of samples, and ``max_tokens``
    is the largest number of tokens of each sample. ``temperature`` is from 0 to 2, and ``top_p`` is above 0 and at
    most 1. The constructor raises ValueError for other values.
    """

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
    """Holds a text whose log-probability a model computes. ``given`` is the beginning of a reply, and ``text`` is its
    continuation. The model returns the log-probability of ``text`` after ``given``.

    For P(ŷ|q,r,v), Eq. 5 of the paper Argos, ``given`` is the reasoning r and ``text`` the answer ŷ. The question q and
    the image v are in the prompt.
    """

    given: str
    text: str


@dataclass(frozen=True)
class Request:
    """Holds one request to a model: a rendered prompt with its sampling parameters. ``indices`` are the numbers of the
    samples (generated texts) to return, which are in ``range(sampling.n)``. E.g. if three samples are needed and sample
    0 is in the cache, ``indices`` is (1, 2).

    If ``continuation`` is given, nothing is sampled. The only completion is then the continuation's text with a
    log-probability for each token.

    A reply may arrive in several parts. If ``arrived`` is not None, it is a coroutine function that is awaited for each
    part as soon as the part has arrived. Its arguments are the number of samples that arrived before this part, and the
    part itself. Until the function returns, the request counts against the endpoint's limit of concurrent requests
    (:class:`groundtrace.inference.flow.requests.Flow`).
    """

    prompt: RenderedPrompt
    sampling: Sampling
    indices: tuple[int, ...]
    continuation: Continuation | None = None
    arrived: "Callable[[int, Reply], Awaitable[None]] | None" = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Completion:
    """Holds one sample: one text that a model generated for a prompt. ``text`` is this text. ``reasoning`` is the
    model's thinking if the server returns it separately from the text, else "". ``finish_reason`` is "stop" for a
    complete sample and "length" for a truncated one.

    ``logprobs`` are the log-probabilities (nats) of the tokens if a given continuation was scored, else ().
    ``answered_by`` is the model that the server names in its response. It is "" if the server names the requested model
    or no model. ``taken_from`` is the run folder from whose cache the sample was copied. It is "" if the sample was
    requested in this run. ``made_s`` is the Unix time in seconds at which a copied sample was first stored. It is 0 if
    the sample was requested in this run, or if an earlier version of the code copied it.
    """

    text: str
    reasoning: str = ""
    finish_reason: str = "stop"
    logprobs: tuple[float, ...] = ()
    answered_by: str = ""
    taken_from: str = ""
    made_s: float = 0.0

    def __post_init__(self) -> None:
        """Replace each lone surrogate (half of a character) in the model's texts by U+FFFD, since rows and files cannot
        hold surrogates. This is done here, because each sample from an endpoint or a cache becomes a Completion."""
        for name in ("text", "reasoning", "finish_reason", "answered_by"):
            written = getattr(self, name)
            if (kept := whole(written)) != written:
                object.__setattr__(self, name, kept)

    @property
    def is_truncated(self) -> bool:
        """Return whether the sample was cut off by the token budget or the server's own limit."""
        return self.finish_reason == TRUNCATED


@dataclass(frozen=True)
class Reply:
    """Holds the answer to a request. ``completions`` are its samples (generated texts), in the order of the request's
    indices. ``usage`` holds the number of requests and tokens that these samples needed.
    """

    completions: tuple[Completion, ...]
    usage: Usage = ONE_REQUEST


def joined(replies: Sequence[Reply]) -> Reply:
    """Combine several replies into one. ``replies`` are the replies to the parts or attempts of one request, in order.
    The result has all samples (generated texts) of these replies, and the sum of the usage of all replies.
    """
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
    """Return the cache key of one sample (one text that a model generated). It is the SHA-256, as 64 hexadecimal
    digits, of everything that can change this text. ``index`` is the number of the sample among the samples of its
    call.

    The hash covers the model and its declared revision, the messages of ``prompt`` with the hashes of the media, the
    reply schema, the sampling parameters with the sample's number, and the continuation to score, if any. The hash does
    not cover ``n`` and ``max_tokens``. So a request with a larger token budget finds the complete replies to a request
    with a smaller budget.
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
    """Return the cache key under which a reply is stored if old replies must not be used. ``key`` is the normal key of
    the reply (:func:`cache_key`). ``since`` is an ISO time: only replies that were requested after it may be used.

    The result depends on both arguments. So the cache does not find replies that were stored under another ``since``.
    If ``since`` is "", all replies may be used, and ``key`` is returned unchanged.
    """
    return hashlib.sha256(f"{since} {key}".encode()).hexdigest() if since else key


def _canonical(part: Part) -> dict[str, str]:
    if isinstance(part, MediaPart):
        return {"media": part.sha256, "kind": part.kind}
    return {"text": part.text}


CHARACTERS_PER_TOKEN = 4
TOKENS_PER_MEDIUM = 1000


def with_tokens(reply: Reply, prompt: RenderedPrompt) -> Reply:
    """Fill in the token counts that the server did not report. Returns a copy of ``reply`` in which a count of 0 is
    replaced by an estimate from the texts of ``prompt`` and ``reply``. Without the estimate, rate limits and budgets
    would count the reply as 0 tokens.
    """
    usage = reply.usage
    characters = sum(len(each.text) + len(each.reasoning) for each in reply.completions)
    tokens_in = usage.tokens_in or estimated_tokens(prompt)
    tokens_out = usage.tokens_out or -(-characters // CHARACTERS_PER_TOKEN)
    return replace(reply, usage=replace(usage, tokens_in=tokens_in, tokens_out=tokens_out))


def estimated_tokens(prompt: RenderedPrompt) -> int:
    """Return an estimate of the prompt's input tokens, from the length of its texts and the number of its images and
    videos. Rate limits and budgets use it if the exact number is not known.
    """
    texts = sum(len(part.text) for part in prompt.user if not isinstance(part, MediaPart)) + len(prompt.system)
    return texts // CHARACTERS_PER_TOKEN + TOKENS_PER_MEDIUM * len(prompt.media)
