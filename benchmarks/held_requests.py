"""Requests that the benchmarks' model server holds back: a run stays in the middle of a stage until they are let go.

``POST /hold`` with ``{"kind": …, "item": …}`` holds requests (:class:`Holding`), ``POST /release`` lets all of them go.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web


class Request(Protocol):
    """A request that came; ``held`` says whether it is held now."""

    kind: str
    item: str
    held: bool


@dataclass
class Holding:
    """Which requests are held: those of ``kind`` ("": none) about ``item`` ("": any).

    All methods run on the server's event loop.
    """

    kind: str = ""
    item: str = ""
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def hold(self, kind: str, item: str = "") -> None:
        """Hold such requests from now on."""
        async with self._changed:
            self.kind, self.item = kind, item

    async def release(self) -> None:
        """Let those that are held go, and hold none from now on."""
        async with self._changed:
            self.kind = ""
            self._changed.notify_all()

    async def passing(self, request: Request) -> None:
        """Wait until the request is not held."""
        async with self._changed:
            request.held = self._holds(request)
            await self._changed.wait_for(lambda: not self._holds(request))
            request.held = False

    def _holds(self, request: Request) -> bool:
        return request.kind == self.kind and self.item in ("", request.item)


def routes(holding: Holding) -> list[web.RouteDef]:
    """How a test holds requests and lets them go."""

    async def hold(request: web.Request) -> web.Response:
        await holding.hold(**await request.json())
        return web.json_response({})

    async def release(_: web.Request) -> web.Response:
        await holding.release()
        return web.json_response({})

    return [web.post("/hold", hold), web.post("/release", release)]
