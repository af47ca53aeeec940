"""What every endpoint over HTTP does with a response: read it, say what an error means, look into JSON of any form."""

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
"""No reply is larger: sixteen samples of 16384 tokens are a few megabytes."""
MAX_REPLY_PARTS = 1_000_000
"""Objects and lists in a reply. Two bytes of JSON make an object of sixty: this bounds what reading it can take."""
MAX_TOKENS = 1_000_000_000
"""No request takes more. A larger count is an error of the server, and would break sums and prices."""
MAX_MODEL_CHARS = 200
_NO_CREDIT = re.compile(rb'"(code|type)"\s*:\s*"insufficient_quota"')


async def read_body(received: AsyncIterator[bytes]) -> bytes:
    """The body. Raises CallError when it is larger, or holds more objects and lists, than any reply."""
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
    """A field of a JSON object; None where it is missing or the value is no object."""
    return value.get(name) if isinstance(value, dict) else None


def token_count(usage: Any, name: str) -> int:
    """A count of tokens; 0 where it is missing or cannot be one."""
    value = field_of(usage, name)
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else 0


def other_model(named: Any, asked: str, key: str) -> str:
    """The model that a response names, without the API key; "" where it is the one ``asked`` for, or none is named."""
    if not isinstance(named, str) or named == asked:
        return ""
    return scrub(storable(named), key)[:MAX_MODEL_CHARS]


def message_of(data: bytes) -> str:
    """What an error body says: its message in OpenAI's form, else all of it. The caller scrubs and cuts it."""
    text = data.decode("utf-8", "replace")
    try:
        body = json.loads(data, strict=False)
    except (ValueError, RecursionError):
        return text
    error = field_of(body, "error") or body
    message = error if isinstance(error, str) else field_of(error, "message") or field_of(body, "detail")
    return message if isinstance(message, str) else text


def status_of(status: int, data: bytes) -> int:
    """The HTTP status that an error means: 402 for OpenAI's 429 of an account that has used up its credit, which
    sending again does not help.
    """
    return 402 if status == 429 and _NO_CREDIT.search(data) else status


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
        except (TypeError, ValueError, OverflowError):  # the last: of a number with too many digits
            return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
