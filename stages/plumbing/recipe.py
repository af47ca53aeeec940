"""What a recipe is: the stages that turn an input into rows, wired, with their settings.

A recipe is a value in a file of its own (``pipelines/`` holds the bundled ones; others stand where their authors like).
What is printed about a run, and what is checked before it, is read from here and from the stages' own descriptions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from groundtrace.inference.asking import PROMPT as REPAIR_PROMPT
from groundtrace.inference.asking import Asks
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.arrow import CORE
from groundtrace.schemas.columns import Column
from groundtrace.schemas.question_text import POINTS
from groundtrace.stages.draw_questions import Draw
from groundtrace.stages.ingest_records import MediaRoots
from groundtrace.stages.plumbing.stage import Stage
from groundtrace.stages.sources.base import Source


@dataclass(frozen=True)
class RunContext:
    """The run's input, media roots and models. ``limit`` keeps the first records of the input (None: all).

    ``draw`` says which questions this pass draws; a DAG that can end with an exact number of rows heeds it by
    DrawQuestions before its first model call and CutToTarget at its ends.
    """

    sources: tuple[Source, ...]
    roots: MediaRoots
    models: ModelsSettings
    limit: int | None = None
    draw: Draw = field(default_factory=Draw)


@dataclass(frozen=True)
class Ends:
    """A DAG's ends.

    Attributes:
        rejected: the rejections of all stages.
        sft: verified drafts; None where the recipe makes no SFT rows.
        rl: drafts to train on with a reward; None where it makes no RL rows.
        artifacts: by file name, collections of exactly one text each: what else stands in the run folder.
    """

    rejected: Sequence[PCollection]
    sft: PCollection | None = None
    rl: PCollection | None = None
    artifacts: Mapping[str, PCollection] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """A pipeline as a value.

    Attributes:
        name: as it stands in the rows and in ``run.json``.
        settings: the class of its config: :class:`groundtrace.pipelines.running.settings.RunSettings` with a section a
            stage.
        build: wires the stages and returns the ends.
        stages: the descriptions of its stages, in the order in which records pass them; those that look at a sample
            come last.
        makes: for the data card, what its rows are, in one or two sentences.
        reward: the reward recipe that its RL rows are made for (:data:`groundtrace.rewards.recipes.registry.RECIPES`);
            "" where they are for none.
        forms: in which forms its rows ask their questions (:data:`groundtrace.schemas.question_text.INSTRUCTIONS`).
    """

    name: str
    settings: type
    build: Callable[[beam.Pipeline, RunContext, Any], Ends]
    stages: tuple[Stage, ...]
    makes: str = ""
    reward: str = ""
    forms: tuple[str, ...] = (POINTS,)

    def __post_init__(self) -> None:
        names = [stage.name for stage in self.stages]
        if len(set(names)) < len(names):
            raise ValueError(f"the recipe {self.name} lists a stage twice: {', '.join(names)}")
        self._check_columns()

    def _check_columns(self) -> None:
        """Raises ValueError for a column that rows have already, and for one that two stages declare differently.

        Names that differ in capitals alone count as one: SQL takes them for one.
        """
        taken: dict[str, Column[Any]] = {name.casefold(): column for name, column in CORE.items()}
        for stage in self.stages:
            for column in stage.adds:
                other = taken.setdefault(column.name.casefold(), column)
                if other != column:
                    owner = "the rows have" if other is CORE.get(other.name) else "another stage declares"
                    raise ValueError(
                        f"the recipe {self.name}: the stage {stage.name} adds the column {column.name}, and {owner} "
                        "another of that name: rename it"
                    )

    @property
    def asks(self) -> tuple[Asks, ...]:
        """What its stages ask of the roles, stage by stage."""
        return tuple(ask for stage in self.stages for ask in stage.asks)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that must have endpoints, each once, in the order in which they are first asked."""
        return tuple(dict.fromkeys(ask.role for ask in self.asks if ask.required))

    @property
    def roles_asked(self) -> tuple[str, ...]:
        """The roles that are asked where they have endpoints, the required ones among them."""
        return tuple(dict.fromkeys(ask.role for ask in self.asks))

    @property
    def prompts(self) -> tuple[str, ...]:
        """The prompts that it may send, sorted; with the one that asks again, where it asks at all."""
        return _with_repairs({name for ask in self.asks for name in ask.prompts})

    def prompts_sent(self, models: ModelsSettings, settings: Any, clips: bool = True) -> tuple[str, ...]:
        """The prompts that a run with these models and this config may send, sorted.

        ``clips`` False: the input is known to have none.
        """
        sent = set[str]()
        for stage in self.stages:
            section = None if stage.settings is None else section_of(settings, stage.settings)
            for ask in stage.asks:
                asked = models.has_role(ask.role) and (clips or not ask.clips)
                if asked and (ask.when is None or ask.when(section)):
                    sent.update(ask.prompts)
        return _with_repairs(sent)

    @property
    def scores(self) -> tuple[str, ...]:
        """The names of the verdicts that its stages add to traces."""
        return tuple(dict.fromkeys(name for stage in self.stages for name in stage.scores))

    @property
    def adds(self) -> tuple[Column[Any], ...]:
        """The columns that its stages add, in the order of the stages, each once."""
        return tuple(dict.fromkeys(column for stage in self.stages for column in stage.adds))

    def stage(self, name: str) -> Stage | None:
        """The stage of that name."""
        return next((stage for stage in self.stages if stage.name == name), None)


def _with_repairs(prompts: set[str]) -> tuple[str, ...]:
    """The prompts, sorted, with the one that asks again where there is any."""
    return tuple(sorted(prompts | {REPAIR_PROMPT} if prompts else prompts))


def max_calls(stage: Stage, settings: Any) -> int | None:
    """The most calls that a stage that looks at a sample makes in a run of that config; None for other stages."""
    if stage.max_calls is None:
        return None
    return stage.max_calls(settings if stage.settings is None else section_of(settings, stage.settings))


def max_kept(stage: Stage, settings: Any) -> int | None:
    """The most records that a stage keeps that draws a sample, in a run of that config; None for other stages."""
    if stage.max_kept is None:
        return None
    return stage.max_kept(settings if stage.settings is None else section_of(settings, stage.settings))


def unchecked(recipe: Recipe, settings: Any, models: ModelsSettings, kept: Mapping[str, int]) -> tuple[str, ...]:
    """What the stages of a run with that config did not look for in what they kept, a sentence each; ``kept`` is by
    the stage's name."""
    found = []
    for stage in recipe.stages:
        if stage.unchecked is not None and (count := kept.get(stage.name, 0)):
            section = None if stage.settings is None else section_of(settings, stage.settings)
            found.append(stage.unchecked(section, models, count))
    return tuple(filter(None, found))


def section_of(settings: Any, kind: type) -> Any:
    """The first section of the config that is of the class ``kind``; its defaults where the config has none."""
    values = (getattr(settings, each.name) for each in fields(settings)) if is_dataclass(settings) else ()
    return next((value for value in values if isinstance(value, kind)), None) or kind()
