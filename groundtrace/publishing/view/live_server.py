"""Serves the page of ``beam view`` for a run that has not finished."""

import asyncio
from pathlib import Path

from aiohttp import web

from groundtrace.publishing.view.answers import apart, json_response
from groundtrace.publishing.view.guard import Guard
from groundtrace.publishing.view.live import LiveRun, is_unfinished
from groundtrace.publishing.view.reopening import Reopening
from groundtrace.publishing.view.server import page_file

_STATIC = {
    "/": ("live.html", "text/html"),
    "/live.js": ("live.js", "text/javascript"),
    "/view.css": ("view.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


def live_app(run: Path, guard: Guard, cache: Path | None = None, reopening: Reopening | None = None) -> web.Application:
    """Return the aiohttp application of an unfinished run: its page, and its state as JSON under ``/api/live``.

    ``run`` is the run folder. ``guard`` refuses all requests that do not come from the user's browser. ``cache`` is the
    folder of the reply cache; None for the cache in the run folder. If the browser loads the page again after the run
    has finished, ``reopening`` requests that the rows of the run are read. If ``reopening`` is None, the same page is
    sent as before.
    """
    live, one = LiveRun(run, cache), asyncio.Lock()

    async def state(_: web.Request) -> web.Response:
        async with one:  # the reading positions are shared
            try:
                return json_response({"name": str(run), **await apart(live.state)})
            except OSError as error:
                return web.Response(status=409, text=f"cannot read {error.filename}: {error.strerror}")

    page = page_file(*_STATIC["/"])

    async def start(request: web.Request) -> web.StreamResponse:
        return await page(request) if reopening is None or is_unfinished(run) else reopening.response()

    app = web.Application(middlewares=[guard.middleware])
    app.router.add_get("/", start)
    for path, (name, kind) in _STATIC.items():
        if path != "/":
            app.router.add_get(path, page_file(name, kind))
    app.router.add_get("/api/live", state)
    return app
