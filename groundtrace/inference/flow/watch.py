"""Watches the calls of a run in one process. Each endpoint has a guard. If the endpoint's server is down, the guard
waits for the server. If the server stays down for too long, the guard ends the run.
"""

import asyncio
from collections.abc import Callable

from groundtrace.inference.endpoint import Endpoint, kind_of
from groundtrace.inference.errors import RunStopped
from groundtrace.inference.flow.guard import Guard
from groundtrace.inference.flow.notes import RunNotes
from groundtrace.inference.settings import ModelsSettings


class Watch:
    """Holds the guards of all endpoints of a run (:class:`groundtrace.inference.flow.guard.Guard`). A guard makes calls
    wait while their server is down. It ends the run if the server is down for too long or cannot answer the calls.

    ``settings`` are the settings of the endpoints and roles. A role is the job of a model, such as "judge", and
    ``endpoint`` is a function that returns the endpoint of a role. ``notes`` writes files about the run's requests and
    servers; the progress display reads these files.
    """

    def __init__(self, settings: ModelsSettings, endpoint: Callable[[str], Endpoint], notes: RunNotes) -> None:
        self.notes = notes
        self._settings, self._endpoint = settings, endpoint
        self._guards: dict[str, Guard] = {}
        self._first_check: asyncio.Task[None] | None = None
        self._has_ended = False

    async def guard(self, role: str) -> Guard | None:
        """Return the guard of the endpoint for ``role`` (the job of a model, such as "judge"). A guard makes calls wait
        while their server is down. It ends the run if the server is down for too long or cannot answer the calls.
        Returns None for a model in this process, which needs no guard.

        The first call in a process checks all endpoints, before the process sends its first request to a server. So no
        money is spent on requests to one endpoint if another endpoint cannot be used. If all replies are in the cache,
        this method is not called, and nothing is checked. Raises :class:`groundtrace.inference.errors.RunStopped` if an
        endpoint cannot answer calls, or if the run has been stopped.
        """
        if self._has_ended:
            raise RunStopped("the run was stopped: repeat the command to resume it", resumable=True)
        if self._first_check is None:
            self._first_check = asyncio.ensure_future(self._check())
        await asyncio.shield(self._first_check)
        return self._guards.get(self._settings.endpoint_name(role))

    def end(self) -> None:
        """Stop sending requests to all endpoints, because the run ends. From now on, each call that still has to send a
        request raises :class:`groundtrace.inference.errors.RunStopped`. Requests in progress may still get replies.
        """
        self._has_ended = True
        for guard in self._guards.values():
            guard.end()

    @property
    def under_way(self) -> int:
        """Return the number of requests that were sent and have no reply yet."""
        return sum(guard.under_way for guard in self._guards.values())

    async def _check(self) -> None:
        roles: dict[str, list[str]] = {}
        for role, name in self._settings.roles:
            if not kind_of(self._settings.endpoint(role).kind).in_process:
                roles.setdefault(name, []).append(role)
        for name, played in roles.items():
            settings, check = self._settings.endpoint(played[0]), self._endpoint(played[0]).check
            self._guards[name] = Guard(name, tuple(played), settings, check, self.notes)
        await asyncio.gather(*(guard.check() for guard in self._guards.values()))
