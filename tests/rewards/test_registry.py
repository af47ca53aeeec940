"""Every scorer: its name is its own, its prompts exist, and its roles are those that a config knows."""

import pytest

from groundtrace.inference.settings import ROLES
from groundtrace.prompts.loader import load_prompt
from groundtrace.rewards.registry import SCORERS, scorers_named
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorer_sets import STREAM_SCORERS, TRACE_SCORERS
from groundtrace.rewards.scorers import boxes, format, outcome
from groundtrace.schemas.registry import RegistryError


@pytest.mark.parametrize("scorers", [TRACE_SCORERS, STREAM_SCORERS], ids=["traces", "streams"])
def test_the_outcome_and_the_form_come_first_and_no_name_twice(scorers: tuple[Scorer, ...]) -> None:
    assert scorers[:2] == (outcome.SCORER, format.SCORER)
    assert len({scorer.name for scorer in scorers}) == len(scorers)


def test_a_scorer_by_its_name() -> None:
    assert scorers_named("boxes", "outcome", "format") == (boxes.SCORER, outcome.SCORER, format.SCORER)
    with pytest.raises(RegistryError, match=r"must be one of .*outcome.*, got 'otucome': did you mean outcome\?"):
        scorers_named("otucome")


@pytest.mark.parametrize("scorer", (*SCORERS.values(), *STREAM_SCORERS), ids=lambda scorer: scorer.name)
def test_what_a_scorer_says_of_itself(scorer: Scorer) -> None:
    assert scorer.why
    assert scorer.floor is None or 0 <= scorer.floor <= 1
    for asks in scorer.asks:
        assert asks.role in ROLES
        assert [load_prompt(name).name for name in asks.prompts] == list(asks.prompts)


@pytest.mark.parametrize(
    ("name", "floor", "is_grounding", "is_gate"),
    [
        ("format", 1.0, False, True),
        ("spatial", 1.0, True, False),
        ("counting", 1.0, True, False),
        ("temporal", 0.7, True, False),
        ("outcome", None, False, False),
        ("reasoning", None, False, False),
    ],
)
def test_what_rests_on_a_scorer(name: str, floor: float | None, is_grounding: bool, is_gate: bool) -> None:
    scorer = SCORERS[name]
    assert (scorer.floor, scorer.is_grounding, scorer.is_gate) == (floor, is_grounding, is_gate)
