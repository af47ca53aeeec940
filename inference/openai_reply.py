"""Reading what an OpenAI-compatible server sent: plain JSON of unknown form into replies or typed failures."""

import json
import math
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from inference.errors import CallError, Failure
from inference.keys import scrub
from inference.request import Completion, Reply
from schemas.text import storable

MAX_FINISH_REASON_CHARS = 40
MOST_TOKENS = 10**9
"""No request takes more: a larger count is no count, and would break sums and prices."""


@dataclass(frozen=True)
class _Usage:
    tokens_in: int
    tokens_out: int
    reasoning: int
    cached: int


def reply_of(answer: Any, n: int, key: str) -> Reply:
    """The usable samples of a response, at most ``n``, without the API key, should a server have echoed it.

    Raises CallError when there is none. An empty sample and a refused one are not usable, nor is one of another form
    than the API's, nor a second one under the same index. The tokens of unusable samples are wasted; where the server
    gives one sum for all, each sample counts for an equal share of it.
    """
    choices = _field(answer, "choices")
    usage = _usage(_field(answer, "usage"))
    if not isinstance(choices, list) or not choices:
        raise CallError(Failure.GARBLED, "the response has no choices", partial=_spent(usage, (), 1.0))
    completions, failures, numbers = [], [], set()
    for place, choice in enumerate(choices):
        index = _field(choice, "index")
        number = index if isinstance(index, int) else place
        if number in numbers:
            failures.append(CallError(Failure.GARBLED, f"two choices have the index {number}"))
            continue
        numbers.add(number)
        try:
            completions.append(_completion(choice, key))
        except CallError as error:
            failures.append(error)
    used = tuple(completions[:n])
    reply = _spent(usage, used, 1 - len(used) / len(choices))
    if not used:
        failures[0].partial = reply
        raise failures[0]
    return reply


def _spent(usage: _Usage, completions: tuple[Completion, ...], wasted: float) -> Reply:
    tokens_wasted = round(usage.tokens_out * wasted) + (usage.tokens_in if not completions else 0)
    return Reply(
        completions,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        tokens_reasoning=usage.reasoning,
        tokens_cached=usage.cached,
        tokens_wasted=tokens_wasted,
    )


def _completion(choice: Any, key: str) -> Completion:
    message = _field(choice, "message")
    text, refusal = _field(message, "content") or "", _field(message, "refusal")
    reasoning = _field(message, "reasoning_content") or _field(message, "reasoning") or ""
    finish_reason = _field(choice, "finish_reason") or "stop"
    if not isinstance(message, dict) or not all(isinstance(part, str) for part in (text, reasoning, finish_reason)):
        raise CallError(Failure.GARBLED, f"a choice of another form: {scrub(repr(choice), key):.120}")
    finish_reason = scrub(storable(finish_reason), key)[:MAX_FINISH_REASON_CHARS]
    if refusal or finish_reason == "content_filter":
        raise CallError(Failure.REFUSED, scrub(str(refusal or finish_reason), key)[:200])
    if not text.strip() and finish_reason != "length":
        raise CallError(Failure.EMPTY, f"empty content, finish_reason {finish_reason}")
    return Completion(scrub(storable(text), key), scrub(storable(reasoning), key), finish_reason)


def _usage(usage: Any) -> _Usage:
    tokens_in = _tokens(usage, "prompt_tokens")
    return _Usage(
        tokens_in,
        _tokens(usage, "completion_tokens"),
        _tokens(_field(usage, "completion_tokens_details"), "reasoning_tokens"),
        min(tokens_in, _tokens(_field(usage, "prompt_tokens_details"), "cached_tokens")),
    )


def _tokens(usage: Any, name: str) -> int:
    value = _field(usage, name)
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def message_of(data: bytes) -> str:
    """What an error body says: its message where it has OpenAI's form, else the beginning of the body."""
    text = data[:4000].decode("utf-8", "replace")
    try:
        body = json.loads(data, strict=False)
    except (ValueError, RecursionError):
        return text
    error = _field(body, "error") or body
    message = error if isinstance(error, str) else _field(error, "message") or _field(body, "detail")
    return message if isinstance(message, str) else text


def failure_of(status: int) -> Failure:
    """The kind of failure that an HTTP status means."""
    if status in (401, 403):
        return Failure.UNAUTHORISED
    if status == 408:
        return Failure.TIMEOUT
    if status == 429:
        return Failure.RATE_LIMITED
    if status in (503, 504, 529):
        return Failure.OVERLOADED
    if status < 400:
        return Failure.GARBLED
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
