"""Views of Parquet files: their columns, their names, and that pandas stays out."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.storage.views import add_row, add_table, add_view

SCHEMA = pa.schema([("id", pa.string()), ("scores", pa.list_(pa.float64()))])


@pytest.fixture
def db():
    with duckdb.connect(":memory:") as opened:
        yield opened


def write(file: Path, **columns: list) -> Path:
    file.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), file)
    return file


def rows(db: duckdb.DuckDBPyConnection, name: str = "found") -> list[tuple]:
    return db.execute(f"SELECT * FROM {name}").fetchall()


def test_files_with_other_columns_are_matched_by_name(db, tmp_path: Path) -> None:
    files = [write(tmp_path / "a.parquet", id=["a"], n=[1]), write(tmp_path / "b.parquet", x=[0.5], id=["b"])]
    add_view(db, "found", files, SCHEMA, tmp_path)
    assert sorted(rows(db)) == [("a", 1, None), ("b", None, 0.5)]


def test_without_files_there_are_the_columns_of_the_schema(db, tmp_path: Path) -> None:
    add_view(db, "found", [], SCHEMA, tmp_path)
    assert rows(db) == []
    assert [column[0] for column in db.description or ()] == SCHEMA.names


@pytest.mark.parametrize("name", ["it's", "[1]", "a*", "b?", "x'; DROP VIEW found; --", "ü b"])
def test_a_path_is_one_file_whatever_its_name(db, tmp_path: Path, name: str) -> None:
    write(tmp_path / "a1.parquet", id=["other"])
    file = write(tmp_path / name / f"{name}.parquet", id=["own"])
    write(tmp_path / "1" / "1.parquet", id=["other"])
    add_view(db, "found", [file], SCHEMA, tmp_path)
    assert rows(db) == [("own",)]


def test_a_small_table(db, tmp_path: Path) -> None:
    table = pa.table({"id": ["a"], "scores": [[0.5, None]]})
    add_table(db, "found", table, tmp_path)
    assert rows(db) == [("a", [0.5, None])]


def test_a_row(db) -> None:
    add_row(db, "found", {"recipe": "it's", "records": 3, "cost usd": 0.5})
    assert db.execute('SELECT recipe, records, "cost usd" FROM found').fetchall() == [("it's", 3, 0.5)]


def test_a_file_that_is_no_parquet_file_is_refused(db, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(duckdb.Error):
        add_view(db, "found", [tmp_path / "a.parquet"], SCHEMA, tmp_path)


def test_pandas_is_not_imported(tmp_path: Path) -> None:
    """It takes 0.3 s, and each run and each `beam inspect` makes such views."""
    file = write(tmp_path / "a.parquet", id=["a"])
    code = f"""
import sys, duckdb, pyarrow as pa
from pathlib import Path
from groundtrace.storage.views import add_row, add_view
db = duckdb.connect(":memory:", config={{"python_enable_replacements": False}})
add_view(db, "a", [Path({str(file)!r})], pa.schema([]), Path({str(tmp_path)!r}))
add_view(db, "b", [], pa.schema([("id", pa.string())]), Path({str(tmp_path)!r}))
add_row(db, "c", {{"id": "c"}})
assert len(db.execute("SELECT * FROM a UNION SELECT * FROM b UNION SELECT * FROM c").fetchall()) == 2
assert not {{"pandas", "pyarrow.dataset"}} & {{*sys.modules}}
"""
    subprocess.run([sys.executable, "-c", code], check=True)
