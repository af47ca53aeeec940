"""Lets the benchmarks' model server hold requests, so that a run stays in the middle of a stage until their release.

``POST /hold`` with ``{"kind": …, "item": …}`` holds requests (:class:`Holding`), ``POST /release`` releases all.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web


class HeldRequest(Protocol):
    """A received request; ``held``: whether it is held at the moment."""

    kind: str
    item: str
    held: bool


@dataclass
class Holding:
    """Holds the requests of ``kind`` ("": no request) about ``item`` ("": any item).

    All methods must run on the server's event loop.
    """

    kind: str = ""
    item: str = ""
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def hold(self, kind: str, item: str = "") -> None:
        """Hold the requests of this kind and item that arrive later."""
        async with self._changed:
            self.kind, self.item = kind, item

    async def release(self) -> None:
        """Release all held requests, and hold no further requests."""
        async with self._changed:
            self.kind = ""
            self._changed.notify_all()

    async def passing(self, request: HeldRequest) -> None:
        """Wait while the request is held."""
        async with self._changed:
            request.held = self._holds(request)
            await self._changed.wait_for(lambda: not self._holds(request))
            request.held = False

    def _holds(self, request: HeldRequest) -> bool:
        return request.kind == self.kind and self.item in ("", request.item)


def routes(holding: Holding) -> list[web.RouteDef]:
    """Return the HTTP routes to hold and release requests."""

    async def hold(request: web.Request) -> web.Response:
        await holding.hold(**await request.json())
        return web.json_response({})

    async def release(_: web.Request) -> web.Response:
        await holding.release()
        return web.json_response({})

    return [web.post("/hold", hold), web.post("/release", release)]
