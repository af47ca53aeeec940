"""Measures the seconds of each step, and the memory, of a side of bench_trainer.py while it trains."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from model_access import own_figures


class Clock:
    """The seconds of each step, from the end of the step before, and the part of them spent on waiting for data.

    On a CPU with one thread (the default) seconds are CPU time of the process, which other load on the machine hardly
    changes. Otherwise they are wall-clock time.
    """

    def __init__(self, warmup: int) -> None:
        self._on_gpu = torch.cuda.is_available()
        self._warmup, self._waited_s = warmup, 0.0
        self.whole_s: list[float] = []
        self.waited_s: list[float] = []
        self.first: dict[str, float] = {}

    def start(self) -> None:
        """Begin the first step, and reset the peak of memory."""
        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats()
        else:
            Path("/proc/self/clear_refs").write_text("5", "ascii")  # resets VmHWM
        self.loaded_mib = _resident_mib()
        self._last = self._now()

    def data(self, get: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of ``get``; its time counts as waiting for data."""
        began = self._now()
        found = get(*arguments)
        self._waited_s += self._now() - began
        return found

    def end(self) -> None:
        """End a step and begin the next."""
        now = self._now()
        self.whole_s.append(now - self._last)
        self.waited_s.append(self._waited_s)
        self._last, self._waited_s = now, 0.0

    def _now(self) -> float:
        if not self._on_gpu:
            return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()
        torch.cuda.synchronize()
        return time.perf_counter()

    def figures(self) -> dict[str, Any]:
        """Return the seconds of the timed steps, the memory, and the first step's loss and gradient norm."""
        whole_s, waited_s = self.whole_s[self._warmup :], self.waited_s[self._warmup :]
        own = own_figures()
        return {
            **own,
            **self.first,
            "step_s": whole_s,
            "update_s": [whole - waited for whole, waited in zip(whole_s, waited_s, strict=True)],
            "peak_mib": torch.cuda.max_memory_allocated() / 2**20 if self._on_gpu else own["rss_mib"],
            "beyond_mib": own["rss_mib"] - self.loaded_mib,
        }


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
