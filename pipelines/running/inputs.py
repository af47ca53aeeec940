"""What ``--input`` names: each input format is asked in turn."""

import difflib
from pathlib import Path

from pipelines.running.run_folder import local_path
from stages.sources import registry
from stages.sources.base import Input, InputError, NothingHere, RowSettings

AS_IT_IS = RowSettings()


def find_input(name: str, rows: RowSettings = AS_IT_IS) -> Input:
    """The input that the command line names, read as ``rows`` says.

    Raises :class:`InputError`, also for columns and a split that the input is seen not to have.
    """
    if not name.strip():
        raise InputError("--input is empty")
    try:
        found = _ask_formats(name, local_path(name), rows)
    except OSError as error:
        raise InputError(f"cannot read the input {name}: {error.strerror or error}") from error
    except ValueError as error:  # such as a pattern with ** in a wrong place
        raise InputError(f"cannot read the input {name}: {error}") from error
    _check_columns(rows, found)
    return found


def _ask_formats(name: str, path: Path, rows: RowSettings) -> Input:
    absent: list[NothingHere] = []
    for each in registry.FORMATS:
        try:
            return each.find(name, path, rows)
        except NothingHere as error:
            absent.append(error)
    *files, last = map(str, absent)
    raise InputError(f"{name}: {' and '.join(files)} there, and {last}") from absent[-1]


def _check_columns(rows: RowSettings, found: Input) -> None:
    """Refuse a column map with a column that is not among those of the input; none known refuses nothing."""
    names = sorted(found.columns)
    for field, column in rows.columns.items():
        if names and column not in names:
            near = difflib.get_close_matches(column, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"its columns are {', '.join(names)}"
            raise InputError(f"input.columns.{field}: the input has no column {column!r}; {hint}")
