"""The verdicts of a run as a table for queries, and the figures of each scorer, also of runs of earlier versions."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.reading import open_several, open_tables
from groundtrace.publishing.verdicts import verdict_figures
from groundtrace.schemas.arrow import REJECTED_SCHEMA, sft_schema
from groundtrace.schemas.run_summary import Counts, RunSummary, StageFigures

VERDICT_FIELDS = {"name": pa.string(), "value": pa.float64(), "failed": pa.bool_(), "reason": pa.string()}.items()
FLOORS = {"spatial": 1.0, "counting": 0.5, "final": 0.7}
SCHEMAS = {"sft": sft_schema(other_traces=True), "rejected": REJECTED_SCHEMA}


def summary(floors: Mapping[str, float]) -> RunSummary:
    stages = {"verify": StageFigures(3, 2, floors=floors)}
    return RunSummary("r", "in", Counts(3, 2, 0, {}), stages, {}, {}, {}, "now", 1.0, "rev", "sha", False)


def verdict(name: str, value: float | None, failed: bool = False, **more: Any) -> dict[str, Any]:
    return {"name": name, "value": value, "failed": failed, "reason": f"{name} says so", **more}


def trace(*verdicts: dict[str, Any]) -> dict[str, Any]:
    return {"text": "a", "answer": "1", "score": None, "verdicts": list(verdicts)}


KEPT = {
    "id": "kept",
    "verdicts": [verdict("outcome", 1.0, evidence=['{"a": 1}']), verdict("spatial", 1.0), verdict("counting", None)],
    "other_traces": [
        trace(verdict("outcome", 0.0, evidence=['{"b": 2}'])),
        trace(verdict("spatial", None, failed=True)),
    ],
}
LOW = {
    "id": "low",
    "stage": "verify",
    "reason": "low_grounding",
    "rejected_by": "spatial",
    "traces": [trace(verdict("outcome", 1.0), verdict("spatial", 0.25)), trace()],
}
EARLY = {"id": "early", "stage": "difficulty", "reason": "too_hard"}


def write(folder: Path, without: Sequence[str] = ()) -> Path:
    """A run with these rows, whose shards lack the columns ``without``."""
    for name, rows in (("sft", [KEPT, {"id": "bare"}]), ("rejected", [LOW, EARLY])):
        (folder / name).mkdir(parents=True)
        table = pa.Table.from_pylist(rows, schema=SCHEMAS[name])
        table = table.drop_columns([column for column in without if column in table.column_names])
        pq.write_table(table, folder / name / "train-00000-of-00001.parquet")
    return folder


Opened = tuple[duckdb.DuckDBPyConnection, RunSummary]


@contextmanager
def opened(folder: Path, floors: Mapping[str, float] = FLOORS) -> Iterator[Opened]:
    told = summary(floors)
    with open_tables(folder, told) as tables:
        yield tables, told


ROWS = [
    ("kept", "sft", 1, "outcome", 1.0, "scored", "outcome says so", ['{"a": 1}']),
    ("kept", "sft", 1, "spatial", 1.0, "scored", "spatial says so", None),
    ("kept", "sft", 1, "counting", None, "not applicable", "counting says so", None),
    ("kept", "sft", 2, "outcome", 0.0, "scored", "outcome says so", ['{"b": 2}']),
    ("kept", "sft", 3, "spatial", None, "failed", "spatial says so", None),
    ("low", "rejected", 1, "outcome", 1.0, "scored", "outcome says so", None),
    ("low", "rejected", 1, "spatial", 0.25, "scored", "spatial says so", None),
]


def test_each_verdict_of_each_trace_is_a_row(tmp_path: Path) -> None:
    with opened(write(tmp_path / "run")) as (tables, _):
        found = tables.execute("SELECT * FROM verdicts").fetchall()
        names = [name for name, *_ in tables.execute("DESCRIBE verdicts").fetchall()]
    assert sorted(found, key=str) == sorted(ROWS, key=str)
    assert names == ["id", "set", "trace", "scorer", "value", "state", "reason", "evidence"]


def test_in_runs_of_earlier_code_only_kept_traces_have_evidence(tmp_path: Path) -> None:
    folder = write(tmp_path / "run")
    [file] = (folder / "sft").iterdir()
    found = pq.read_table(file)
    kind = pa.list_(pa.struct([("text", pa.string()), ("verdicts", pa.list_(pa.struct(VERDICT_FIELDS)))]))
    traces = found["other_traces"].to_pylist()
    place = found.column_names.index("other_traces")
    pq.write_table(found.set_column(place, "other_traces", pa.array(traces, kind)), file)
    with opened(folder) as (tables, _):
        rows = tables.execute("SELECT * FROM verdicts WHERE set = 'sft'").fetchall()
    assert [row[-1] for row in sorted(rows, key=str)] == [None, ['{"a": 1}'], None, None, None]


def test_each_run_of_a_query_over_several_has_its_verdicts(tmp_path: Path) -> None:
    runs = [(write(tmp_path / name), summary(FLOORS)) for name in ("one", "two")]
    with open_several(runs) as tables:
        for schema in ("a", "b", "one", "two"):
            assert tables.execute(f"SELECT count(*) FROM {schema}.verdicts").fetchone() == (len(ROWS),)


@pytest.mark.parametrize(
    ("without", "floors", "figures"),
    [
        (
            (),
            FLOORS,
            [
                ("outcome", 3, 0, 0, 0.667, None, None, 0),
                ("spatial", 2, 0, 1, 0.625, 1.0, 0.5, 1),
                ("counting", 0, 1, 0, None, 0.5, None, 0),
            ],
        ),
        (
            ("verdicts", "other_traces", "rejected_by"),
            {},
            [("outcome", 1, 0, 0, 1.0, None, None, None), ("spatial", 1, 0, 0, 0.25, None, None, None)],
        ),
        (("verdicts", "other_traces", "traces"), FLOORS, []),
    ],
)
def test_the_figures_of_each_scorer(
    without: Sequence[str], floors: Mapping[str, float], figures: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    with opened(write(tmp_path / "run", without), floors) as (tables, told):
        assert verdict_figures(tables, told) == figures


def test_a_run_without_rows_has_no_verdicts(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with opened(tmp_path / "run") as (tables, told):
        assert verdict_figures(tables, told) == [] and tables.execute("SELECT * FROM verdicts").fetchall() == []
