"""An event loop that waits for nothing: where it would, its clock goes on instead."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _Skipping(selectors.SelectSelector):
    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everything waits for ever"
        self.now_s += max(0.0, timeout)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now_s


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run in no time what waits for the clock only."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)


def now_s() -> float:
    return asyncio.get_running_loop().time()
