"""Divides the limits of the endpoints (model servers) between the machines of a run, and checks that the number of
machines is set if the machines share limits or a budget.
"""

from collections.abc import Mapping
from dataclasses import replace

from groundtrace.inference.cache.folders import shared_location
from groundtrace.inference.endpoint import kind_of
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.pipelines.running.plan.options import OptionError
from groundtrace.storage.uploads import EVERY_S

LIMITS = ("max_concurrency", "requests_per_minute", "tokens_per_minute")


def parts_of(endpoints: Mapping[str, EndpointSettings], workers: int) -> dict[str, EndpointSettings]:
    """Return the endpoints with the limits that each machine gets: each limit divided by ``workers`` and rounded down.

    ``endpoints`` are the settings of the endpoints (model servers) by name. ``workers`` is the number of machines. The
    limits are the maximum numbers of requests at the same time, of requests for each minute, and of tokens for each
    minute. Endpoints whose model runs in the worker process are unchanged. Raises OptionError if a limit above 0 is
    smaller than ``workers``.
    """
    parts: dict[str, EndpointSettings] = {}
    for name, endpoint in endpoints.items():
        is_divided = not kind_of(endpoint.kind).in_process
        whole = {limit: getattr(endpoint, limit) for limit in LIMITS if is_divided}
        for limit, most in whole.items():
            if 0 < most < workers:
                raise OptionError(
                    f"endpoints.{name}.{limit} = {most} cannot be divided between {workers} machines: raise it to "
                    f"{workers} or more, or use at most {most} machines, and set workers in the config to their number"
                )
        parts[name] = replace(endpoint, **{limit: most // workers for limit, most in whole.items()})
    return parts


def overshoot_line(models: ModelsSettings) -> str:
    """Return a sentence for the user on the maximum amount by which a run on several machines can exceed its budget.

    The machines can exceed the budget for two reasons. Their requests in flight still cost money after the budget is
    spent. And each machine reads only every ``EVERY_S`` seconds what the others have spent. ``models`` are the settings
    of the run's models, which also hold the number of machines.
    """
    asked = {models.endpoint_name(role): models.endpoint(role) for role, _ in models.roles}
    at_once = sum(each.max_concurrency for each in asked.values() if not kind_of(each.kind).in_process)
    return (
        f"{models.workers} workers share the budget: they exceed it at most by what {models.workers} × {at_once} "
        f"requests in flight and the requests of {EVERY_S:g} s cost"
    )


def check_workers(endpoints: Mapping[str, EndpointSettings], cache: str, shares_budget: bool) -> None:
    """Raise OptionError if limits or a budget must be divided between machines whose number is unknown.

    Call this only if the setting ``workers`` (the number of machines) is not set. ``endpoints`` are the settings of the
    endpoints (model servers) by name. ``cache`` is the path or URL of the reply cache (the stored replies of models).

    If the cache is neither in a store nor on a network file system, only one machine can use it. Then nothing is
    shared, and the error is not raised. With any other cache, several machines may share the limits of the endpoints
    and the budget. Then the error is raised in two cases:

    - A limit of an endpoint, e.g. the maximum number of requests at the same time, is not the default. Endpoints in the
      worker process are not checked.
    - ``shares_budget`` is True: the run has a budget that workers on other machines share.
    """
    if shared_location(cache) is None:
        return
    limited = [
        f"endpoints.{name}.{limit}"
        for name, endpoint in sorted(endpoints.items())
        for limit in LIMITS
        if getattr(endpoint, limit) != getattr(EndpointSettings, limit) and not kind_of(endpoint.kind).in_process
    ]
    limited += ["the budget"] if shares_budget else []
    if limited:
        raise OptionError(
            f"several machines may share the cache {cache}, so each may use only a part of {' and '.join(limited)}, "
            "but the number of machines is not set: set workers to this number in the config, or with --set workers=N "
            "(1 if only this machine uses the cache)"
        )
