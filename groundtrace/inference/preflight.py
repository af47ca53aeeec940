"""Checks before the first call whether each endpoint can do the job (role) that the config gives to it, such as
"judge". For these checks, no server has to generate a reply.

A server must be up and have the model. If the model runs in this process, the check loads the model. If this model is a
chat model, it also generates one token as a test. Some models can answer only some prompts. Such a model must be able
to answer at least one of the prompts of its role.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from groundtrace.inference.endpoint import kind_of
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.flow.breaker import SHORT_CHECK_TIMEOUT_S
from groundtrace.inference.flow.checking import (
    CHECK_RETRIES,
    CHECK_TIMEOUT_S,
    checked,
    described,
    what_to_do,
    will_not_serve,
)
from groundtrace.inference.models import Models
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.registry import load
from groundtrace.schemas.text import printable


class NotServed(UserError):
    """Raised if one or more endpoints cannot do the job (role) that the config gives to them, such as "judge". The
    message names the endpoints, the reasons, and what the user can do about them.

    ``can_wait`` is True if the only fault is a server that is down. In this case the user does not have to change the
    config.
    """

    def __init__(self, message: str, can_wait: bool) -> None:
        super().__init__(message)
        self.can_wait = can_wait


@dataclass(frozen=True)
class Health:
    """Holds the result of checking one endpoint. ``name`` is the endpoint's name, and ``roles`` are the jobs of its
    model, such as "judge". ``fault`` is the error that prevents the endpoint from answering calls, or None if it can
    answer calls. ``message`` describes the fault and what the user can do about it; it is "" without a fault.
    """

    name: str
    roles: tuple[str, ...]
    fault: CallError | None = None
    message: str = ""

    @property
    def is_away(self) -> bool:
        """Return whether the endpoint's server did not answer the check, e.g. because it is down."""
        return self.fault is not None and (self.fault.unreachable or self.fault.failure is Failure.TIMEOUT)


async def check_roles(models: Models, asks: Sequence[Asks], where: str = "") -> None:
    """Check that each endpoint can do the job (role) that the config gives to it, such as "judge". ``models`` gives
    access to the endpoints. ``asks`` holds, for each role, the names of the prompts that are sent to its model.
    ``where`` is the text before config keys in messages, such as ``reward.``; it is "" for the main config.

    Raises NotServed if an endpoint cannot be used for its role. There are three cases:

    - Only a run starts servers for the endpoint's kind (the way to reach the model), such as ``vllm``. This function
      is called outside of a run, so the endpoint has no server.
    - The endpoint cannot be opened, or its own check (its method ``check``) shows that it cannot answer calls.
    - The model can answer none of the role's prompts. This is checked only for endpoint kinds that define which prompts
      their models can answer. Other kinds, such as a kind that a user has written, are not checked.

    The coroutine runs on the event loop of :mod:`groundtrace.inference.runtime`.
    """
    for name, roles in _played(models.settings, asks).items():
        settings = models.settings.endpoint(roles[0])
        if kind_of(settings.kind).server:
            raise NotServed(
                f"the {described(name, roles, settings)}, has no server. Only `beam run` starts a server for the kind "
                f'{settings.kind}: start the server yourself, set {where}endpoints.{name}.kind to "openai", and set '
                f"{where}endpoints.{name}.base_url to the server's URL",
                can_wait=False,
            )
        try:
            models.endpoint(roles[0])
        except ValueError as error:  # such as a key that is not there
            raise NotServed(f"{described(name, roles, settings)} cannot be opened: {error}", can_wait=False) from error
    faulty = [each for each in await healths(models, asks, where, CHECK_RETRIES, CHECK_TIMEOUT_S) if each.fault]
    names = {each.name for each in faulty}
    served = {role for name, roles in _played(models.settings, asks).items() for role in roles if name not in names}
    changes = await asyncio.to_thread(unfit_for, models.settings, [ask for ask in asks if ask.role in served], where)
    changes += [each.message for each in faulty if not each.is_away]
    lines = [*changes, *(each.message for each in faulty if each.is_away)]
    if lines:
        raise NotServed(printable(" ".join("; and ".join(lines).split())), can_wait=not changes)


def unfit_for(settings: ModelsSettings, asks: Iterable[Asks], where: str = "") -> list[str]:
    """Find the roles (jobs of a model, such as "judge") whose endpoints cannot answer any of the role's prompts.
    Returns a one-line message for each such role; the list is empty if all endpoints are fit.

    ``settings`` define the endpoint of each role. ``asks`` holds, for each role, the names of the prompts that are sent
    to its model. ``where`` is the text before config keys in the messages, such as ``reward.``; it is "" for the main
    config.
    """
    sent: dict[str, list[str]] = {}
    for ask in asks:
        if settings.has_role(ask.role):
            sent.setdefault(ask.role, []).extend(ask.to(settings).prompts)
    lines = []
    for role, prompts in sorted(sent.items()):
        name, endpoint = settings.endpoint_name(role), settings.endpoint(role)
        kind = kind_of(endpoint.kind)
        try:
            answered = load(kind.prompts)(endpoint) if kind.prompts else None
        except CallError:  # the model cannot be loaded, which the endpoint's own check reports
            continue
        if answered is not None and not any(prompt.split(".")[0] in answered for prompt in prompts):
            what = f"{described(name, (role,), endpoint)}: it cannot answer {prompts[0]}, a prompt of the {role}"
            lines.append(f"{what}. Name another endpoint in {where}roles.{role}")
    return lines


async def healths(
    models: Models, asks: Iterable[Asks], where: str = "", retries: int = 0, timeout_s: float = SHORT_CHECK_TIMEOUT_S
) -> tuple[Health, ...]:
    """Check all endpoints of the roles in ``asks`` concurrently. Returns one result for each endpoint.

    ``models`` gives access to the endpoints. ``asks`` holds, for each role (the job of a model, such as "judge"), the
    names of the prompts that are sent to its model. ``where`` is the text before config keys in messages, such as
    ``reward.``; it is "" for the main config. ``retries`` is how many times a failed check is repeated. ``timeout_s``
    is the time limit, in seconds, of one check of a server. The loading of a model in this process has no limit.
    """

    async def check(name: str, roles: tuple[str, ...]) -> Health:
        settings, breaker = models.settings.endpoint(roles[0]), models.breaker(roles[0])
        if breaker is not None:
            fault = await breaker.check(retries, timeout_s)
        else:
            bound_s = None if kind_of(settings.kind).in_process else timeout_s
            fault = await checked(models.endpoint(roles[0]).check, retries, bound_s)
        health = Health(name, roles, fault)
        if fault is None or not (health.is_away or will_not_serve(settings, fault)):
            return Health(name, roles)
        return replace(health, message=what_to_do(name, roles, settings, fault, where))

    return tuple(await asyncio.gather(*(check(*each) for each in _played(models.settings, asks).items())))


def _played(settings: ModelsSettings, asks: Iterable[Asks]) -> dict[str, tuple[str, ...]]:
    """Return the roles of each endpoint (the jobs of its model, such as "judge"), by the endpoint's name. Only roles
    that are in ``asks`` are returned."""
    played: dict[str, tuple[str, ...]] = {}
    for role in dict.fromkeys(ask.role for ask in asks if settings.has_role(ask.role)):
        name = settings.endpoint_name(role)
        played[name] = (*played.get(name, ()), role)
    return dict(sorted(played.items()))
