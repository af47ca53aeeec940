"""Tells a command that it is a step of ``beam loop``, by environment variables that the loop sets.

Two things differ in a step. The config of a run is a copy in the folder of the loop, so plug-ins are searched beside
the user's own config. And advice to the user names the keys and options of ``beam loop``.
"""

import os
from collections.abc import Sequence
from pathlib import Path

_STEP, _BESIDE = "GROUNDTRACE_LOOP_STEP", "GROUNDTRACE_LOOP_BESIDE"


def step_environment(section: str, beside: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment variables for the command of a step.

    ``section`` is the section of the loop's config that holds changes to the config of the step, such as ``rl``.
    ``beside`` are the folders of the configs that the user named for this step, in the order of the search.
    """
    return {_STEP: section, _BESIDE: os.pathsep.join(beside)}


def loop_section() -> str:
    """Return the section of the loop's config for this step, such as ``rl``; "" if this command is not a step."""
    return os.environ.get(_STEP, "")


def folders_beside() -> list[Path]:
    """Return the folders of the configs of this step; an empty list if this command is not a step."""
    return [Path(each) for each in os.environ.get(_BESIDE, "").split(os.pathsep) if each]
