"""What ``--input`` names: each input format is asked in turn."""

import difflib
import shlex
from pathlib import Path

from pipelines.running.columns import missing_fields
from pipelines.running.run_folder import local_path
from stages.sources import registry
from stages.sources.base import Input, InputError, NothingHere, RowSettings

AS_IT_IS = RowSettings()
_REMEDY = "--input takes a .csv, .jsonl, .json or .parquet file of questions, or a folder with records.jsonl"


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
    except (ValueError, RuntimeError) as error:  # such as a pattern with ** in a wrong place, or a link to itself
        raise InputError(f"cannot read the input {name}: {error}") from error
    _check_columns(rows, found)
    return found


def check_fields(found: Input, rows: RowSettings) -> None:
    """Refuse an input that is seen to lack what every record needs: each of them would be rejected.

    Raises :class:`InputError`.
    """
    check_questions(found, rows)
    if not found.columns:
        return
    are_rows = all(source.kind != "jsonl" for source in found.sources)
    missing = missing_fields(found.columns, rows, are_rows)
    if missing:
        names = ", ".join(sorted(found.columns))
        raise InputError(
            f"{found.name} has no column for {', '.join(missing)} (its columns are {names}): "
            f"`beam init {shlex.quote(found.name)} --output my.toml` writes a config in which to give them"
        )


def check_questions(found: Input, rows: RowSettings) -> None:
    """Refuse a folder of images alone, which no column map makes questions. Raises :class:`InputError`."""
    if found.columns == {"image"} and "question" not in rows.constants:
        raise InputError(
            f"{found.name} holds images and no questions: list them in one .csv file in that folder, "
            "with the columns image, question and answer, and name that file"
        )


def _ask_formats(name: str, path: Path, rows: RowSettings) -> Input:
    absent: list[NothingHere] = []
    for each in registry.FORMATS:
        try:
            return each.find(name, path, rows)
        except NothingHere as error:
            absent.append(error)
    *files, last = map(str, absent)
    raise InputError(f"{name}: {' and '.join(files)} there, and {last}: {_REMEDY}") from absent[-1]


def _check_columns(rows: RowSettings, found: Input) -> None:
    """Refuse a column map with a column that is not among those of the input; none known refuses nothing."""
    names = sorted(found.columns)
    for field, column in rows.columns.items():
        if names and column not in names:
            near = difflib.get_close_matches(column, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"its columns are {', '.join(names)}"
            raise InputError(f"input.columns.{field}: the input has no column {column!r}; {hint}")
