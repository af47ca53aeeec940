"""Makes the HTTP responses of the server of ``beam view``, and runs slow work outside its event loop."""

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any, TypeVar

from aiohttp import web

from groundtrace.publishing.view.images import NoImage

T = TypeVar("T")


async def apart(work: Callable[[], T]) -> T:
    """Run the slow function ``work`` in another thread, and return its result.

    Meanwhile the event loop is free, so the server can answer other requests.
    """
    return await asyncio.to_thread(work)


def json_response(value: Any) -> web.Response:
    """Return an HTTP response with the value as JSON. NaN and infinity become null."""
    text = json.dumps(finite(value), ensure_ascii=False, allow_nan=False)
    return web.Response(body=text.encode("utf-8", "backslashreplace"), content_type="application/json")


def finite(value: Any) -> Any:
    """Return the value with null (None) in place of each number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, list | tuple) else value


async def image_response(read: Callable[[], tuple[str, bytes]]) -> web.Response:
    """Return an HTTP response with the image that ``read`` returns as (MIME type, bytes).

    The slow function ``read`` runs in another thread. If it raises NoImage, the response has the status 404.
    """
    try:
        kind, data = await apart(read)
    except NoImage as error:
        return web.Response(status=404, text=str(error))
    return web.Response(body=data, content_type=kind)
