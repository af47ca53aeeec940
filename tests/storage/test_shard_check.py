"""Shards that another person made: texts that fill the memory, and columns of another type than a run writes."""

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.reading import SHARDS
from groundtrace.schemas.arrow import CORE
from groundtrace.storage import row_sizes
from groundtrace.storage import shard_check as module
from groundtrace.storage.row_sizes import ROWS
from groundtrace.storage.shard_check import check_shards
from groundtrace.storage.shard_fault import ShardFault

KIB = "a" * 2**10
OVERLAYS = SHARDS["sft"].field("overlays").type
LARGE_TURNS = pa.large_list(pa.struct([("role", pa.large_string()), ("content", pa.large_string())]))


def shared(value: str, rows: int) -> pa.DictionaryArray:
    """The same text in all rows, which the file holds once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))


def shard(folder: Path, **columns: Any) -> list[Path]:
    columns = {"id": shared("a", len(next(iter(columns.values()))))} | columns
    pq.write_table(pa.table(columns), folder / "a.parquet", store_schema=False, dictionary_pagesize_limit=2**30)
    return [folder / "a.parquet"]


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets a thousandth of the limits, so that a test needs a thousandth of the memory."""
    for name in ("MAX_ROW_BYTES", "MAX_ROWS_BYTES", "MAX_FILE_BYTES"):
        monkeypatch.setattr(row_sizes, name, getattr(row_sizes, name) // 2**10)


REMEDY = "Shorten the texts of the input, and repeat the run"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"question": shared(KIB * 65, 3)}, "a row has "),
        ({"question": shared(KIB * 2, 600)}, "a block of 1000 rows has "),
        ({"question": shared(KIB, 4 * ROWS)}, "the sum of its rows has "),
        ({"n": pa.nulls(200_000), "m": pa.nulls(200_000, pa.int64())}, "the sum of its rows has "),
        ({"note": shared(KIB * 65, 1)}, "a row has "),
        ({"note": [[{"a": 1, "b": [KIB * 40]}, {"a": 1, "b": [KIB * 30]}]]}, "a row has "),
        ({"n": [[[1, 2]] * 5_000]}, "a row has "),
        ({"choices": [[""] * 10_000]}, "a row has "),
        ({"id": ["1"], "ID": shared(KIB * 65, 1)}, "a row has "),
        ({"ID": shared(KIB * 65, 1)}, "a row has "),
    ],
)
def test_rows_that_fill_the_memory_are_refused(
    columns: dict[str, Any], said: str, small_limits: None, tmp_path: Path
) -> None:
    files = shard(tmp_path, **columns)
    with pytest.raises(
        ShardFault, match=rf"a\.parquet is too large to be read: without images, {said}.* MiB\. {REMEDY}$"
    ):
        check_shards(files)


def test_the_limits(tmp_path: Path) -> None:
    files = shard(tmp_path, question=shared(KIB * 2**10 * 65, 1))
    with pytest.raises(ShardFault, match=r"without images, a row has 65 MiB, but the limit is 64 MiB"):
        check_shards(files)
    files = shard(tmp_path, question=shared(KIB * 2**10 * 2, 600))
    with pytest.raises(
        ShardFault, match=r"without images, a block of 1000 rows has 1,200 MiB, but the limit is 1,024 MiB"
    ):
        check_shards(files)


@pytest.mark.parametrize(
    "columns",
    [
        {"question": shared(KIB, 1_000)},
        {"question": [Random(row).randbytes(512).hex() for row in range(4 * ROWS)], "note": pa.nulls(4 * ROWS)},
        {"images": [[{"bytes": b"a" * 70 * 2**10, "path": None}]]},
        {"images": pa.array([], OVERLAYS)},
        {"points": [[{"label": "a", "x": 1}]], "k": pa.array([5], pa.int64())},
        {
            "id": pa.array(["a"], pa.large_string()),
            "messages": pa.array([[{"role": "user", "content": "é"}]]).cast(LARGE_TURNS),
            "note": pa.array([["a", None]], pa.large_list(pa.large_string())),
            "media_names": [[None, "a.png"]],
        },
    ],
    ids=["long texts", "many rows", "a large image", "only images", "an earlier version", "written by datasets"],
)
def test_rows_that_can_be_read(columns: dict[str, Any], small_limits: None, tmp_path: Path) -> None:
    check_shards(shard(tmp_path, **columns))


