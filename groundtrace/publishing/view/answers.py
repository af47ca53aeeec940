"""Makes the HTTP responses of the server of ``beam view``, and runs slow work outside its event loop."""

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any, TypeVar

from aiohttp import web

T = TypeVar("T")


async def apart(work: Callable[[], T]) -> T:
    """Run the slow function ``work`` in another thread, and return its result.

    Meanwhile the event loop is free, so the server can answer other requests.
    """
    return await asyncio.to_thread(work)


def json_response(value: Any) -> web.Response:
    """Return an HTTP response with the value as JSON. NaN and infinity become null."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)
    return web.Response(body=text.encode("utf-8", "backslashreplace"), content_type="application/json")


def _finite(value: Any) -> Any:
    """Return the value with null (None) in place of each number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value
