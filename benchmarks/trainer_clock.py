"""What bench_trainer.py measures of a side while it trains: seconds of its steps, and memory."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from model_access import own_figures


class Clock:
    """Seconds of each step, from the end of the one before to its own, and what of them went into waiting for data.

    On a GPU seconds are those of a clock. On a processor they are the process's own, which neighbours on the machine
    hardly change: in one thread, as by default, they are what a step takes when the machine has nothing else to do.
    """

    def __init__(self, warmup: int) -> None:
        self._on_gpu = torch.cuda.is_available()
        self._warmup, self._waited_s = warmup, 0.0
        self.whole_s: list[float] = []
        self.waited_s: list[float] = []
        self.first: dict[str, float] = {}

    def start(self) -> None:
        """Begin the first step; peaks of memory from here on count."""
        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats()
        else:
            Path("/proc/self/clear_refs").write_text("5", "ascii")  # VmHWM begins anew
        self.loaded_mib = _resident_mib()
        self._last = self._now()

    def data(self, get: Callable[..., Any], *arguments: Any) -> Any:
        """What ``get`` gives; the time is the data's."""
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
        """Of the timed steps: seconds, memory, and of the very first step the loss and the gradient's norm."""
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
