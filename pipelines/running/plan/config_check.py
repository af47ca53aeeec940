"""Checks whether a config fits the stages (steps) of the recipe, e.g. whether it names a model for each of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from groundtrace.config.errors import ConfigError
from groundtrace.inference.endpoint import COORDINATE_ROLES, is_embedded, is_real
from groundtrace.schemas.arrow import CORE, EARLIER
from groundtrace.stages.plumbing.stage_list import StageList

JUDGES = frozenset({"judge", "second_judge"})
"""Roles whose models mainly read texts that other models wrote about the images.

The embedded engine finds only drawn shapes. So a real model instead of the engine in another role is a sign that the
images may be photographs. A real model in one of these roles is not such a sign.
"""


def check_config(stages: StageList, settings: Any, given: Mapping[str, Any]) -> None:
    """Raise ConfigError if a stage (step of the pipeline) could not work with the config, or would give wrong results.

    For example, a role that a stage needs, such as teacher, names no endpoint (model server). ``stages`` are the stages
    that the recipe has with this config. ``settings`` is the config. ``given`` holds the values of the config that the
    user has set, without the defaults.
    """
    _check_roles(stages, settings)
    check_kept_names(stages, settings.input.keep)
    named = given.get("roles", {})
    _check_embedded(stages, settings, frozenset(named if isinstance(named, Mapping) else ()))


def _check_roles(stages: StageList, settings: Any) -> None:
    """Raise ConfigError if a stage (pipeline step) requires a model role to which the config gives no endpoint.

    A role is a job of a model, such as teacher or judge. An endpoint is a model server. ``stages`` are the stages of
    the recipe, and ``settings`` is the config.
    """
    for stage in stages:
        for ask in stage.asks:
            if ask.required and not settings.roles.get(ask.role):
                raise ConfigError(
                    f"roles.{ask.role} is not set, but the stage {stage.name} sends requests to this role: set "
                    f"roles.{ask.role} to the name of an endpoint"
                )


def check_kept_names(stages: StageList, names: Sequence[str]) -> None:
    """Raise ConfigError if an input column to copy into the output rows has the name of another column of these rows.

    ``names`` are the names of the input columns to copy (``input.keep``). ``stages`` are the stages (steps) of the
    recipe, which may add columns to the rows. Upper and lower case are not distinguished.
    """
    taken = {name.casefold() for name in (*CORE, *EARLIER, *(column.name for column in stages.adds))}
    if name := next((name for name in names if name.casefold() in taken), ""):
        raise ConfigError(
            f"input.keep: every row already has a column {name.casefold()}: rename the input's column, or remove it "
            "from input.keep"
        )


def _check_embedded(stages: StageList, settings: Any, named: frozenset[str]) -> None:
    """Raise ConfigError if the embedded engine has the role pointer, detector or segmenter, although a real model has
    another role, such as teacher.

    The embedded engine is a part of Groundtrace without a neural network, and finds only drawn shapes. If a real model
    is used, the images may be photographs. On photographs, the engine finds neither objects nor masks, so that good
    traces (responses of the teacher) would be rejected. ``stages`` are the stages of the recipe, and ``settings`` is
    the config. No error is raised in three cases:

    - The only real models are judges.
    - The setting ``allow_embedded`` is True.
    - The engine is pointer or detector (but not segmenter), and the user's config itself gives the engine this role.
      ``named`` holds the roles that the user's config sets.
    """
    roles = {role: name for role, name in settings.roles.items() if name and role in stages.roles_asked}
    real = sorted(role for role, name in roles.items() if role not in JUDGES and is_real(settings.endpoints[name]))
    if not real or settings.allow_embedded:
        return
    for role in (*COORDINATE_ROLES, "segmenter"):
        if role not in roles or not is_embedded(settings.endpoints[roles[role]]):
            continue
        if role == "segmenter" or role not in named:
            without = 'set roles.segmenter = "" to use boxes in place of masks, ' if role == "segmenter" else ""
            raise ConfigError(
                f"roles.{role} is the embedded engine, which finds drawn shapes but nothing in photographs, although "
                f"roles.{real[0]} is a real model: name another endpoint in roles.{role}, {without}or, if all images "
                "are drawings, set allow_embedded = true at the top of the config"
            )
