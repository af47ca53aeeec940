"""Recipes by their names, with the settings of a config."""

import asyncio
from dataclasses import replace

import pytest

from groundtrace.config.errors import ConfigError
from groundtrace.grading.responses.traces import read_trace
from groundtrace.inference.session import Session
from groundtrace.rewards.case import Context, case_of
from groundtrace.rewards.locating import ObjectMasks, ServedRoles
from groundtrace.rewards.recipes.argos import Argos, ArgosSettings
from groundtrace.rewards.recipes.base import Memory
from groundtrace.rewards.recipes.registry import RECIPES, make_recipe
from groundtrace.rewards.registry import SCORERS
from groundtrace.rewards.trajectory import Trajectory
from groundtrace.schemas.records import Question

BOUNDED = "tests.rewards.test_scorer_sets:BOUNDED"
"""A scorer with the arguments least and most."""
OPTIONS = {"rucl": {"ramp_steps": 100}}


@pytest.mark.parametrize("name", RECIPES.ours)
def test_a_recipe_by_its_name(name) -> None:
    recipe = make_recipe(name, OPTIONS.get(name, {}))
    assert (type(recipe), recipe.name) == (RECIPES[name], name)
    assert set(recipe.shown) <= {*SCORERS}


def test_options_become_settings() -> None:
    assert make_recipe("argos", {"tau": 0.5, "weights": {"spatial": 2}}) == Argos(
        ArgosSettings({"outcome": 1.0, "spatial": 2.0, "reasoning": 1.0}, 0.5)
    )


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("agros", {}, "the reward recipe cannot be used: recipe must be one of argos, "),
        ("argos", {"alpha": 1}, "unknown key options.alpha; known here: pointing, scorers, skip, tau, weights"),
        ("argos", {"tau": 2}, "options.tau must be at most 1, got 2"),
        ("argos", {"weights": {"spatail": 1}}, "options.weights.spatail: the scorer is unknown"),
        ("argos", {"skip": ["spatail"]}, "options.skip.spatail: the scorer is unknown"),
        ("argos", {"pointing": {"first_share": 2}}, "options.pointing.first_share must be at most 1, got 2"),
        ("argos", {"miss_cost": 1}, "options.miss_cost is now options.pointing.wrong_cost"),
        (
            "argos",
            {"scorers": {BOUNDED: {"mst": 2}}},
            f"unknown key options.scorers.{BOUNDED}.mst; did you mean options.scorers.{BOUNDED}.most?",
        ),
        (
            "argos",
            {"scorers": {BOUNDED: {"x": 2}}},
            f"unknown key options.scorers.{BOUNDED}.x; known here: least, most",
        ),
        ("rucl", {}, "options.ramp_steps is not set"),
        ("sail_rl", {"cascading": {"alpha": 2}}, "options.cascading.alpha must be at most 1, got 2"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(name, options, said) -> None:
    with pytest.raises(ConfigError) as caught:
        make_recipe(name, options)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", RECIPES.ours)
@pytest.mark.parametrize("text", ["<think>so</think><answer>45</answer>", "<answer>upwards</answer>", "none"])
def test_an_answer_of_a_type_that_is_not_known_is_unscored(name: str, text: str) -> None:
    """It neither earns nor costs anything: nobody here can say what is right."""
    question = Question("q", "drawn", "MIT", (), "At which angle?", "45 degrees", "angle")
    masks = ObjectMasks(question, Session(None), ServedRoles(frozenset()))  # type: ignore[arg-type]
    case = case_of(read_trace(0, text), masks)
    case = replace(case, context=Context(stream="textual"), trajectory=Trajectory((None,)))
    recipe = make_recipe(name, OPTIONS.get(name, {}))
    [earned] = asyncio.run(recipe.score([case], Memory()))
    [graded] = [verdict for verdict in earned.verdicts if verdict.name == "outcome"]
    assert (earned.reward, earned.outcome) == (None, None)
    assert "the answer type 'angle' is not known here" in graded.reason
