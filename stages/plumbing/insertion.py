"""Puts a stage (step) into an existing recipe, so that a user need not copy the recipe's file to add a stage.

A recipe connects its stages in a function, which adds them to a Beam pipeline. While this function runs, the pipeline
is watched. The user has named one of the recipe's stages. As soon as this stage is added to the pipeline, the user's
stage is added behind it. All later stages of the recipe then read what the user's stage keeps.
"""

import dataclasses
import keyword
import operator
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from apache_beam.typehints.typehints import is_consistent_with

from groundtrace.config.settings import settings
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.stage import DraftStage, Stage
from groundtrace.stages.plumbing.stage_list import RecipeError

_FILLED = ("settings", "roots", "models")
"""The fields of a stage's class that :func:`made_stage` fills."""


def check_stage(stage: Any) -> None:
    """Check that ``stage`` can be put into a recipe (a pipeline), and raise :class:`RecipeError` if it cannot.

    It must be the class of a stage, and each of its fields must have a default or be one that a recipe can fill.
    """
    if not (isinstance(stage, type) and issubclass(stage, DraftStage)):
        raise RecipeError(
            f"with_stage was given {stage!r:.100}: give the class of a stage, i.e. a subclass of DraftStage"
        )
    if not isinstance(getattr(stage, "stage", None), Stage):
        raise RecipeError(
            f"the class {stage.__name__} has no description: give it the attribute `stage` with a Stage object"
        )
    for field in _fields(stage):
        if field.name not in _FILLED and field.default is field.default_factory is dataclasses.MISSING:
            raise RecipeError(
                f"with_stage cannot fill the field {field.name!r} of the class {stage.__name__}, but only the fields "
                f"{', '.join(_FILLED)}: give the field a default value, or add the stage in a copy of the recipe's file"
            )
    if stage.stage.settings is None and any(field.name == "settings" for field in _fields(stage)):
        raise RecipeError(
            f"the class {stage.__name__} has the field 'settings', but its Stage object names no class of settings: "
            "give the Stage object the argument `settings`"
        )


def check_names(after: Any, name: Any) -> None:
    """Check the arguments ``after`` and ``name`` of ``with_stage``, which adds a stage to a recipe (a pipeline).

    ``after`` is the name of another stage, and ``name`` is the name of the new recipe. Raises :class:`RecipeError` if
    ``after`` is not a text or is empty, or if ``name`` is not a text of letters, digits and the characters _ . -
    """
    if not isinstance(after, str) or not after:
        raise RecipeError(f"with_stage got after={after!r:.100}: give the name of a stage, such as 'clean'")
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]*", name):
        raise RecipeError(
            f"with_stage got name={name!r:.100}: give the new recipe a name of letters, digits, '_', '.' and '-', such "
            "as 'my_cot'"
        )


def with_section(config: type, stage: type[DraftStage]) -> type:
    """Return the settings class ``config`` with one more section: that of ``stage``, under the stage's name.

    If the stage has no settings, ``config`` is returned unchanged. Raises :class:`RecipeError` if ``config`` has this
    key already, or if the name cannot be a key.
    """
    section, name = stage.stage.settings, stage.stage.name
    if section is None:
        return config
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise RecipeError(
            f"the stage {name!r:.100} has settings, so its name must be a key of the config: give it a name of "
            "letters, digits and '_', such as 'my_stage'"
        )
    if any(field.name == name for field in dataclasses.fields(config)):
        raise RecipeError(f"the recipe's config has the key {name!r} already: give the stage {name!r} another name")
    added = {
        "__annotations__": {name: section},
        "__doc__": config.__doc__,
        "__module__": stage.__module__,
        name: dataclasses.field(default_factory=section),
    }
    return settings(type(config.__name__, (config,), added))


def made_stage(stage: type[DraftStage], run: Any, config: Any) -> DraftStage:
    """Return the stage for one run. Its fields are filled by their names.

    The field ``settings`` gets the stage's section of ``config``. The fields ``roots`` and ``models`` get the media
    folders and the models of ``run``, which is a :class:`groundtrace.stages.plumbing.recipe.RunContext`.
    """
    known = {"settings": getattr(config, stage.stage.name, None), "roots": run.roots, "models": run.models}
    return stage(**{field.name: known[field.name] for field in _fields(stage) if field.name in known})


