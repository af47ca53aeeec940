"""Scorers with the arguments that a config gives them, and those that only the config names."""

import asyncio
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import settings
from groundtrace.rewards.recipes.argos import Argos, ArgosSettings
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorer_sets import STREAM_SCORERS, TRACE_SCORERS, configured
from groundtrace.schemas.records import Verdict


@settings
class Bounds:
    """The least and the most."""

    least: int = 1
    most: int = 5


async def _score(case: Any, bounds: Bounds) -> Verdict:
    return Verdict("bounded", 1.0, f"{bounds.least} to {bounds.most}")


BOUNDED = Scorer("bounded", "all have bounds", _score, arguments=Bounds())
FAKE = replace(BOUNDED, name="outcome")
CASE: Any = SimpleNamespace(text="")  # these scorers read nothing else


def test_a_config_without_scorers_changes_nothing() -> None:
    for scorers in (TRACE_SCORERS, STREAM_SCORERS):
        assert configured(scorers, {}, "verify.scorers") == scorers


def test_arguments_replace_those_that_are_named_and_keep_the_order() -> None:
    found = configured((*TRACE_SCORERS[:1], BOUNDED, *TRACE_SCORERS[1:]), {"bounded": {"most": 9}}, "verify.scorers")
    assert [scorer.name for scorer in found] == ["outcome", "bounded", *(scorer.name for scorer in TRACE_SCORERS[1:])]
    assert found[1].arguments == Bounds(1, 9)
    assert asyncio.run(found[1].verdict(CASE)).reason == "1 to 9"
    assert asyncio.run(BOUNDED.verdict(CASE)).reason == "1 to 5"


def test_a_scorer_that_only_the_config_names_comes_last() -> None:
    given = {f"{__name__}:BOUNDED": {"least": 3}, "think_section": {}}
    added = configured(TRACE_SCORERS, given, "verify.scorers")[len(TRACE_SCORERS) :]
    assert [scorer.name for scorer in added] == ["bounded", "think_section"]
    assert added[0].arguments == Bounds(3, 5)


def test_a_scorer_of_the_recipe_is_not_replaced_by_that_of_the_registry() -> None:
    """iVGR's boxes of traces have other needs than those of its reward, under the same name."""
    assert configured(STREAM_SCORERS, {"boxes": {}}, "verify.scorers") == STREAM_SCORERS


def test_the_reward_takes_them_too() -> None:
    recipe = Argos(ArgosSettings(scorers={f"{__name__}:BOUNDED": {"most": 2}}))
    assert recipe.scorers[-1] == replace(BOUNDED, arguments=Bounds(1, 2))
    assert recipe.scorers[:-1] == TRACE_SCORERS


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"outcom": {}}, "verify.scorers.outcom must be one of boxes, "),
        ({"outcom": {}}, "got 'outcom': did you mean outcome?"),
        ({"gone:X": {}}, "verify.scorers.gone:X names the scorer gone:X, but gone:X cannot be imported"),
        (
            {"outcome": {"most": 2}},
            "the scorer 'outcome' does not accept arguments: remove most from this section",
        ),
        ({f"{__name__}:BOUNDED": {"moost": 2}}, "did you mean"),
        ({f"{__name__}:BOUNDED": {"most": "x"}}, ":BOUNDED.most must be an integer, got 'x'"),
        ({f"{__name__}:FAKE": {}}, ":FAKE: another scorer already has the name outcome: rename this scorer"),
        (
            {f"{__name__}:Bounds": {}},
            "must be a value of groundtrace.rewards.scorer.Scorer, but is the class Bounds",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        configured(TRACE_SCORERS, given, "verify.scorers")
    assert "\n" not in str(caught.value)
