"""What a scorer's function may return."""

import asyncio
import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from groundtrace.rewards.case import Case
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.records import Verdict

CASE = cast("Case", SimpleNamespace(text="<answer>1</answer>"))


def scorer_of(returned: Any) -> Scorer:
    """A scorer whose function returns this."""

    async def score(_case: Case) -> Verdict:
        return returned

    return Scorer("mine", "always", score)


@pytest.mark.parametrize("value", [None, 0, 0.5, 1, -0.5])
def test_a_verdict_is_passed_on(value: float | None) -> None:
    verdict = Verdict("mine", value, "why")
    assert asyncio.run(scorer_of(verdict).verdict(CASE)) is verdict


def test_a_function_that_is_not_asynchronous_is_named() -> None:
    scorer = Scorer("mine", "always", cast("Any", lambda case: Verdict("mine", 1.0, "why")))
    with pytest.raises(ValueError, match=r"the function of the scorer mine is not asynchronous: define it with `async"):
        asyncio.run(scorer.verdict(CASE))


@pytest.mark.parametrize(
    "returned",
    [
        None,
        1.0,
        Verdict("outcome", 1.0, "why"),
        *(Verdict("mine", cast("Any", value), "why") for value in (2, math.nan, math.inf, -math.inf, "1")),
    ],
)
def test_anything_else_names_the_scorer(returned: Any) -> None:
    with pytest.raises(
        ValueError, match=r"the scorer mine of the module .* returned .*: return a Verdict with this name"
    ):
        asyncio.run(scorer_of(returned).verdict(CASE))
