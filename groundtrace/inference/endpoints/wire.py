"""Handles HTTP requests and responses for all endpoints: writes and reads bodies, classifies errors, and gets fields of
JSON that may have any form.
"""

import json
import math
import re
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from pydantic_core import to_json

from groundtrace.inference.endpoints.keys import scrub
from groundtrace.inference.errors import CallError, Failure
from groundtrace.schemas.text import whole

MAX_REPLY_BYTES = 16_000_000
"""The largest size of a response body that is accepted, in bytes. Usual responses are smaller: sixteen samples of 16384
tokens have only a few megabytes.
"""
MAX_REPLY_PARTS = 1_000_000
"""The largest number of JSON objects and lists in a response. The limit protects the memory: two bytes of JSON can
become an object of sixty bytes.
"""
MAX_TOKENS = 1_000_000_000
"""The largest token count that is accepted from a server. A larger count is an error of the server, and would make sums
and prices wrong.
"""
MAX_MODEL_CHARS = 200
_BAD_KEY = re.compile(rb'"reason"\s*:\s*"API_KEY_INVALID"')
_NO_CREDIT = re.compile(rb'"(code|type)"\s*:\s*"insufficient_quota"')


async def read_body(received: AsyncIterator[bytes]) -> bytes:
    """Read the whole body of a response, and return its bytes. ``received`` yields the parts of the body as they
    arrive. Raises CallError if the body has more than :data:`MAX_REPLY_BYTES` bytes, or more than
    :data:`MAX_REPLY_PARTS` JSON objects and lists.
    """
    chunks, size_bytes = [], 0
    async for chunk in received:
        chunks.append(chunk)
        size_bytes += len(chunk)
        if size_bytes > MAX_REPLY_BYTES:
            raise CallError(Failure.GARBLED, f"the server sent a reply of more than {MAX_REPLY_BYTES} bytes")
    data = b"".join(chunks)
    if data.count(b"{") + data.count(b"[") > MAX_REPLY_PARTS:
        raise CallError(Failure.GARBLED, f"the reply holds more than {MAX_REPLY_PARTS} objects and lists")
    return data


def json_bytes(body: Mapping[str, Any]) -> bytes:
    """Return the body of a request as JSON, in UTF-8.

    The function uses pydantic's encoder, because it is faster: with an image of 60 KB, it takes a fifth of the time of
    :mod:`json`. But pydantic's encoder refuses texts with lone surrogates. For such texts, the function uses
    :mod:`json`, which escapes them.
    """
    try:
        return to_json(body)
    except ValueError:
        return json.dumps(body).encode()


def field_of(value: Any, name: str) -> Any:
    """Return the field ``name`` of a parsed JSON value. Returns None if ``value`` is not an object (dict) or does not
    have the field.
    """
    return value.get(name) if isinstance(value, dict) else None


def token_count(usage: Any, name: str) -> int:
    """Return the token count that a response has under ``name``, e.g. "prompt_tokens". ``usage`` is the object of the
    response that holds the counts. Returns 0 if the count is missing or not valid.
    """
    value = field_of(usage, name)
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else 0


def other_model(named: Any, asked: str, key: str) -> str:
    """Return the name of the model that answered, if it is not the requested model. ``named`` is the model's name in
    the response, ``asked`` is the requested model, and ``key`` is the API key, which is removed from the name.
    Returns "" if the response names the requested model, or no model.
    """
    if not isinstance(named, str) or named == asked:
        return ""
    return scrub(whole(named), key)[:MAX_MODEL_CHARS]


def message_of(data: bytes) -> str:
    """Return the error message in the body of an error response. ``data`` is the body. If it does not have OpenAI's
    form (an ``error`` with a ``message``), the whole body is returned as text. The caller removes the API key from
    the result and shortens it.
    """
    text = data.decode("utf-8", "replace")
    try:
        body = json.loads(data, strict=False)
    except (ValueError, RecursionError):
        return text
    error = field_of(body, "error") or body
    message = error if isinstance(error, str) else field_of(error, "message") or field_of(body, "detail")
    return message if isinstance(message, str) else text


def status_of(status: int, data: bytes) -> int:
    """Return the HTTP status that describes an error best. It is ``status``, or a more exact status if the body
    ``data`` contains the reason of the error.

    OpenAI returns 429 if the account has no credit left. The result is then 402, since a retry does not help. Google
    returns 400 if the API key is wrong. The result is then 401. This case is found by the reason API_KEY_INVALID in the
    body, since 400 has many other reasons.
    """
    if _BAD_KEY.search(data):
        return 401
    return 402 if status == 429 and _NO_CREDIT.search(data) else status


def failure_of(status: int) -> Failure:
    """Return the kind of failure that an HTTP status means, e.g. 429 → ``RATE_LIMITED``."""
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
    """Return for how many seconds a client must wait before its next request, as the server demands. ``header`` is the
    text of the Retry-After header, which is a number of seconds or a date. ``now`` is the current time, from which the
    seconds until the date are counted. Returns None if the header has another form, e.g. "".
    """
    try:
        seconds = float(header)
    except ValueError:
        try:
            return max(0.0, (parsedate_to_datetime(header) - now).total_seconds())
        except (TypeError, ValueError, OverflowError):  # OverflowError: a number with too many digits
            return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
