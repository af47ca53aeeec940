"""Defines recipes. A recipe is a pipeline's name, the class of its settings, and the function that connects its stages
(steps).

Each recipe is an object in its own file, in ``pipelines/`` or in any folder of its author. The function builds a DAG of
Beam transforms. The list of stages and the outputs with rejections are read from this DAG
(:mod:`groundtrace.pipelines.running.plan.wiring`).
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Self

import apache_beam as beam
from apache_beam.pvalue import PCollection

from groundtrace.grading.question_text import POINTS
from groundtrace.inference.settings import ModelsSettings
from groundtrace.stages.plumbing.insertion import check_names, check_stage, inserted, made_stage, with_section
from groundtrace.stages.plumbing.stage import DraftStage
from groundtrace.stages.plumbing.stage_list import RecipeError
from groundtrace.stages.sources.base import Source
from groundtrace.vision.media import MediaRoots


@dataclass(frozen=True)
class Draw:
    """Determines which questions one pass over the input uses. A question that is used is called drawn.

    ``below`` is a threshold in hexadecimal digits: a question is drawn if the hash of its id is below this threshold.
    If ``below`` is "", all questions are drawn. ``target_sft`` is the wanted number of SFT rows; None means that there
    is no wanted number. ``last`` is True in the last pass. If a pass before the last one gives too few SFT rows, a new
    pass draws more questions.
    """

    below: str = ""
    target_sft: int | None = None
    last: bool = True


@dataclass(frozen=True)
class RunContext:
    """Holds the run's input, media folders and models. From these, a recipe (definition of a pipeline) builds its DAG,
    i.e. its graph of Beam transforms.

    ``sources`` are the parts of the input, such as files. ``roots`` holds the data folder and the run folder.
    ``models`` holds the settings of the models. ``limit`` is the number of records to read from the beginning of the
    input; None means all. ``draw`` selects the questions of this pass over the input. A recipe that can make an exact
    number of SFT rows passes ``draw`` to two of its stages: DrawQuestions before the first model call, and CutToTarget
    before the outputs.
    """

    sources: tuple[Source, ...]
    roots: MediaRoots
    models: ModelsSettings
    limit: int | None = None
    draw: Draw = field(default_factory=Draw)


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Holds the outputs of a recipe, i.e. of a pipeline as a graph of Beam transforms. Rejections are not among these
    outputs; they are collected from the stages.

    Attributes:
        sft: the verified drafts (questions with their data) that become SFT rows; None if the recipe makes no SFT rows.
        rl: the drafts that become RL rows; None if the recipe makes no RL rows.
        artifacts: further files of the run folder, by name. Each value is a collection of exactly one text.
    """

    sft: PCollection | None = None
    rl: PCollection | None = None
    artifacts: Mapping[str, PCollection] = field(default_factory=dict)

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Create an object that holds the outputs of a recipe.

        Raises RecipeError for the argument ``rejected``, in which recipes for earlier versions passed their rejected
        records. Rejections are now collected from the stages. Raises RecipeError for positional arguments, too.
        """
        if values or "rejected" in named:
            raise RecipeError(
                "`build` returns Ends(rejected=…): remove `rejected`, since rejections are collected from the DAG"
            )
        return super().__new__(cls)


@dataclass(frozen=True)
class Recipe:
    """Describes a pipeline by its name, its settings and the function that connects its stages (steps).

    Attributes:
        name: the recipe's name in rows and in ``run.json``.
        settings: the class of its config, a subclass of :class:`groundtrace.pipelines.running.settings.RunSettings`.
            The subclass adds the sections of the stages. A section is a field with the settings of one stage.
        build: the function that builds the DAG (the graph of Beam transforms). Its arguments are the Beam pipeline, the
            run's context and the settings. It returns the outputs.
        makes: a description of the recipe's rows for the data card, in one or two sentences.
        reward: the name of the reward for which its RL rows are made
            (:data:`groundtrace.rewards.recipes.registry.RECIPES`); "" if there is no such reward.
        forms: the forms of response that the prompts in its rows request, such as reasoning with boxes
            (:data:`groundtrace.grading.question_text.INSTRUCTIONS`).
        writes_questions: whether it writes questions for records that have only images. The input of such a recipe may
            be a folder of images.
    """

    name: str
    settings: type
    build: Callable[[beam.Pipeline, RunContext, Any], Ends]
    _: KW_ONLY
    makes: str = ""
    reward: str = ""
    forms: tuple[str, ...] = (POINTS,)
    writes_questions: bool = False

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Create the recipe.

        Raises RecipeError for the argument ``stages``, which existed in earlier versions, and for more than three
        positional arguments.
        """
        if len(values) > 3 or "stages" in named:
            raise RecipeError("Recipe has the argument `stages`: remove it, since the stages are read from the DAG")
        return super().__new__(cls)

    def with_stage(self, stage: type[DraftStage], *, after: str, name: str) -> "Recipe":
        """Return a new recipe: this one with one more stage (step), without a copy of this recipe's file.

        ``stage`` is the class of the stage. Its fields ``settings``, ``roots`` and ``models`` are filled by their
        names: with the stage's settings, the media folders and the models of the run. If the stage has settings, the
        config has a section for them under the stage's name. ``after`` is the name of the stage whose kept drafts
        (questions with their data) the new stage reads. If that stage has several outputs, ``after`` names the stage
        and one of them, such as ``split.sft``. ``name`` is the name of the new recipe.

        Raises RecipeError if an argument has a wrong type, if ``name`` cannot be a name, if a field of ``stage`` cannot
        be filled, or if the config has a key with the stage's name already. The new recipe's ``build`` raises
        RecipeError if there is no stage or output ``after``.
        """
        check_stage(stage)
        check_names(after, name)
        build = partial(_build_with, self.build, stage, after)
        return replace(self, name=name, settings=with_section(self.settings, stage), build=build)


def _build_with(
    build: Callable[[beam.Pipeline, RunContext, Any], Ends],
    stage: type[DraftStage],
    after: str,
    root: beam.Pipeline,
    run: RunContext,
    settings: Any,
) -> Ends:
    """Run ``build``, a recipe's function, with one more stage (step) behind the stage ``after``.

    Returns the recipe's outputs. ``stage`` is the class of the new stage. ``root`` is the Beam pipeline to which the
    stages are added. ``run`` holds the input, the media folders and the models, and ``settings`` is the config.
    """
    with inserted(root, made_stage(stage, run, settings), after):
        return build(root, run, settings)
