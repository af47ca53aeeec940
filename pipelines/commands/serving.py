"""Provides what each command with an HTTP server needs: an event loop, an address, and the handling of signals."""

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
    """Convert the text of a command line argument to a whole number of at least 1, for argparse, and return the number.

    Raises ArgumentTypeError if the number is below 1, and ValueError if ``text`` is not a whole number.
    """
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"the number must be at least 1, got {number}")
    return number


async def listening(runner: "web.AppRunner", host: str, port: int) -> str:
    """Start an HTTP server on an address, and return its URL, such as ``http://127.0.0.1:8500``.

    The caller must run this coroutine on the event loop of :func:`http_loop`. ``runner`` is aiohttp's object that holds
    the server. ``host`` and ``port`` are the address; port 0 means any free port. Raises ServeError if the server
    cannot listen on the address.
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
    """Run an event loop for HTTP in a separate thread while the body of the ``with`` statement runs.

    The separate thread is needed because work in the main thread, such as scoring, would otherwise delay the server's
    replies. Yields a function that runs a coroutine on this event loop, waits for the coroutine, and returns its
    result.
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
    """Yield an event, which is set when the process receives SIGINT (Ctrl-C), SIGTERM or SIGHUP.

    A command waits for this event, and then ends its server. A second SIGINT ends the process as usual. A second
    SIGTERM or SIGHUP also ends the process, but only if it arrives more than ``SAME_STOP_S`` seconds after the first
    signal. When the body of the ``with`` statement ends, the former signal handlers are restored.
    """
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
