"""The lists of scorers: names are unique, prompts exist, and the roles are those that a config knows."""

import pytest

from groundtrace.inference.settings import ROLES
from groundtrace.prompts.loader import load_prompt
from groundtrace.rewards.registry import SCORERS, STREAM_SCORERS, TRAINING, scorers_named
from groundtrace.rewards.scorer import Scorer

ALL = (*SCORERS, *TRAINING)


def test_names_are_unique_and_the_outcome_comes_first() -> None:
    assert [scorer.name for scorer in SCORERS] == ["outcome", "format", "spatial", "counting", "temporal", "reasoning"]
    assert len({scorer.name for scorer in ALL}) == len(ALL)
    assert len({scorer.name for scorer in STREAM_SCORERS}) == len(STREAM_SCORERS)
    assert STREAM_SCORERS[:2] == SCORERS[:2]


def test_a_scorer_by_its_name() -> None:
    assert scorers_named("boxes", "outcome", "format") == (TRAINING[0], SCORERS[0], SCORERS[1])
    with pytest.raises(KeyError, match="beauty"):
        scorers_named("beauty")


@pytest.mark.parametrize("scorer", (*ALL, *STREAM_SCORERS), ids=lambda scorer: scorer.name)
def test_what_a_scorer_says_of_itself(scorer: Scorer) -> None:
    assert scorer.why
    assert scorer.floor is None or 0 <= scorer.floor <= 1
    for asks in scorer.asks:
        assert asks.role in ROLES
        assert [load_prompt(name).name for name in asks.prompts] == list(asks.prompts)


def test_the_form_alone_is_a_gate() -> None:
    assert [scorer.name for scorer in ALL if scorer.is_gate] == ["format"]


def test_the_floors_of_the_form_and_the_grounding() -> None:
    assert {scorer.name: scorer.floor for scorer in SCORERS if scorer.floor is not None} == {
        "format": 1.0,
        "spatial": 1.0,
        "counting": 1.0,
        "temporal": 0.7,
    }
    assert {scorer.name for scorer in ALL if scorer.is_grounding} == {"spatial", "counting", "temporal"}
