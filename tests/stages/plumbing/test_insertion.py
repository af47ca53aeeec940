"""A stage that is put into an existing recipe."""

import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import settings, settings_from
from groundtrace.inference.settings import ModelsSettings
from groundtrace.pipelines.dual_stream import RECIPE as DUAL_STREAM
from groundtrace.pipelines.executable_cot import RECIPE as EXECUTABLE_COT
from groundtrace.pipelines.grounded_cot import RECIPE as GROUNDED_COT
from groundtrace.pipelines.running.plan.wiring import UnrunPipeline, WiredPipeline, wire
from groundtrace.stages.plumbing.insertion import made_stage
from groundtrace.stages.plumbing.recipe import Recipe, RunContext
from groundtrace.stages.plumbing.stage import DraftStage, Stage, Work
from groundtrace.stages.plumbing.stage_list import RecipeError
from groundtrace.stages.sources.base import Source
from groundtrace.vision.media import MediaRoots
from tests.wired import default_stages

ROOTS = MediaRoots("in", "run")


@settings
class OwnSettings:
    """Has one key."""

    floor: float = 0.5


@dataclass
class Own(DraftStage):
    settings: OwnSettings
    roots: MediaRoots
    times: int = 1
    stage = Stage("own", "something of the user's", settings=OwnSettings)

    def work(self) -> Work:
        return lambda draft: draft


class Plain(DraftStage):
    stage = Stage("plain", "something of the user's")

    def work(self) -> Work:
        return lambda draft: draft


@dataclass
class Strange(DraftStage):
    depth: int
    stage = Stage("strange", "something of the user's")


@dataclass
class Undeclared(DraftStage):
    settings: OwnSettings
    stage = Stage("undeclared", "something of the user's")


@dataclass
class Trace(DraftStage):
    settings: OwnSettings
    more: tuple[int, ...] = field(default_factory=tuple)
    stage = Stage("trace", "a name that the recipe uses", settings=OwnSettings)


class Cleaner(DraftStage):
    stage = Stage("clean", "a name that the recipe uses")

    def work(self) -> Work:
        return lambda draft: draft


def context_of(config: Any) -> RunContext:
    models = ModelsSettings(tuple(config.endpoints.items()), tuple(config.roles.items()), "replies.sqlite", "in", "run")
    return RunContext((Source("jsonl", "records.jsonl"),), ROOTS, models)


def wired(recipe: Recipe) -> WiredPipeline:
    config: Any = recipe.settings()
    return wire(recipe, UnrunPipeline(), context_of(config), config)


def names(recipe: Recipe) -> list[str]:
    return [stage.name for stage in default_stages(recipe)]


@pytest.mark.parametrize(
    ("after", "following"), [("clean", "dedup"), ("ingest", "clean"), ("point", "split"), ("split.sft", "overlay")]
)
def test_later_stages_read_what_the_stage_keeps(after: str, following: str) -> None:
    recipe = GROUNDED_COT.with_stage(Own, after=after, name="mine")
    found = names(recipe)
    assert [name for name in found if name != "own"] == names(GROUNDED_COT)
    assert found.index(after.partition(".")[0]) + 1 == found.index("own") == found.index(following) - 1
    pipeline = wired(recipe)  # refuses stages whose kept records are lost
    assert [stage.name for stage in pipeline.stages] == found


def test_the_recipe_itself_is_unchanged() -> None:
    recipe = GROUNDED_COT.with_stage(Own, after="clean", name="mine")
    assert (recipe.name, recipe.reward, recipe.makes) == ("mine", GROUNDED_COT.reward, GROUNDED_COT.makes)
    assert "own" not in names(GROUNDED_COT)


def test_several_stages_and_another_recipe() -> None:
    recipe = DUAL_STREAM.with_stage(Plain, after="clean", name="one").with_stage(Own, after="plain", name="two")
    found = names(recipe)
    assert found[found.index("clean") :][:3] == ["clean", "plain", "own"]
    assert [stage.name for stage in wired(recipe).stages] == found


def test_the_function_of_a_recipe_with_a_stage_can_be_pickled() -> None:
    build = GROUNDED_COT.with_stage(Plain, after="clean", name="mine").build
    assert pickle.loads(pickle.dumps(build)).args[1:] == (Plain, "clean")


