"""Runs all model calls of a process on one event loop, in a separate thread. Calls with the same settings share one
object of the class :class:`groundtrace.inference.models.Models`.

Beam calls the stages (steps) of a pipeline from several threads. All model calls of a process run on this loop, so that
they share concurrency limits and connections, and so that equal requests are sent only once.
"""

import asyncio
import atexit
import concurrent.futures
import contextlib
import gc
import os
import sys
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from groundtrace.inference.models import Models
from groundtrace.inference.settings import ModelsSettings

T = TypeVar("T")

SWITCH_INTERVAL_S = 0.0002
"""The longest time, in seconds, that another thread may hold Python's interpreter lock (GIL) while the loop waits for
it. With Python's default of 5 ms, a fast server would wait for its next request whenever Beam's own thread is busy.
"""


class Runtime:
    """Holds the event loop of a process, the thread in which it runs, and the process's models. :func:`runtime` returns
    this process's runtime.
    """

    def __init__(self) -> None:
        # The modules that are imported now stay in memory until the process ends. So the garbage collector, which
        # pauses the loop, can skip them.
        gc.freeze()
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
        self._loop = asyncio.new_event_loop()
        self._models: dict[ModelsSettings, Models] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="models", daemon=True)
        self._thread.start()

    def models(self, settings: ModelsSettings) -> Models:
        """Return the object through which this process calls models with these settings. It is created at the first
        call with these settings, and returned again at later calls.
        """
        with self._lock:
            if settings not in self._models:
                self._models[settings] = Models(settings)
            return self._models[settings]

    def submit(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Start the coroutine ``work`` on the event loop, and return a future of its result. Any thread may call this
        method, but the event loop's own thread must not wait for the result. If the coroutine raises SystemExit, the
        returned future raises RuntimeError.
        """
        return asyncio.run_coroutine_threadsafe(_without_exit(work), self._loop)

    def _run(self) -> None:
        """Run the loop until the process ends. If a task raises SystemExit, ``run_forever`` ends; then the loop
        is started again for the other tasks."""
        while True:
            with contextlib.suppress(SystemExit, KeyboardInterrupt):  # the task has the exception, too
                return self._loop.run_forever()

    def drain(self, settings: ModelsSettings, limit_s: float) -> int:
        """Send no more requests with these settings, and wait for the replies to the requests already sent, at most
        ``limit_s`` seconds (:meth:`groundtrace.inference.models.Models.drain`). Returns the number of requests that
        still have no reply.
        """
        with self._lock:
            models = self._models.get(settings)
        return 0 if models is None else self.submit(models.drain(limit_s)).result()

    def close(self, settings: ModelsSettings) -> None:
        """Close the endpoints and the cache that this process opened with these settings. If nothing was opened with
        them, nothing happens.
        """
        with self._lock:
            models = self._models.pop(settings, None)
        if models is not None:
            self.submit(models.close()).result()

    def end_all(self, limit_s: float) -> None:
        """End all calls to models in this process: send no more requests, wait at most ``limit_s`` seconds for the
        replies to the requests already sent, and close all endpoints and caches.
        """
        with self._lock:
            opened = list(self._models.values())
        for draining in [self.submit(models.drain(limit_s)) for models in opened]:
            draining.result()
        self.close_all()

    def close_all(self) -> None:
        """Close all endpoints and caches that this process opened."""
        for settings in list(self._models):
            self.close(settings)


async def _without_exit(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(
            f"the code of a stage (a step of the pipeline) tried to end the process ({error!r}): change the code to "
            "raise another exception"
        ) from error


_lock = threading.Lock()
_runtime: Runtime | None = None


def _forget() -> None:
    """Remove the parent's runtime from a forked process, so that the process makes its own runtime at the first call.
    The thread of the parent's runtime does not exist in the forked process, so calls to this runtime would hang."""
    global _lock, _runtime
    _lock, _runtime = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)


def end_process(limit_s: float) -> None:
    """End all calls to models in this process. The function waits at most ``limit_s`` seconds for the replies to the
    requests already sent. Then it closes all endpoints and caches.
    """
    if _runtime is not None:
        _runtime.end_all(limit_s)


def runtime() -> Runtime:
    """Return this process's runtime, which is created at the first call. Each process, such as a forked or remote
    worker, has its own runtime.
    """
    global _runtime
    with _lock:
        if _runtime is None:
            _runtime = Runtime()
            atexit.register(gc.unfreeze)  # so that the interpreter can clear everything when it ends
            atexit.register(_runtime.close_all)
        return _runtime
