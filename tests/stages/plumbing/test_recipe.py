"""A recipe as a value, and what recipes of earlier versions are told."""

import copy
import pickle
from dataclasses import replace
from typing import Any

import pytest

from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.stages.plumbing.recipe import Ends, Recipe
from groundtrace.stages.plumbing.stage_list import RecipeError


def build(*_: Any) -> Ends:
    return Ends()


MADE = Recipe("mine", RunSettings, build, makes="Nothing.")


def test_a_recipe_can_be_changed_and_copied() -> None:
    assert replace(MADE, name="other").name == "other"
    assert copy.copy(MADE) == copy.deepcopy(MADE) == pickle.loads(pickle.dumps(MADE)) == MADE


@pytest.mark.parametrize(
    "make",
    [
        lambda: Recipe("mine", RunSettings, build, stages=()),  # type: ignore[call-arg]
        lambda: Recipe("mine", RunSettings, build, ()),  # type: ignore[call-arg]
        lambda: Recipe(name="mine", settings=RunSettings, build=build, stages=()),  # type: ignore[call-arg]
    ],
)
def test_a_list_of_stages_is_refused(make: Any) -> None:
    with pytest.raises(RecipeError) as caught:
        make()
    assert str(caught.value) == "Recipe has the argument `stages`: remove it, since the stages are read from the DAG"


@pytest.mark.parametrize("make", [lambda: Ends(rejected=[]), lambda: Ends([])])  # type: ignore[call-arg]
def test_a_list_of_rejections_is_refused(make: Any) -> None:
    with pytest.raises(RecipeError) as caught:
        make()
    assert str(caught.value) == (
        "`build` returns Ends(rejected=…): remove `rejected`, since rejections are collected from the DAG"
    )
