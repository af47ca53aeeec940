"""One event loop thread per process, shared by all stages, and on it one :class:`Models` per settings.

Beam calls stages from several threads; the calls to models of one process all run here, so that concurrency limits,
connections and the joining of identical calls hold for the process as a whole.
"""

import asyncio
import atexit
import concurrent.futures
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
"""How long another thread may keep the interpreter while the loop wants it. Python's 5 ms leave a fast server waiting
for its next request whenever Beam's own thread is at work."""


class Runtime:
    """The loop thread with the models on it. Get the process's own with :func:`runtime`."""

    def __init__(self) -> None:
        # What is imported by now lives as long as the process: the collector, which stops the loop, can leave it out.
        gc.freeze()
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
        self._loop = asyncio.new_event_loop()
        self._models: dict[ModelsSettings, Models] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="models", daemon=True)
        self._thread.start()

    def models(self, settings: ModelsSettings) -> Models:
        """The process's models for these settings, opened when first asked for."""
        with self._lock:
            if settings not in self._models:
                self._models[settings] = Models(settings)
            return self._models[settings]

    def submit(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Start the coroutine on the loop from any other thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def drain(self, settings: ModelsSettings, limit_s: float) -> int:
        """Send nothing more for these settings and wait for the replies that are on their way
        (:meth:`groundtrace.inference.models.Models.drain`). Returns how many have not come.
        """
        with self._lock:
            models = self._models.get(settings)
        return 0 if models is None else self.submit(models.drain(limit_s)).result()

    def close(self, settings: ModelsSettings) -> None:
        """Close the models of these settings, if they were opened."""
        with self._lock:
            models = self._models.pop(settings, None)
        if models is not None:
            self.submit(models.close()).result()

    def end_all(self, limit_s: float) -> None:
        """Drain everything that is open, all at once, and close it."""
        with self._lock:
            opened = list(self._models.values())
        for draining in [self.submit(models.drain(limit_s)) for models in opened]:
            draining.result()
        self.close_all()

    def close_all(self) -> None:
        """Close everything that is open."""
        for settings in list(self._models):
            self.close(settings)


_lock = threading.Lock()
_runtime: Runtime | None = None


def _forget() -> None:
    """Leaves the runtime to the parent: its loop's thread is not in a forked process, and nothing would be answered."""
    global _lock, _runtime
    _lock, _runtime = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)


def end_process(limit_s: float) -> None:
    """Wait for the replies that are on their way to this process, ``limit_s`` at most, and close what it has open."""
    if _runtime is not None:
        _runtime.end_all(limit_s)


def runtime() -> Runtime:
    """This process's runtime; a forked or remote worker gets its own."""
    global _runtime
    with _lock:
        if _runtime is None:
            _runtime = Runtime()
            atexit.register(gc.unfreeze)  # so that the interpreter can clear everything when it ends
            atexit.register(_runtime.close_all)
        return _runtime
