"""What each of several machines gets of the limits, and which runs are refused without their number."""

import pytest

from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.pipelines.running.plan.options import OptionError
from groundtrace.pipelines.running.plan.workers import check_workers, overshoot_line, parts_of

FAR = "s3://bucket/cache/replies.sqlite"


def endpoint(kind: str = "openai", **limits: int) -> EndpointSettings:
    return EndpointSettings(kind, "m", base_url="http://h/v1" if kind == "openai" else "", **limits)


@pytest.mark.parametrize(
    ("workers", "limits", "expected"),
    [
        (1, {"max_concurrency": 7, "requests_per_minute": 100}, (7, 100, 0)),
        (3, {"max_concurrency": 7, "requests_per_minute": 100, "tokens_per_minute": 3}, (2, 33, 1)),
        (64, {}, (1, 0, 0)),
    ],
)
def test_limits_are_divided_and_rounded_down(
    workers: int, limits: dict[str, int], expected: tuple[int, int, int]
) -> None:
    part = parts_of({"e": endpoint(**limits)}, workers)["e"]
    assert (part.max_concurrency, part.requests_per_minute, part.tokens_per_minute) == expected


def test_a_model_in_the_process_is_not_divided() -> None:
    assert parts_of({"e": endpoint("classical", max_concurrency=2)}, 5)["e"].max_concurrency == 2


def test_a_limit_that_cannot_be_divided_is_refused() -> None:
    with pytest.raises(OptionError, match=r"endpoints.e.requests_per_minute = 3 cannot be divided between 4 machines"):
        parts_of({"e": endpoint(requests_per_minute=3)}, 4)


@pytest.mark.parametrize(
    ("cache", "limits", "shares_budget", "named"),
    [
        (FAR, {"requests_per_minute": 9}, False, "endpoints.e.requests_per_minute"),
        (FAR, {"max_concurrency": 9}, True, "endpoints.e.max_concurrency and the budget"),
        (FAR, {}, True, "the budget"),
        (FAR, {}, False, ""),
        ("here/replies.sqlite", {"requests_per_minute": 9}, True, ""),
    ],
)
def test_who_has_to_say_how_many_workers_there_are(
    cache: str, limits: dict[str, int], shares_budget: bool, named: str
) -> None:
    if not named:
        check_workers({"e": endpoint(**limits)}, cache, shares_budget)
        return
    with pytest.raises(OptionError, match=rf"may use only a part of {named}, but .*: set workers to this number"):
        check_workers({"e": endpoint(**limits)}, cache, shares_budget)


def test_what_several_machines_may_spend_too_much_is_printed() -> None:
    endpoints = parts_of({"e": endpoint(max_concurrency=64), "in": endpoint("classical")}, 4)
    models = ModelsSettings(tuple(endpoints.items()), (("judge", "e"), ("pointer", "in")), "c", "i", "r", workers=4)
    assert overshoot_line(models) == (
        "4 workers share the budget: they exceed it at most by what 4 × 16 requests in flight and the requests of 5 s "
        "cost"
    )