@pytest.mark.parametrize("name", SHARDS)
def test_the_types_that_a_run_writes(name: str, tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(SHARDS[name].empty_table(), file)
    check_shards([file])


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("messages", [5]),
        ("messages", [["a"]]),
        ("messages", [[{"role": "user", "content": 5}]]),
        ("question", [{"a": 1}]),
        ("id", [5]),
        ("images", ["a"]),
        ("images", [[{"bytes": "a", "path": "a"}]]),
        ("pass_rate", ["a"]),
        ("lineage", [[1]]),
        ("id", pa.nulls(1)),
        ("lineage", pa.nulls(1)),
        ("images", pa.nulls(1)),
        ("images", [[None]]),
        ("images", [[{"bytes": b"a"}]]),
        ("messages", [[{"role": "user"}]]),
        ("verdicts", [[{"name": "spatial"}]]),
        ("traces", [[{"answer": "5"}]]),
    ],
)
def test_a_core_column_of_another_type_is_refused(column: str, values: list[Any], tmp_path: Path) -> None:
    files = shard(tmp_path, **{column: values})
    with pytest.raises(ShardFault, match=rf"the column {column} of .*a\.parquet has the type .*, but a run writes "):
        check_shards(files)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("images", pa.array([[{"bytes": b"a", "path": "a"}, None]], OVERLAYS)),
        ("choices", [["a", "b"]]),
        ("lineage", [{"models": [{"role": "teacher", "model": "a"}]}]),
        ("note", [[["a"]]]),
    ],
)
def test_lists_in_another_form_are_refused(column: str, values: Any, tmp_path: Path) -> None:
    """The form with `item`, which pyarrow writes if it is asked for."""
    made = pa.table({"id": ["a"], column: values})
    pq.write_table(made, tmp_path / "a.parquet", use_compliant_nested_type=False)
    with pytest.raises(
        ShardFault,
        match=rf"^the lists in the column '{column}' of .*a\.parquet are not stored as `list\.element`, .*: rep",
    ):
        check_shards([tmp_path / "a.parquet"])
    pq.write_table(made.select(["id"]), tmp_path / "a.parquet", use_compliant_nested_type=False)
    check_shards([tmp_path / "a.parquet"])


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1], pa.date32()),
        pa.array([1], pa.timestamp("us", "Nowhere/Bad")),
        pa.array([1], pa.duration("ns")),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([b"a"]),
        pa.array([b"ab"], pa.binary(2)),
        [[{"a": b"a"}]],
    ],
    ids=lambda values: str(getattr(values, "type", "a list")),
)
def test_an_added_column_of_a_type_that_no_run_writes_is_refused(values: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a"], "note": values}), tmp_path / "a.parquet")
    with pytest.raises(ShardFault, match=r"^the column 'note' of .* but a run writes only texts, numbers, booleans, "):
        check_shards([tmp_path / "a.parquet"])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": ["a", None]}, "has 1 row with no id"),
        ({"messages": [[None], [{"role": "user", "content": "a"}]]}, "an item without a value in the column messages"),
        ({"choices": [["a", None]]}, "an item without a value in the column choices"),
        ({"images": [[{"bytes": b"a", "path": "a"}], [None]]}, "an image without a value in the column images"),
        ({"overlays": pa.array([[None]], OVERLAYS)}, "an image without a value in the column overlays"),
    ],
)
def test_values_that_no_run_writes_are_refused(columns: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ShardFault, match=rf"a\.parquet .*{said}: repeat the run$"):
        check_shards(shard(tmp_path, **columns))


