"""Parquet files from a stranger: no text or row of one fills the memory, and all values stay as they were."""

import re
import resource
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.stages.sources import parquet_rows
from groundtrace.stages.sources.base import InputError
from groundtrace.stages.sources.parquet_rows import read_rows

LONG = "x" * 1001
COLUMNS: dict[str, pa.Array] = {
    "text": pa.array(["a", None, "c", "a"]),
    "large": pa.array(["a", "b", None, "a"], pa.large_string()),
    "view": pa.array(["a", "b", None, "a"], pa.string_view()),
    "bytes": pa.array([b"1", None, b"2", b"1"]),
    "image": pa.array(
        [{"bytes": b"1", "path": "a"}, None, {"bytes": None, "path": "b"}, {"bytes": b"2", "path": None}]
    ),
    "list": pa.array([["a", "a"], None, [], ["b", None]]),
    "lists": pa.array([[["a"], ["b"]], None, [[]], [None]]),
    "turns": pa.array(
        [[{"role": "user", "content": "Which?", "n": 1}], [], None, [{"role": "a", "content": None, "n": 2}]]
    ),
    "map": pa.array([[("k", "v")], None, [], [("a", "b")]], pa.map_(pa.string(), pa.string())),
    "category": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "number": pa.array([1, 2, None, 4]),
    "fixed": pa.array([b"12", None, b"34", b"56"], pa.binary(2)),
    "json": pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(["{}", "1", None, "2"])),
    "uuid": pa.array([uuid.UUID(int=n).bytes for n in range(4)], pa.uuid()),
    "a.b": pa.array(["1", "2", "3", "4"]),
}


@pytest.mark.parametrize("split_bytes", [0, 2**20])
@pytest.mark.parametrize("columns", [None, ["text", "a.b", "image.path"]])
def test_values_of_all_types_stay_as_they_were(
    columns: list[str] | None, split_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_rows, "SPLIT_BYTES", split_bytes)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(COLUMNS), path)
    assert list(read_rows(path, "a", 3, columns)) == pq.ParquetFile(path).read(columns).to_pylist()


HOLDERS: list[tuple[pa.DataType, Any, Any]] = [
    (pa.string(), "a", LONG),
    (pa.large_string(), "a", LONG),
    (pa.string_view(), "a", LONG),
    (pa.json_(pa.string()), "1", f'"{LONG}"'),
    (pa.list_(pa.string()), ["a"], ["a", LONG]),
    (pa.struct({"path": pa.string()}), {"path": "a"}, {"path": LONG}),
    (pa.list_(pa.struct({"content": pa.string()})), [], [{"content": LONG}]),
    (pa.map_(pa.string(), pa.string()), [("a", "b")], [("a", LONG)]),
]


@pytest.mark.parametrize("use_dictionary", [False, True])
@pytest.mark.parametrize(("kind", "short", "long"), HOLDERS, ids=str)
def test_a_long_text_is_refused(
    kind: pa.DataType, short: Any, long: Any, use_dictionary: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_rows, "MAX_CELL_BYTES", 1000)
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    column = pa.array([short] * 6 + [None, long, short, long], storage)
    table = pa.table({"q": column if storage is kind else pa.ExtensionArray.from_storage(kind, column)})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=use_dictionary)
    with pytest.raises(
        InputError, match=r"^data/a\.parquet, row 8, column q: the text has 100[13] bytes, but the limit is"
    ):
        list(read_rows(tmp_path / "a.parquet", "data/a.parquet", 4))


def test_media_have_no_limit_of_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_rows, "MAX_CELL_BYTES", 1000)
    rows = [{"image": {"bytes": LONG.encode(), "path": "a"}, "raw": LONG.encode()}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert list(read_rows(tmp_path / "a.parquet", "a", 4)) == rows


@pytest.mark.parametrize("item", ["x" * 900, b"x" * 900])
def test_a_row_of_many_texts_or_media_is_refused(item: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_rows, "SPLIT_BYTES", 2000)
    monkeypatch.setattr(parquet_rows, "MAX_ROW_BYTES", 5000)
    pq.write_table(pa.table({"q": [[item] * 2, [item] * 2, [item] * 6]}), tmp_path / "a.parquet")
    rows = read_rows(tmp_path / "a.parquet", "a.parquet", 16)
    assert [len(next(rows)["q"]) for _ in range(2)] == [2, 2]
    with pytest.raises(
        InputError, match=re.escape("a.parquet, row 3: the row has 5784 bytes of texts, media and lists")
    ):
        next(rows)


@pytest.mark.parametrize(
    ("kind", "value", "size"),
    [
        (pa.list_(pa.int8()), [1] * 100, 6400),
        (pa.list_(pa.list_(pa.bool_())), [[True] * 9] * 10, 6400),
        (pa.list_(pa.struct({"a": pa.bool_()})), [{"a": True}] * 20, 6400),
        (pa.struct({"a": pa.list_(pa.null())}), {"a": [None] * 100}, 6400),
        (pa.map_(pa.int8(), pa.int8()), [(1, 1)] * 50, 6400),
    ],
    ids=str,
)
def test_a_row_of_many_items_is_refused(
    kind: pa.DataType, value: Any, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_rows, "SPLIT_BYTES", 2000)
    monkeypatch.setattr(parquet_rows, "MAX_ROW_BYTES", 6000)
    few = {"a": value["a"][:2]} if isinstance(value, dict) else value[:2]
    pq.write_table(pa.table({"q": pa.array([few, value, few], kind)}), tmp_path / "a.parquet")
    rows = read_rows(tmp_path / "a.parquet", "a.parquet", 16)
    assert next(rows) == {"q": few}
    with pytest.raises(InputError, match=re.escape(f"a.parquet, row 2: the row has {size} bytes of texts, media")):
        next(rows)


def shared(path: Path, text: str, rows: int = 64) -> None:
    """Write rows that share one text: the file holds it once."""
    made = {name: [name] * rows for name in ("source", "license", "answer", "media")}
    column = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))
    pq.write_table(
        pa.table({"id": [f"{n}" for n in range(rows)], **made, "question": column}), path, compression="zstd"
    )


def test_a_command_ends_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared(tmp_path / "a.parquet", "a" * (30 * 2**20), 2)
    assert main(["validate", "grounded_cot", "--input", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    said = (
        "row 1, column question: the text has 31457280 bytes, but the limit is 16777216: shorten this text, or remove"
    )
    assert f"{tmp_path / 'a.parquet'}, {said}" in err and err.count("\n") == 1


READ = """
import sys
from pathlib import Path
from groundtrace.stages.sources.parquet_rows import read_rows
print(sum(1 for _ in read_rows(Path(sys.argv[1]), "a", 64)))
"""


def test_rows_that_share_a_text_need_the_memory_of_one(tmp_path: Path) -> None:
    """The texts of all rows together have 2 GiB, which is more than the process may have."""
    shared(tmp_path / "a.parquet", "a" * (16 * 2**20), 128)
    limit = 2**31

    def lowered() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    ended = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "a.parquet")], preexec_fn=lowered, capture_output=True, text=True
    )
    assert ended.stdout == "128\n", ended.stderr
