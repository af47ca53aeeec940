"""Adds Parquet files to a DuckDB connection as views.

This module avoids pandas, because the import of pandas takes 0.3 s. Commands that need Beam do not save this time,
because Beam imports pandas, but all other commands start faster. So DuckDB's ``register`` of a pyarrow dataset, which
imports pandas, is not used. Nearly every pyarrow function that makes a table from Python values imports pandas, too. So
this module does not make such tables: :func:`add_row` uses SQL.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

_GLOB = re.compile(r"[*?\[]")


def add_view(
    db: duckdb.DuckDBPyConnection,
    name: str,
    files: Sequence[Path],
    schema: pa.Schema,
    scratch: Path,
    within: str = "",
) -> None:
    """Add a view to the database. The view has the name ``name``, and contains the rows of the Parquet files.

    Columns are matched by name; a column that a file lacks is null. If ``files`` is empty, the view has no rows, and
    its columns are those of ``schema``. In this case, the function writes a Parquet file without rows to ``scratch``, a
    folder for temporary files, and the view reads this file. ``within`` is the database schema (namespace) of the view;
    "" means a temporary view outside any schema. Raises duckdb.Error if a file is not a Parquet file.
    """
    if not files:
        files = [scratch / f"{name}.parquet"]
        with pq.ParquetWriter(files[0], schema):
            pass  # no row
    listed = ", ".join(map(quoted_path, files))
    kind, place = ("VIEW", f"{quoted_name(within)}.{name}") if within else ("TEMP VIEW", name)
    db.execute(f"CREATE {kind} {place} AS SELECT * FROM read_parquet([{listed}], union_by_name = true)")


def add_table(db: duckdb.DuckDBPyConnection, name: str, table: pa.Table, scratch: Path) -> None:
    """Add a temporary view ``name`` to the database, which contains the rows of a small table.

    ``scratch`` is a folder for temporary files; the table is written to a Parquet file there, which the view reads.
    """
    file = scratch / f"{name}.parquet"
    pq.write_table(table, file)
    add_view(db, name, [file], table.schema, scratch)


def add_row(db: duckdb.DuckDBPyConnection, name: str, row: Mapping[str, str | int | float], within: str = "") -> None:
    """Add a table ``name`` with one row to the database.

    ``row`` maps the names of the columns to the values. ``within`` is the database schema (namespace) of the table; ""
    means a temporary table outside any schema.
    """
    columns = ", ".join(f'? AS "{column}"' for column in row)
    kind, place = ("TABLE", f"{quoted_name(within)}.{name}") if within else ("TEMP TABLE", name)
    db.execute(f"CREATE {kind} {place} AS SELECT {columns}", list(row.values()))


def quoted_name(name: str) -> str:
    """Return a name in double quotes, as an SQL identifier. The name may contain any characters."""
    return '"' + name.replace('"', '""') + '"'


def quoted_path(file: Path) -> str:
    """Return a path in single quotes, as an SQL string for DuckDB.

    Wildcards such as ``*`` in the path are escaped, so that the string matches only this file.
    """
    path = _GLOB.sub(lambda found: f"[{found[0]}]", str(file)).replace("'", "''")
    return f"'{path}'"
