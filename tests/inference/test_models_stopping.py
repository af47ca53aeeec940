"""A run that is stopped sends nothing more, and keeps the replies that are on their way."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.errors import RunStopped
from groundtrace.inference.models import Models
from groundtrace.inference.request import Sampling
from groundtrace.inference.settings import ModelsSettings

from .asking import ask, call

CALLS, AT_ONCE = 6, 2


def stopped(settings: ModelsSettings, server: Any, prompt: Any, limit_s: float) -> tuple[int, list[Any]]:
    """Ask for all at once, and drain when as many as may be are under way: how many were given up, and the ends."""

    async def work(models: Models) -> tuple[int, list[Any]]:
        calls = [asyncio.ensure_future(models.generate("policy", prompt(str(n)), Sampling())) for n in range(CALLS)]
        while len(server.seen) < AT_ONCE:
            await asyncio.sleep(0.01)
        left = await models.drain(limit_s)
        for one in calls[:] if left else ():
            one.cancel()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        with pytest.raises(RunStopped):
            await models.generate("policy", prompt("later"), Sampling())
        return left, ends

    return call(settings, work)


@pytest.fixture
def settings(server: Any, models_settings: Any, tmp_path: Path) -> ModelsSettings:
    server.lists_models, server.takes_s = True, 0.5
    return replace(models_settings(max_concurrency=AT_ONCE), notes=str(tmp_path / "notes"))


@pytest.mark.faults
def test_what_is_under_way_is_kept_and_nothing_else_is_sent(settings: Any, server: Any, text_prompt: Any) -> None:
    left, ends = stopped(settings, server, text_prompt, 10.0)
    assert (left, len(server.seen)) == (0, AT_ONCE)
    assert sorted(type(end).__name__ for end in ends) == ["CallResult"] * AT_ONCE + ["RunStopped"] * (CALLS - AT_ONCE)
    for number in range(CALLS):
        ask(settings, text_prompt(str(number)))
    assert len(server.seen) == CALLS, "no request is sent twice"


@pytest.mark.faults
def test_there_is_a_limit_to_the_waiting(settings: Any, server: Any, text_prompt: Any) -> None:
    server.takes_s = 3.0
    left, _ = stopped(settings, server, text_prompt, 0.2)
    assert left == AT_ONCE


def test_a_call_that_waits_to_be_tried_again_is_not_waited_for(settings: Any, server: Any, text_prompt: Any) -> None:
    server.fail(429, retry_after="3600")

    async def work(models: Models) -> Any:
        asking = asyncio.ensure_future(models.generate("policy", text_prompt(), Sampling()))
        while not server.seen or server.at_once:
            await asyncio.sleep(0.01)
        left = await models.drain(10.0)
        return left, await asyncio.gather(asking, return_exceptions=True)

    left, [end] = call(settings, work)
    assert (left, type(end)) == (0, RunStopped)
