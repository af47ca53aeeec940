"""Reads the folder of a finished run: ``run.json``, the config, the rubrics (grading criteria), and the shards.

Shards are Parquet files. They are read with DuckDB.
"""

import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.errors import InspectError
from groundtrace.publishing.verdicts import VERDICTS, add_verdicts
from groundtrace.schemas.arrow import REJECTED_SCHEMA, RL_SCHEMA, SFT_SCHEMA
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.run_files import problem_of, shards_of
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.safe_files import own_file, read_json, read_regular
from groundtrace.schemas.toml_text import MAX_CONFIG_BYTES, read_toml
from groundtrace.storage.mirror import RUN_MARKER
from groundtrace.storage.shard_check import check_shards
from groundtrace.storage.shard_fault import ShardFault
from groundtrace.storage.views import add_row, add_view, quoted_name

SHARDS = {"sft": SFT_SCHEMA, "rl": RL_SCHEMA, "rejected": REJECTED_SCHEMA}
BATCH_ROWS = 1000
_GUESS = re.compile(r"(Table with name .* does not exist!) Did you mean .*?\"\?")
"""DuckDB's guess at a table. It often names one of DuckDB's own tables, which a user of a run does not know."""
_SECTIONS = ("endpoints", "roles", "sandbox")
MAX_MEMORY_GIB = 4
"""The maximum RAM, in GiB, that a database with the rows of runs may use."""
FAILED_PAGE = "failed.html"
"""The page in a run folder about a run that did not finish (:mod:`groundtrace.publishing.failure`)."""
CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
}


def read_summary(run: Path, *, checked: bool = True, digests: bool = False) -> RunSummary:
    """Read the ``run.json`` of a run folder. Raises :class:`InspectError` if the folder holds no finished run.

    Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if ``run.json`` is a link to a file outside the folder.

    If ``checked`` is True, the names and sizes of the shards (Parquet files) are compared with those in ``run.json``,
    and InspectError is raised if they differ. A shard that is a link to a file outside the folder is refused with
    UnsafeFile. Then the types of the shards' core columns and the sizes of their rows are checked
    (:func:`groundtrace.storage.shard_check.check_shards`).

    If ``digests`` is True, the SHA-256 of the shards is compared as well, so that all their bytes are read. ``digests``
    has no effect if ``checked`` is False.
    """
    if not run.is_dir():
        raise InspectError(f"there is no folder {run}: give the --output folder of a `beam run`")
    file = own_file(run, "run.json")
    if not file.is_file():
        begun = (run / RUN_MARKER).is_file()
        advice = (
            "repeat its `beam run` to finish it"
            if begun
            else "it is not a run folder: give the --output folder of a `beam run`"
        )
        if (run / FAILED_PAGE).is_file():
            advice = f"its run did not finish: read the reason in {run / FAILED_PAGE}, and repeat the `beam run`"
        raise InspectError(f"{run} has no run.json: {advice}")
    try:
        summary = RunSummary.from_fields(read_json(file))
        problem = _contradiction(summary) if checked else ""
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = " ".join(str(error).split()) if type(error) is ValueError else type(error).__name__
        raise InspectError(f"{file} is damaged ({reason}): repeat the run") from error
    if problem:
        raise InspectError(f"{file} is damaged ({problem}): repeat the run")
    if checked:
        check_files(run, summary, digests=digests)
        try:
            check_shards([shard for name in SHARDS for shard in shards_of(run, name)])
        except ShardFault as error:
            raise InspectError(str(error)) from error
    return summary


def _contradiction(summary: RunSummary) -> str:
    """Return a message if ``run.json`` states two different numbers of rows for an output set (sft, rl or rejected).

    ``summary`` is the content of ``run.json``, which states two numbers of rows for each set. The first number is in
    the field ``counts``. The second number is the sum of the rows of the set's shards (Parquet files), which the field
    ``files`` lists. A set is not compared if ``files`` lists no shard of the set, or lacks the number of rows of one of
    its shards. The message is about the first set whose numbers differ; it is "" if no numbers differ.
    """
    for name in SHARDS:
        rows = [entry.rows for file, entry in (summary.files or {}).items() if file.startswith(f"{name}/")]
        counted = summary.counts.rejected_records if name == "rejected" else summary.counts.rows(name)
        if rows and None not in rows and sum(row or 0 for row in rows) != counted:
            return f"it counts {counted} records of {name}, but its shards have {sum(row or 0 for row in rows)}"
    return ""


def input_folder(given: str) -> str:
    """Return the folder from which the images of rejected records are read.

    ``given`` is the input of the run: a file, a pattern such as ``data/*.jsonl``, or a folder. For a file or a pattern,
    the folder that contains it is returned.
    """
    path = Path(given)
    return str(path.parent if path.is_file() or "*" in path.name else path)


