"""The reward of Argos: Eq. 9 on a group of responses."""

import json

import pytest

from rewards.aggregate import GateSettings
from rewards.locating import Served
from rewards.recipes.argos import Argos
from rewards.recipes.base import Memory
from rewards.registry import SCORERS
from schemas.config import ConfigError
from schemas.geometry import Point

SEES = Served(frozenset({"judge", "detector", "segmenter"}))
DOG = (Point("dog", 3.0, 4.0),)


@pytest.mark.parametrize(
    ("answer", "weights", "reward"),
    [
        # outcome 1, spatial 0 (the label is not found), reasoning 1
        ("2", {"outcome": 1.0, "spatial": 1.0, "reasoning": 1.0}, 2 / 3),
        ("2", {"outcome": 1.0, "spatial": 3.0, "reasoning": 1.0}, 0.4),
        ("2", {"outcome": 1.0}, 1.0),
        # below the gate the outcome stands alone
        ("3", {"outcome": 1.0, "spatial": 1.0, "reasoning": 1.0}, 0.0),
    ],
)
def test_argos_eq9_weights(run, scripted, case, answer, weights, reward) -> None:
    caller = scripted(detector=['{"boxes": []}'], judge=[json.dumps({"reason": "", "supports": "yes"})])
    asked = {"question": "What is it?", "answer_type": "numeric"}
    given = case(f"<think>so</think><answer>{answer}</answer>", caller, SEES, points=DOG, **asked)
    (earned,) = run(Argos(GateSettings(weights)).score([given], Memory()))
    assert (earned.reward, earned.outcome) == (pytest.approx(reward), float(answer == "2"))


def test_a_group_is_scored_in_order_and_nothing_is_learned(run, case) -> None:
    recipe = Argos(GateSettings())
    group = [case(f"<answer>{answer}</answer>") for answer in ("2", "3", "2")]
    assert [earned.reward for earned in run(recipe.score(group, Memory()))] == [1.0, 0.0, 1.0]
    assert recipe.learn(Memory(), []) == Memory()


def test_a_weight_of_no_scorer_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^weights\.spatail: there is no such scorer; there are outcome, spatial"):
        Argos(GateSettings({"outcome": 1.0, "spatail": 1.0}))
    with pytest.raises(ConfigError, match=r"^weights\.spatial: there is no such scorer; there are outcome$"):
        Argos(GateSettings(), SCORERS[:1])
