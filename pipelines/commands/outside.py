"""Prevents a command from writing its output into a run folder that the command reads."""

from collections.abc import Iterable
from pathlib import Path

from groundtrace.schemas.errors import UserError


def refuse_inside(option: str, given: Path, runs: Iterable[Path]) -> None:
    """Raise UserError if the file or folder ``given`` is in one of the run folders ``runs``, or is one of them.

    ``option`` is the name of the option with the path ``given``, e.g. "--ids". A later run into the folder may remove
    the file.
    """
    path = given.resolve()
    if inside := next((run for run in runs if path.is_relative_to(run.resolve())), None):
        raise UserError(
            f"{option} {path} would be written into the run folder {inside}, whose files must not change: choose a "
            "place outside of this folder"
        )