def check_files(
    run: Path, summary: RunSummary, *, digests: bool = False, sets: Collection[str] = tuple(SHARDS)
) -> None:
    """Check that the shards (Parquet files) of a run have not changed since the run ended.

    Their names and sizes are compared with those in ``summary``, the content of ``run.json``. If ``digests`` is True,
    their SHA-256 is compared as well. There is one exception: a ``run.json`` of an older version lists no files, so
    nothing is compared. ``sets`` are the names of the output sets to check: sft, rl, rejected.

    Raises :class:`InspectError` for a shard that was changed, added or removed, or that cannot be read. Raises
    :class:`groundtrace.schemas.safe_files.UnsafeFile` for a shard that is a link to a file outside the run folder, or
    that is a pipe or a device. UnsafeFile is raised with an older ``run.json``, too.
    """
    if summary.files is None:
        for name in sets:
            shards_of(run, name)
        return
    try:
        problem = problem_of(run, summary.files, sets, digests=digests)
    except OSError as error:
        raise InspectError(
            f"cannot read {error.filename or run}: {error.strerror or error}: make the file readable"
        ) from error
    if problem:
        raise InspectError(f"the folder {run} has changed since its run ended: {problem}: repeat the run")


def read_config(run: Path) -> Mapping[str, Any]:
    """Return the values of the run's ``config.toml`` as nested mappings; empty if the file is missing.

    Raises :class:`InspectError` if the file cannot be read or is damaged, and
    :class:`groundtrace.schemas.safe_files.UnsafeFile` if it is a pipe, a device, larger than :data:`MAX_CONFIG_BYTES`,
    or a link to a file outside the run folder.
    """
    file = own_file(run, "config.toml")
    try:
        data = read_regular(file, MAX_CONFIG_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InspectError(
            f"cannot read {file} ({error.strerror or error}): make this path a file that you can read, or remove it"
        ) from error
    try:
        values = read_toml(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        wrong = f"no UTF-8 at line {line}"
    except ValueError as error:
        wrong = str(error)
    else:
        other = next((name for name in _SECTIONS if not isinstance(values.get(name, {}), dict)), None)
        if other is None:
            return values
        wrong = f"{other} must be a section"
    raise InspectError(f"{file} is damaged ({wrong}): move it away, and repeat the `beam run` to write it again")


def config_for_hints(run: Path) -> Mapping[str, Any]:
    """Return the values of the run's ``config.toml`` as nested mappings; empty if the file is missing or unreadable.

    For texts in which values of the config are only hints, such as the settings that keep rejected records, or the
    endpoint of a role: such a text does not need the config, so no error is raised.
    """
    try:
        return read_config(run)
    except (UserError, OSError):
        return {}


def read_rubrics(run: Path) -> Any:
    """Return the content of the run's ``rubrics.json``; None if the file does not exist.

    A rubric is a criterion for grading a response. Only runs that mine rubrics from data write the file.
    :func:`groundtrace.rewards.mined_rubrics.rubrics_json` defines its fields. A file of an older version lacks two of
    them: the confidence intervals of the measurements, and the reasons why rubrics were not kept. Raises
    :class:`groundtrace.schemas.safe_files.UnsafeFile` if the file is a link to a file outside the folder.
    """
    file = own_file(run, "rubrics.json")
    if not file.is_file():
        return None
    found = read_run_json(file)
    rubrics = found.get("rubrics") if isinstance(found, dict) else None
    if not isinstance(rubrics, list) or not all(isinstance(each, dict) for each in rubrics):
        raise InspectError(f"{file} is damaged (rubrics must be a list of objects): repeat the run")
    return found


def read_run_json(file: Path) -> Any:
    """Return the value of a JSON file of a run folder. Raises :class:`InspectError` if the file cannot be read."""
    try:
        return read_json(file)
    except (OSError, ValueError) as error:
        raise InspectError(f"{file} is damaged ({one_line(error)}): repeat the run") from error


def columns_of(run: Path, name: str) -> pa.Schema:
    """Return the Arrow schema of an output set, read from its first shard (Parquet file).

    All shards of an output set have the same columns. ``run`` is the run folder, and ``name`` is sft, rl or rejected.
    If the set has no shards, the schema of the core columns (the columns that every run has) is returned.

    A shard may be a link, and the target of the link is not checked here. In a run folder, :func:`read_summary` has
    already checked the links. In the temporary folder of `beam publish`, the command itself has made them.
    """
    file = next(iter(shards_of(run, name, accepts_links=True)), None)
    return SHARDS[name] if file is None else pq.read_schema(file)


@contextmanager
def open_tables(run: Path, summary: RunSummary) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a DuckDB database with the rows of a run, in the views sft, rl, rejected, verdicts and runs.

    ``run`` is the run folder, and ``summary`` is the content of its ``run.json``. The view ``verdicts`` has one row for
    each verdict (:func:`groundtrace.publishing.verdicts.add_verdicts`). The view ``runs`` has one row with the values
    of ``run.json`` about the whole run. Queries can read only the files of these views. Raises
    :class:`InspectError` for a shard that is not a Parquet file.
    """
    with _database() as (connection, scratch):
        _close(connection, _add_run(connection, run, summary, scratch))
        yield connection


@contextmanager
def open_several(runs: Sequence[tuple[Path, RunSummary]]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a DuckDB database with the rows of several runs. Each run has its own database schema.

    ``runs`` holds for each run its folder and the content of its ``run.json``. A schema has the views of
    :func:`open_tables`. The schema of the first run is ``a``, so that its SFT rows are in ``a.sft``; the second run has
    ``b.sft``. :func:`schema_names` gives all names of the schemas. Raises :class:`InspectError` for a shard that is not
    a Parquet file.
    """
    with _database() as (connection, scratch):
        readable: list[Path] = []
        for index, (names, (run, summary)) in enumerate(zip(schema_names([r for r, _ in runs]), runs, strict=True)):
            (scratch / str(index)).mkdir()
            for name in map(quoted_name, names):
                connection.execute(f"CREATE SCHEMA {name}")
            readable += _add_run(connection, run, summary, scratch / str(index), names[0])
            for alias in map(quoted_name, names[1:]):
                for view in (*SHARDS, VERDICTS, "runs"):
                    connection.execute(f"CREATE VIEW {alias}.{view} AS SELECT * FROM {names[0]}.{view}")
        _close(connection, readable)
        yield connection


def schema_names(runs: Sequence[Path]) -> list[tuple[str, ...]]:
    """Return for each run the names of its database schema in a query over several runs, such as ``("a", "my_run")``.

    ``runs`` are the run folders. The first name is the run's letter (a for the first run). The second name is the name
    of the run's folder in lower case, since DuckDB ignores case. The second name is left out if the folders of several
    runs have it, if DuckDB itself uses this name, or if it equals the letter of a run.
    """
    letters = [chr(ord("a") + index) for index in range(len(runs))]
    folders = [run.name.lower() for run in runs]
    taken = {*letters, "", "main", "temp", "system", "memory", "pg_catalog", "information_schema"}
    return [
        (letter,) if name in taken or folders.count(name) > 1 else (letter, name)
        for letter, name in zip(letters, folders, strict=True)
    ]


@contextmanager
def _database() -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    """Yield an empty database in memory, and a temporary folder for files of its views.

    The database uses at most half of this machine's memory, and never more than :data:`MAX_MEMORY_GIB`. Intermediate
    results that need more memory are moved into the folder.
    """
    with (
        tempfile.TemporaryDirectory(prefix="groundtrace-") as scratch,
        duckdb.connect(":memory:", config=CLOSED | {"memory_limit": "50%", "temp_directory": scratch}) as connection,
    ):
        [(half,)] = connection.execute("SELECT current_setting('memory_limit')").fetchall()
        number, unit = half.split()
        if unit == "TiB" or (unit == "GiB" and float(number) > MAX_MEMORY_GIB):
            connection.execute(f"SET memory_limit = '{MAX_MEMORY_GIB}GiB'")
        yield connection, Path(scratch)


def _add_run(
    connection: duckdb.DuckDBPyConnection, run: Path, summary: RunSummary, scratch: Path, within: str = ""
) -> list[Path]:
    """Add the views of a run to the database, and return the files that the views read.

    For an output set (sft, rl or rejected) without shards, a Parquet file without rows is written to the folder
    ``scratch``, and the view reads it. ``within`` is the database schema of the views; "" for temporary views outside
    any schema.
    """
    shards = {name: shards_of(run, name, accepts_links=True) for name in SHARDS}  # see columns_of
    for name, schema in SHARDS.items():
        try:
            add_view(connection, name, shards[name], schema, scratch, within)
        except duckdb.Error as error:
            raise InspectError(f"cannot read {run / name}: {one_line(error)}: repeat the run") from error
    add_verdicts(connection, within)
    add_row(connection, "runs", _run_row(summary), within)
    return [*scratch.glob("*.parquet"), *(file for files in shards.values() for file in files)]


def _close(connection: duckdb.DuckDBPyConnection, readable: Sequence[Path]) -> None:
    """Change the database so that it can no longer read other files than those in ``readable``."""
    connection.execute("SET allowed_paths = ?", [list(map(str, readable))])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _run_row(summary: RunSummary) -> dict[str, str | int | float]:
    """Return the values of ``run.json`` about the whole run, for the single row of the view ``runs``."""
    counts = summary.counts
    return {name: value for name, value in vars(summary).items() if isinstance(value, str | int | float)} | {
        "records": counts.input,
        "sft": counts.sft,
        "rl": counts.rl,
        "rejected": counts.rejected_records,
        "cost_usd": float(summary.usage.cost_usd),
    }


def one_line(error: Exception) -> str:
    """Return the error's message on one line, without the query and the guess at a table that DuckDB appends to it.

    For an error without a message, such as MemoryError, the name of its class is returned.
    """
    message = " ".join(str(error).split("\nLINE ", 1)[0].split())
    return _GUESS.sub(r"\1", message) or type(error).__name__
