"""Provides the parts of a command that runs an HTTP server: event loop, address and handling of signals."""

import argparse
import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from groundtrace.pipelines.running.execute.interrupts import SAME_STOP_S, STOP_SIGNALS
from groundtrace.schemas.errors import UserError

if TYPE_CHECKING:
    from aiohttp import web

T = TypeVar("T")


class ServeError(UserError):
    """Raised if the server cannot be started. The message states the reason and the remedy."""


def positive(text: str) -> int:
    """Return the text of an argument as a number. Raises ArgumentTypeError if the number is below 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"the number must be at least 1, got {number}")
    return number


async def listening(runner: "web.AppRunner", host: str, port: int) -> str:
    """Start the server on an address, on the event loop of :func:`http_loop`, and return its URL.

    Raises ServeError if the server cannot listen on the address.
    """
    from aiohttp import web

    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except (OSError, OverflowError) as error:
        await runner.cleanup()
        raise ServeError(f"cannot listen on {host}:{port}: {error}; choose another --host or --port") from error
    named = f"[{host}]" if ":" in host else host
    return f"http://{named}:{runner.addresses[0][1]}"


@contextlib.contextmanager
def http_loop() -> Iterator[Callable[[Coroutine[Any, Any, T]], T]]:
    """Run an event loop for HTTP in a separate thread, so that scoring does not block responses.

    Yields a function that runs a coroutine on this event loop and returns the coroutine's result.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="http", daemon=True)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT, SIGTERM and SIGHUP set. A second signal ends the process as usual."""
    stopped, first_s = threading.Event(), float("inf")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *STOP_SIGNALS)}
    if before[signal.SIGHUP] is signal.SIG_IGN:  # set by nohup
        del before[signal.SIGHUP]

    def stop(number: int, _: object) -> None:
        nonlocal first_s
        if not stopped.is_set():
            first_s = time.monotonic()
            stopped.set()
        elif number == signal.SIGINT or time.monotonic() - first_s > SAME_STOP_S:
            signal.signal(number, before[signal.Signals(number)])
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, stop)
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
