"""Recipes by their names, with the settings of a config."""

import pytest

from groundtrace.rewards.recipes.argos import Argos, ArgosSettings
from groundtrace.rewards.recipes.registry import RECIPES, make_recipe
from groundtrace.rewards.registry import SCORERS, TRAINING
from groundtrace.schemas.config import ConfigError

NAMES = ["argos", "sail_rl", "ivgr", "rucl", "codedance"]
OPTIONS = {"rucl": {"ramp_steps": 100}}


def test_the_recipes() -> None:
    assert list(RECIPES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_by_its_name(name) -> None:
    recipe = make_recipe(name, OPTIONS.get(name, {}))
    assert (type(recipe), recipe.name) == (RECIPES[name], name)
    assert set(recipe.shown) <= {scorer.name for scorer in (*SCORERS, *TRAINING)}


def test_options_become_settings() -> None:
    assert make_recipe("argos", {"tau": 0.5, "weights": {"spatial": 2}}) == Argos(
        ArgosSettings({"outcome": 1.0, "spatial": 2.0, "reasoning": 1.0}, 0.5)
    )


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("agros", {}, "there is no reward recipe 'agros'; there are argos, sail_rl, ivgr, rucl, codedance"),
        ("argos", {"alpha": 1}, "unknown key options.alpha; known here: pointing, skip, tau, weights"),
        ("argos", {"tau": 2}, "options.tau must be at most 1, got 2"),
        ("argos", {"weights": {"spatail": 1}}, "options.weights.spatail: there is no such scorer"),
        ("argos", {"skip": ["spatail"]}, "options.skip.spatail: there is no such scorer"),
        ("argos", {"pointing": {"first_share": 2}}, "options.pointing.first_share must be at most 1, got 2"),
        ("argos", {"miss_cost": 1}, "options.miss_cost is now options.pointing.wrong_cost"),
        ("rucl", {}, "options.ramp_steps is not set"),
        ("sail_rl", {"cascading": {"alpha": 2}}, "options.cascading.alpha must be at most 1, got 2"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(name, options, said) -> None:
    with pytest.raises(ConfigError) as caught:
        make_recipe(name, options)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)