def test_the_stage_has_its_section_of_the_config() -> None:
    recipe = GROUNDED_COT.with_stage(Own, after="clean", name="mine")
    assert settings_from(recipe.settings, {"own": {"floor": 0.75}}).own == OwnSettings(0.75)
    assert recipe.settings().own == OwnSettings()  # type: ignore[attr-defined]
    with pytest.raises(ConfigError) as caught:
        settings_from(recipe.settings, {"own": {"flor": 0.75}})
    assert str(caught.value) == "unknown key own.flor; did you mean own.floor?"
    config: Any = settings_from(recipe.settings, {"own": {"floor": 0.75}})
    made: Any = made_stage(Own, context_of(config), config)
    assert (made.settings, made.roots, made.times) == (OwnSettings(0.75), ROOTS, 1)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (Plain(), "with_stage was given <Plain(PTransform) label=[Plain] at "),
        (DraftStage, "the class DraftStage has no description: give it the attribute `stage` with a Stage object"),
        (GROUNDED_COT, "with_stage was given Recipe(name='grounded_cot'"),
        (
            Strange,
            "with_stage cannot fill the field 'depth' of the class Strange, but only the fields settings, roots, "
            "models: give the field a default value, or add the stage in a copy of the recipe's file",
        ),
        (
            Undeclared,
            "the class Undeclared has the field 'settings', but its Stage object names no class of settings: give the "
            "Stage object the argument `settings`",
        ),
        (Trace, "the recipe's config has the key 'trace' already: give the stage 'trace' another name"),
    ],
)
def test_a_stage_that_cannot_be_put_into_a_recipe(stage: Any, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        GROUNDED_COT.with_stage(stage, after="clean", name="mine")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("after", "name", "message"),
    [
        (None, "mine", "with_stage got after=None: give the name of a stage, such as 'clean'"),
        (3, "mine", "with_stage got after=3: give the name of a stage, such as 'clean'"),
        ("", "mine", "with_stage got after='': give the name of a stage, such as 'clean'"),
        *(
            (
                "clean",
                name,
                f"with_stage got name={name!r}: give the new recipe a name of letters, digits, '_', '.' and '-', such "
                "as 'my_cot'",
            )
            for name in (None, "", "../x", "a b")
        ),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(after: Any, name: Any, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        GROUNDED_COT.with_stage(Plain, after=after, name=name)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["has-dash", "with.dot", "", "class", "__doc__"])
def test_a_name_that_cannot_be_a_key_of_the_config(name: str) -> None:
    class Named(Plain):
        stage = Stage(name, "something of the user's", settings=OwnSettings)

    with pytest.raises(RecipeError) as caught:
        GROUNDED_COT.with_stage(Named, after="clean", name="mine")
    assert str(caught.value) == (
        f"the stage {name!r} has settings, so its name must be a key of the config: give it a name of letters, digits "
        "and '_', such as 'my_stage'"
    )


@pytest.mark.parametrize(
    ("stage", "after", "message"),
    [
        (
            Plain,
            "cleen",
            "the stage 'plain' cannot be added after 'cleen', because the recipe has no such stage: add it after one",
        ),
        (
            Plain,
            "cut",
            "the stage 'plain' cannot be added after 'cut', because the recipe reads no output 'kept' of 'cut': name "
            "'cut.rl' or 'cut.sft'",
        ),
        (
            Plain,
            "split",
            "the stage 'plain' cannot be added after 'split', because the recipe reads no output 'kept' of 'split': "
            "name 'split.sft' or 'split.rl'",
        ),
        (
            Plain,
            "clean.sft",
            "the stage 'plain' cannot be added after 'clean.sft', because the recipe reads no output 'sft' of 'clean': "
            "name 'clean'",
        ),
        (
            Plain,
            "clean.rejected",
            "the stage 'plain' cannot be added after 'clean.rejected', because the recipe reads ",
        ),
        (Plain, "ingest.read", "the stage 'plain' cannot be added after 'ingest.read', because the recipe reads no "),
        (
            Plain,
            "rubric_judge.mined",
            "the stage 'plain' cannot be added after 'rubric_judge.mined', because the output 'mined' holds no drafts: "
            "add it after another stage or output",
        ),
        (
            Plain,
            "rubric_candidates",
            "the stage 'plain' cannot be added after 'rubric_candidates', which is a part of the stage 'rubric_judge': "
            "add it after 'rubric_judge'",
        ),
        (Cleaner, "ingest", "the recipe has the stage 'clean' already: with_stage cannot add it again"),
    ],
)
def test_a_place_that_a_recipe_lacks(stage: type[DraftStage], after: str, message: str) -> None:
    recipe = GROUNDED_COT.with_stage(stage, after=after, name="mine")
    with pytest.raises(RecipeError) as caught:
        wired(recipe)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("after", ["cut", "split", "clean.rejected", "rubric_candidates"])
def test_the_place_is_also_checked_without_the_complete_dag(after: str) -> None:
    with pytest.raises(RecipeError, match=f"^the stage 'plain' cannot be added after '{after}', "):
        names(GROUNDED_COT.with_stage(Plain, after=after, name="mine"))


def test_a_stage_that_a_recipe_has_several_times() -> None:
    with pytest.raises(RecipeError) as caught:
        wired(EXECUTABLE_COT.with_stage(Plain, after="difficulty", name="mine"))
    assert str(caught.value) == (
        "the stage 'plain' cannot be added after 'difficulty', because the recipe has several such stages: add it "
        "after another stage, or in a copy of the recipe's file"
    )
