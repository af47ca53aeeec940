"""Calls that share their state, each in a fresh trajectory."""

import asyncio
from typing import Any

import pytest

from groundtrace.sandbox import Sandbox, SandboxLost, SandboxSettings
from groundtrace.sandbox.replay import run_after

pytestmark = pytest.mark.sandbox

EARLIER = ["x = [1]", "open('kept.txt', 'w').write('k')", "x.append(2)"]


def test_a_call_finds_what_the_earlier_ones_left() -> None:
    async def run(sandbox: Sandbox) -> list[Any]:
        codes = ["print(x, open('kept.txt').read())", "print('y' in globals())"]
        return list(await asyncio.gather(*(run_after(EARLIER, code, (), sandbox) for code in codes * 3)))

    with Sandbox(SandboxSettings(sessions=2, warm=1)) as sandbox:
        found = asyncio.run(run(sandbox))
    assert [each.stdout for each in found] == ["[1, 2] k\n", "False\n"] * 3


def test_an_earlier_call_that_does_not_succeed_again() -> None:
    with (
        Sandbox(SandboxSettings(sessions=1, warm=0)) as sandbox,
        pytest.raises(SandboxLost, match="call 2 succeeded before, but failed when it was executed again"),
    ):
        asyncio.run(run_after(["x = 1", "1/0"], "print(x)", (), sandbox))