@contextmanager
def inserted(pipeline: Any, stage: DraftStage, after: str) -> Iterator[None]:
    """Add ``stage`` to a Beam pipeline behind another stage, as soon as that stage is added in the ``with`` block.

    ``after`` is the name of the other stage, such as ``clean``, or its name and the name of one of its outputs, such as
    ``split.sft``. Without the name of an output, ``stage`` reads the output ``kept``.

    Raises :class:`RecipeError` if the recipe has several stages with the other stage's name, or if this output holds no
    drafts. At the end of the block, raises RecipeError if no stage with this name was added, if the recipe did not read
    this output, or if the recipe itself has a stage with the name of ``stage``.
    """
    name, _, output = after.partition(".")
    followed, around = list[_Followed](), dict[str, str]()
    seen, depth, apply, own = list[str](), 0, pipeline.apply, vars(pipeline).get("apply")

    def applied(transform: Any, pvalueish: Any = None, label: str | None = None) -> Any:
        nonlocal depth
        if not isinstance(transform, DraftStage):
            return apply(transform, pvalueish, label)
        depth += 1  # a stage may consist of stages, and none is added behind those
        try:
            outputs = apply(transform, pvalueish, label)
        finally:
            depth -= 1
        if depth:
            return outputs
        if transform.stage.name == name and name in seen:
            raise RecipeError(
                f"the stage {stage.stage.name!r} cannot be added after {name!r}, because the recipe has several such "
                "stages: add it after another stage, or in a copy of the recipe's file"
            )
        seen.append(transform.stage.name)
        around.update((each.name, transform.stage.name) for each in transform.inner)
        if transform.stage.name != name:
            return outputs
        followed.append(_Followed(outputs, stage, after, output or "kept"))
        return followed[0]

    pipeline.apply = applied
    try:
        yield
    finally:
        del pipeline.apply
        if own is not None:
            pipeline.apply = own
    if seen.count(stage.stage.name) > 1:
        raise RecipeError(f"the recipe has the stage {stage.stage.name!r} already: with_stage cannot add it again")
    if name in around and not followed:
        raise RecipeError(
            f"the stage {stage.stage.name!r} cannot be added after {name!r}, which is a part of the stage "
            f"{around[name]!r}: add it after {around[name]!r}"
        )
    if not followed:
        raise RecipeError(
            f"the stage {stage.stage.name!r} cannot be added after {name!r}, because the recipe has no such "
            f"stage: add it after one of {', '.join(seen)}"
        )
    followed[0].check_read()


class _Followed:
    """Holds the ``outputs`` of a pipeline step (stage), one of which is replaced by the output ``kept`` of ``stage``.

    ``stage`` is the stage that the user adds behind the other one. It reads the output with the name ``output``; later
    steps then read what ``stage`` keeps. ``after`` is the name that the user gave for the other stage, for the messages
    of RecipeErrors.
    """

    def __init__(self, outputs: Any, stage: DraftStage, after: str, output: str) -> None:
        self._outputs, self._output, self._after, self._name = outputs, output, after, stage.stage.name
        self._read, self._kept = dict[str, None](), None
        read = None
        with suppress(KeyError, TypeError, ValueError):  # there is no such output
            read = outputs[output]
        if read is not None and is_consistent_with(read.element_type or Any, Draft):
            self._kept = (read | f"{self._name} after {after}" >> stage)["kept"]  # a label no stage of a recipe has

    def check_read(self) -> None:
        """Raise RecipeError if the recipe has not read the output behind which the user's stage was added.

        No step would then read what the user's stage keeps. The message names the outputs that the recipe has read.
        """
        if self._output in self._read:
            return
        stage = self._after.partition(".")[0]
        names = [stage if each == "kept" else f"{stage}.{each}" for each in self._read]
        remedy = f"name {' or '.join(map(repr, names))}" if names else "add it after another stage"
        raise RecipeError(
            f"the stage {self._name!r} cannot be added after {self._after!r}, because the recipe reads no output "
            f"{self._output!r} of {stage!r}: {remedy}"
        )

    def _get(self, name: Any, get: Callable[[Any, Any], Any]) -> Any:
        if isinstance(name, str) and not name.startswith("_"):
            self._read[name] = None
        if name != self._output:
            return get(self._outputs, name)
        if self._kept is None:
            raise RecipeError(
                f"the stage {self._name!r} cannot be added after {self._after!r}, because the output {name!r} holds no "
                "drafts: add it after another stage or output"
            )
        return self._kept

    def __getitem__(self, name: Any) -> Any:
        return self._get(name, operator.getitem)

    def __getattr__(self, name: str) -> Any:
        return self._get(name, getattr)


def _fields(stage: type[DraftStage]) -> tuple[dataclasses.Field[Any], ...]:
    return tuple(field for field in dataclasses.fields(stage) if field.init) if dataclasses.is_dataclass(stage) else ()
