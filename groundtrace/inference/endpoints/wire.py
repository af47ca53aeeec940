"""Handles HTTP responses for all endpoints: reads bodies, classifies errors, and gets fields of untrusted JSON."""

import json
import math
import re
from collections.abc import AsyncIterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from groundtrace.inference.endpoints.keys import scrub
from groundtrace.inference.errors import CallError, Failure
from groundtrace.schemas.text import storable

MAX_REPLY_BYTES = 16_000_000
"""The size limit for a response body. Sixteen samples of 16384 tokens are only a few megabytes."""
MAX_REPLY_PARTS = 1_000_000
"""The limit on the number of objects and lists in a reply. It limits memory: two bytes of JSON become an object of
sixty bytes."""
MAX_TOKENS = 1_000_000_000
"""The limit for a token count. A larger count is an error of the server, and would break sums and prices."""
MAX_MODEL_CHARS = 200
_NO_CREDIT = re.compile(rb'"(code|type)"\s*:\s*"insufficient_quota"')


async def read_body(received: AsyncIterator[bytes]) -> bytes:
    """Return the whole body of a response. Raises CallError if the body has more than :data:`MAX_REPLY_BYTES` bytes, or
    more than :data:`MAX_REPLY_PARTS` JSON objects and lists.
    """
    chunks, size_bytes = [], 0
    async for chunk in received:
        chunks.append(chunk)
        size_bytes += len(chunk)
        if size_bytes > MAX_REPLY_BYTES:
            raise CallError(Failure.GARBLED, f"the reply is larger than {MAX_REPLY_BYTES} bytes")
    data = b"".join(chunks)
    if data.count(b"{") + data.count(b"[") > MAX_REPLY_PARTS:
        raise CallError(Failure.GARBLED, f"the reply holds more than {MAX_REPLY_PARTS} objects and lists")
    return data


def field_of(value: Any, name: str) -> Any:
    """Return the field ``name`` of a JSON object, or None if the value is not an object or lacks the field."""
    return value.get(name) if isinstance(value, dict) else None


def token_count(usage: Any, name: str) -> int:
    """Return a token count of a response. Returns 0 if the count is missing or invalid."""
    value = field_of(usage, name)
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else 0


def other_model(named: Any, asked: str, key: str) -> str:
    """Return ``named``, the model's name in a response, without the API key. Returns "" if the response names the
    requested model ``asked``, or no model."""
    if not isinstance(named, str) or named == asked:
        return ""
    return scrub(storable(named), key)[:MAX_MODEL_CHARS]


def message_of(data: bytes) -> str:
    """Return the message of an error body in OpenAI's form. If the body has another form, return the whole body. The
    caller removes the API key from the result and shortens it."""
    text = data.decode("utf-8", "replace")
    try:
        body = json.loads(data, strict=False)
    except (ValueError, RecursionError):
        return text
    error = field_of(body, "error") or body
    message = error if isinstance(error, str) else field_of(error, "message") or field_of(body, "detail")
    return message if isinstance(message, str) else text


def status_of(status: int, data: bytes) -> int:
    """Return the effective HTTP status of an error. OpenAI's 429 becomes 402 if the account has no credit left, since a
    retry does not help in this case."""
    return 402 if status == 429 and _NO_CREDIT.search(data) else status


def failure_of(status: int) -> Failure:
    """Return the kind of failure for an HTTP status."""
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
    """Return the seconds of a Retry-After header, which is a number or a date. The seconds until a date are counted
    from ``now``. Returns None for any other header."""
    try:
        seconds = float(header)
    except ValueError:
        try:
            return max(0.0, (parsedate_to_datetime(header) - now).total_seconds())
        except (TypeError, ValueError, OverflowError):  # OverflowError: a number with too many digits
            return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
