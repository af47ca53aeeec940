"""Defines the list of the stages (steps) of a recipe, i.e. of a pipeline. The list gives the model roles (such as
judge), the prompts and the columns of a run. The module also computes a stage's maximum numbers of calls and records.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from groundtrace.inference.role_calls import PROMPT as REPAIR_PROMPT
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.complexity import COMPLEXITY
from groundtrace.rewards.rubrics import RUBRICS
from groundtrace.rewards.streams import STREAM_PROMPTS, STREAMS
from groundtrace.schemas.arrow import CORE
from groundtrace.schemas.columns import Column
from groundtrace.schemas.errors import UserError
from groundtrace.stages.plumbing.stage import Stage

READ_BY_NAME: tuple[Column[Any], ...] = (COMPLEXITY, RUBRICS, STREAMS, STREAM_PROMPTS)
"""Columns of Groundtrace's own stages that trainer, report and exports read by name. A user's stage may add them,
too.
"""


class RecipeError(UserError):
    """Raised if the file of a recipe (a pipeline's name, settings and connected stages) has a mistake. The message
    names what to change.
    """


@dataclass(frozen=True)
class StageList:
    """Holds the descriptions of the stages (steps) of a recipe. A recipe is a pipeline that a file defines.

    Each stage is in the list once. The stages are in the order in which records pass them. Sample stages, which read
    some of the records and pass none on, come last.
    """

    stages: tuple[Stage, ...]

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages)

    def stage(self, name: str) -> Stage | None:
        """Return the description of the stage (step of the pipeline) with the name ``name``; None if there is no such
        stage.
        """
        return next((stage for stage in self.stages if stage.name == name), None)

    def asking(self, models: ModelsSettings) -> "StageList":
        """Return a copy of the list in which each stage has the names of the prompts that it sends to the models of
        this run. ``models`` holds the settings of these models.
        """
        return StageList(tuple(stage.asking(models) for stage in self.stages))

    @property
    def asks(self) -> tuple[Asks, ...]:
        """Return the model roles (jobs of models, such as judge) that the stages call, each with its prompts, in the
        order of the stages.
        """
        return tuple(ask for stage in self.stages for ask in stage.asks)

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the model roles (jobs of models, such as judge) that must have endpoints (model servers), each once,
        in the order in which they are first called.
        """
        return tuple(dict.fromkeys(ask.role for ask in self.asks if ask.required))

    @property
    def roles_asked(self) -> tuple[str, ...]:
        """Return all model roles (jobs of models, such as judge) that the stages may call, each once, in the order in
        which they are first called.

        These are the required roles and the optional roles. An optional role is called only if the config gives it an
        endpoint (model server).
        """
        return tuple(dict.fromkeys(ask.role for ask in self.asks))

    def prompts_sent(self, models: ModelsSettings, settings: Any, clips: bool = True) -> tuple[str, ...]:
        """Return the sorted names of the prompts that a run may send.

        ``models`` holds the settings of the models, and ``settings`` is the config of the run. ``clips`` is False if
        the input is known to have no clips. If the run calls any model, the result also has the prompt that requests a
        repaired reply.
        """
        sent = set[str]()
        for stage in self.stages:
            section = _section_of_stage(settings, stage)
            for ask in stage.asks:
                asked = models.has_role(ask.role) and (clips or not ask.clips)
                if asked and (ask.when is None or ask.when(section)):
                    sent.update(ask.prompts)
        return tuple(sorted({*sent, REPAIR_PROMPT} if sent else sent))

    @property
    def adds(self) -> tuple[Column[Any], ...]:
        """Return the columns that the stages (steps of the pipeline) add to the rows, each once, in the order of the
        stages.
        """
        return tuple(dict.fromkeys(column for stage in self.stages for column in stage.adds))

    def unchecked(self, settings: Any, models: ModelsSettings, kept: Mapping[str, int]) -> tuple[str, ...]:
        """Return one sentence for each stage (step of the pipeline) that left out a check of the records that it kept.

        ``settings`` is the run's config, and ``models`` holds the settings of the models. ``kept`` maps the name of
        each stage to the number of records that it kept. The result is empty if nothing was left out.
        """
        found = []
        for stage in self.stages:
            if stage.unchecked is not None and (count := kept.get(stage.name, 0)):
                found.append(stage.unchecked(_section_of_stage(settings, stage), models, count))
        return tuple(filter(None, found))


def list_stages(recipe: str, wired: Iterable[Stage]) -> StageList:
    """Return the list of the stages (steps) of a recipe. A recipe is a pipeline that a file defines.

    Each stage is in the list once. Sample stages, which read some of the records and pass none on, come last.

    ``recipe`` is the name of the recipe, for error messages. ``wired`` are the stages in the order in which the recipe
    connects them. Raises RecipeError if two different stages, or two different columns, have the same name.
    """
    known: dict[str, Stage] = {}
    for stage in wired:
        if known.setdefault(stage.name, stage) != stage:
            raise RecipeError(
                f"the recipe {recipe} has two different stages with the name {stage.name!r}: rename one of them"
            )
    stages = tuple(sorted(known.values(), key=lambda stage: stage.is_sample))
    _check_columns(recipe, stages)
    return StageList(stages)


def _check_columns(recipe: str, stages: Iterable[Stage]) -> None:
    """Raise RecipeError if a stage adds a column with the name of another column.

    The other column can be a core column, which every row has, a column in :data:`READ_BY_NAME`, or a column that
    another stage adds. If two stages add equal columns, they count as one column, which is no error. Names that differ
    only in upper and lower case count as the same name, as in SQL. ``recipe`` is the name of the recipe, for error
    messages.
    """
    ours = (*CORE.values(), *READ_BY_NAME)
    taken: dict[str, Column[Any]] = {column.name.casefold(): column for column in ours}
    for stage in stages:
        for column in stage.adds:
            other = taken.setdefault(column.name.casefold(), column)
            if other != column:
                stage_or_us = "Groundtrace already uses" if other in READ_BY_NAME else "another stage already adds"
                owner = "every row already has" if other is CORE.get(other.name) else stage_or_us
                raise RecipeError(
                    f"the recipe {recipe}: the stage {stage.name} adds the column {column.name!r}, but {owner} the "
                    f"column {other.name!r}: rename the column that the stage adds"
                )


def max_calls(stage: Stage, settings: Any) -> int | None:
    """Return the maximum number of model calls of a sample stage in a run; None for any other stage.

    A sample stage reads some of the records and passes none on. ``settings`` is the run's config.
    """
    if stage.max_calls is None:
        return None
    return stage.max_calls(settings if stage.settings is None else section_of(settings, stage.settings))


def max_kept(stage: Stage, settings: Any) -> int | None:
    """Return the maximum number of records that a stage (step of the pipeline) keeps in a run; None for a stage without
    such a maximum.

    ``settings`` is the run's config.
    """
    if stage.max_kept is None:
        return None
    return stage.max_kept(settings if stage.settings is None else section_of(settings, stage.settings))


def section_of(settings: Any, kind: type) -> Any:
    """Return the first section of a config that is an object of the class ``kind``. A section is a field of the config,
    e.g. the settings of one stage.

    ``settings`` is the config. If it has no such section, return an object of the class with its default values.
    """
    values = (getattr(settings, each.name) for each in fields(settings)) if is_dataclass(settings) else ()
    return next((value for value in values if isinstance(value, kind)), None) or kind()


def _section_of_stage(settings: Any, stage: Stage) -> Any:
    return None if stage.settings is None else section_of(settings, stage.settings)
