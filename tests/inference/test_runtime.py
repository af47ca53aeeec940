"""The loop of a process: code on it that ends the process fails its own work, and nothing else."""

import asyncio

import pytest

from groundtrace.inference.runtime import runtime


async def leave(code: int) -> None:
    """As code that calls ``sys.exit`` does."""
    raise SystemExit(code)


async def leave_together() -> None:
    """The same in a task of its own."""
    await asyncio.gather(leave(0), asyncio.sleep(0))


async def wait() -> str:
    """Work that goes on meanwhile."""
    await asyncio.sleep(0.2)
    return "done"


def test_an_exit_is_an_error_and_other_work_goes_on() -> None:
    waiting = runtime().submit(wait())
    for work in (leave(3), leave_together()):
        with pytest.raises(
            RuntimeError, match=r"tried to end the process \(SystemExit\(\d\)\): change the code to raise"
        ):
            runtime().submit(work).result(timeout=10)
    assert waiting.result(timeout=10) == "done"