@pytest.mark.parametrize("column", ["question", "note", "messages"])
def test_a_text_that_is_not_utf_8_is_refused(column: str, tmp_path: Path) -> None:
    written = pa.array([b"\xff"], pa.binary())
    text = pa.StringArray.from_buffers(1, *written.buffers()[1:])
    if column == "messages":
        turn = pa.StructArray.from_arrays([pa.array(["user"]), text], names=["role", "content"])
        text = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), turn)
    with pytest.raises(
        ShardFault, match=r"a\.parquet is not a readable Parquet file \(.*[Ii]nvalid.*: repeat the run$"
    ):
        check_shards(shard(tmp_path, **{column: text}))


def test_many_small_items_count_as_the_objects_that_python_makes_of_them(tmp_path: Path) -> None:
    """For Parquet, an item without values needs a byte."""
    point = pa.array([[{"label": None, "x": None}] * 300_000], pa.list_(CORE["points"].type.value_type))
    with pytest.raises(ShardFault, match=r"without images, a row has \d+ MiB, but the limit is 64 MiB"):
        check_shards(shard(tmp_path, points=point))


def test_lists_with_more_items_than_the_memory_holds_are_not_read(
    small_limits: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB would need a multiple of the limit to count the items."""
    files = shard(tmp_path, deep=pa.array([[[]] * 400] * 100, pa.list_(pa.list_(pa.string()))))
    monkeypatch.setattr(module, "_check_rows", lambda *_: pytest.fail("the rows are read"))
    with pytest.raises(
        ShardFault, match=r"too large to be read: without images, the sum of its rows has 1 MiB, but the l"
    ):
        check_shards(files)


def nested(depth: int) -> list[Any]:
    return ["a"] if depth == 0 else [nested(depth - 1)]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"deep": nested(module.MAX_DEPTH + 1)}, "the column 'deep' of .*: remove this column"),
        ({"deep": pa.array(nested(200))}, "the column 'deep' of .*: remove this column"),
        ({f"c{number}": [1] for number in range(module.MAX_COLUMNS)}, "501 columns, but at most 500 are read"),
    ],
)
def test_a_schema_that_fills_the_memory_is_refused(columns: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ShardFault, match=said):
        check_shards(shard(tmp_path, **columns))


def test_the_deepest_column_and_the_most_columns(tmp_path: Path) -> None:
    check_shards(shard(tmp_path, deep=nested(module.MAX_DEPTH)))
    check_shards(shard(tmp_path, **{f"c{number}": ["a"] for number in range(module.MAX_COLUMNS - 1)}))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["1"]), pa.array(["2"])], ["id", "id"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ShardFault, match="has two columns with the name 'id': remove one of them"):
        check_shards([tmp_path / "a.parquet"])


def test_the_rows_of_a_large_file_may_be_larger(small_limits: None, monkeypatch: Any, tmp_path: Path) -> None:
    files = shard(tmp_path, question=shared(KIB, 4 * ROWS))
    monkeypatch.setattr(row_sizes, "MAX_EXPANSION", 4 * ROWS * 2**10 // files[0].stat().st_size + 10)
    check_shards(files)


def test_damaged_descriptions_of_columns(tmp_path: Path) -> None:
    made = pa.table({"id": ["a"], "x": ["a"]}).replace_schema_metadata({"groundtrace.added": "5"})
    pq.write_table(made, tmp_path / "a.parquet")
    with pytest.raises(ShardFault, match=r"a\.parquet .*the descriptions of the columns are damaged"):
        check_shards([tmp_path / "a.parquet"])


def test_a_file_that_is_not_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 damaged PAR1")
    with pytest.raises(ShardFault, match=r"a\.parquet is not a readable Parquet file \(.*\): repeat the run$"):
        check_shards([tmp_path / "a.parquet"])
