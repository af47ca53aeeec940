"""Checks regularly whether the model servers that the reward server calls, such as the judge's, are ready."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator

from aiohttp import web

from groundtrace.inference.preflight import Health
from groundtrace.inference.runtime import runtime
from groundtrace.publishing.rewards.row_reward import RowReward
from groundtrace.schemas.text import say

_log = logging.getLogger(__name__)
CHECK_EVERY_S = 2.0
"""The time in seconds between two checks."""


class JudgeWatch:
    """Checks regularly whether the endpoints (model servers) that a reward calls, such as the judge's, are ready.

    ``reward`` is the object that computes the rewards. The watch keeps the result of the last check. It prints a line
    on stderr if an endpoint fails or is ready again.
    """

    def __init__(self, reward: RowReward) -> None:
        self._reward = reward
        self._health: tuple[Health, ...] | None = None

    @property
    def are_ready(self) -> bool:
        """Return whether the last check found all endpoints (model servers) ready.

        The result is False if the check itself failed, and before the first check.
        """
        return self._health is not None and all(each.fault is None for each in self._health)

    @property
    def states(self) -> dict[str, str]:
        """Return the state of each role's endpoint (model server), such as ``{"judge": "ready"}``.

        A role is a job of a model, such as judge. The state is "ready" or the kind of fault. Private details of a fault
        are left out. The result is empty before the first check, and after a check that itself failed.
        """
        return {
            role: "ready" if each.fault is None else each.fault.failure.value
            for each in self._health or ()
            for role in each.roles
        }

    async def running(self, _: web.Application) -> AsyncIterator[None]:
        """Check the model servers once before the reward server accepts requests, and then regularly until it stops.

        This is a cleanup context of the aiohttp application: it yields once, when the server may start.
        """
        await self._check()
        task = asyncio.create_task(self._check_periodically())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _check_periodically(self) -> None:
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            await self._check()

    async def _check(self) -> None:
        """Check all endpoints once, and keep the result."""
        try:
            found = await asyncio.wrap_future(runtime().submit(self._reward.health()))
        except Exception:  # a defect of the check: the result of the last check is outdated
            _log.exception("the endpoints cannot be checked")
            self._health = None
        else:
            self._report_changes(found)
            self._health = found

    def _report_changes(self, found: tuple[Health, ...]) -> None:
        """Print a line for each endpoint (model server) that became unusable or usable since the last check. ``found``
        holds the results of the present check.
        """
        before = {each.name: each.message for each in self._health or ()}
        for each in found:
            if each.message and not before.get(each.name):
                say(f"beam: {each.message}", file=sys.stderr)
            elif before.get(each.name) and not each.message:
                say(f"beam: endpoint {each.name} ({', '.join(each.roles)}) is back", file=sys.stderr)
