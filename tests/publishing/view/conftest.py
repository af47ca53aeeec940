import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from groundtrace.publishing.comparison.setting_changes import setting_changes
from groundtrace.publishing.view.audit import open_audit
from groundtrace.publishing.view.guard import Guard
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.other_run import compare
from groundtrace.publishing.view.replays import Replays
from groundtrace.publishing.view.reviews import Reviews
from groundtrace.publishing.view.rows import ViewedRows
from groundtrace.publishing.view.server import ViewServer
from groundtrace.vision.media import MediaStore


@pytest.fixture
def run(demo: Path) -> Path:
    """A real run over the sample, which tests only read."""
    return demo / "runs/demo"


@pytest.fixture
def rows(run: Path) -> Iterator[ViewedRows]:
    """The rows of that run."""
    rows = ViewedRows(run)
    yield rows
    rows.close()


@pytest.fixture
def serve_app() -> Iterator[Callable[[web.Application], str]]:
    """Serves applications on an event loop of its own, and returns the address of each."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runners = list[web.AppRunner]()

    def on_loop(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    async def start(app: web.Application) -> str:
        runners.append(web.AppRunner(app))
        await runners[-1].setup()
        await web.TCPSite(runners[-1], "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runners[-1].addresses[0][1]}"

    yield lambda app: on_loop(start(app))
    for runner in runners:
        on_loop(runner.cleanup())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def serve(serve_app: Callable[[web.Application], str]) -> Callable[..., str]:
    """Serves runs, and returns the address with the token."""

    def serve(folder: Path, audited: int = 0, beside: Path | None = None) -> str:
        rows, guard, reviews = ViewedRows(folder), Guard(), Reviews(folder)
        rows.mark(reviews)
        images = RowImages(MediaStore(rows.summary.input, str(folder), cache_bytes=0))
        audit = open_audit(folder, rows, images, audited, "") if audited else None
        other = None
        if beside:
            there = ViewedRows(beside)
            settings = setting_changes((folder, rows.summary), (beside, there.summary)).shown
            other = compare(rows, beside, there, settings)
        replays = Replays(folder)
        address = serve_app(ViewServer(folder, rows, images, reviews, guard, audit, other, replays).app())
        return f"{address}/?token={guard.token}"

    return serve
