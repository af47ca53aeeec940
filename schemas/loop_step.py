"""Finds out, from environment variables that ``beam loop`` sets, whether a command is a step of the loop.

``beam loop`` runs the commands of a whole training, such as curation, SFT and GRPO. Each command is a step. Two things
differ in a step. The config of a run is a copy in the folder of the loop, so plug-ins are searched beside the user's
own config. And advice to the user names the keys and options of ``beam loop``.
"""

import os
from collections.abc import Sequence
from pathlib import Path

_STEP, _BESIDE = "GROUNDTRACE_LOOP_STEP", "GROUNDTRACE_LOOP_BESIDE"


def step_environment(section: str, beside: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment variables for a command that ``beam loop`` runs as a step of a whole training.

    ``section`` is the section of the loop's config that holds changes to the config of the step, such as ``rl``.
    ``beside`` are the folders of the configs that the user named for this step, in the order of the search.
    """
    return {_STEP: section, _BESIDE: os.pathsep.join(beside)}


def loop_section() -> str:
    """Return the section of the config of ``beam loop`` for this step (command of the loop), such as ``rl``.

    The result is "" if ``beam loop`` did not start this command.
    """
    return os.environ.get(_STEP, "")


def folders_beside() -> list[Path]:
    """Return the folders of the configs that the user named for this step (command that ``beam loop`` runs).

    The list is empty if ``beam loop`` did not start this command.
    """
    return [Path(each) for each in os.environ.get(_BESIDE, "").split(os.pathsep) if each]
