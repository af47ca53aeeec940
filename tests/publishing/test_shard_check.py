"""Shards that another person made: texts that fill the memory, and columns of another type than a run writes."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.errors import InspectError
from groundtrace.publishing.reading import SHARDS
from groundtrace.publishing.shard_check import ROWS, check_shards

MEGABYTE = "a" * 2**20


def shared(value: str, rows: int) -> pa.DictionaryArray:
    """The same text in all rows, which the file holds once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))


def shard(folder: Path, **columns: Any) -> list[Path]:
    pq.write_table(pa.table(columns), folder / "a.parquet", store_schema=False, dictionary_pagesize_limit=2**30)
    return [folder / "a.parquet"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"question": shared(MEGABYTE * 65, 3)}, "a row of 65 MiB without images, but at most 64 MiB"),
        ({"question": shared(MEGABYTE * 2, 600)}, "1000 rows of 1,200 MiB without images, but at most 1,024 MiB"),
        ({"note": shared(MEGABYTE * 65, 1)}, "a row of 65 MiB"),
        ({"note": [[{"a": 1, "b": [MEGABYTE * 40]}, {"a": 1, "b": [MEGABYTE * 30]}]]}, "a row of 70 MiB"),
        ({"n": [[[1, 2]] * 5_000_000]}, "a row of 76 MiB"),
        ({"id": ["1"], "ID": shared(MEGABYTE * 65, 1)}, "a row of 65 MiB"),
    ],
)
def test_rows_that_fill_the_memory_are_refused(columns: dict[str, Any], said: str, tmp_path: Path) -> None:
    files = shard(tmp_path, **columns)
    with pytest.raises(InspectError, match=rf"a\.parquet has {said}.*: shorten the texts .* repeat the run$"):
        check_shards(files)


@pytest.mark.parametrize(
    "columns",
    [
        {"question": shared(MEGABYTE, 1_000)},
        {"question": shared(MEGABYTE, 4 * ROWS), "note": pa.nulls(4 * ROWS)},
        {"images": [[{"bytes": b"a" * 70 * 2**20, "path": None}]]},
        {"images": pa.array([], SHARDS["sft"].field("images").type)},
        {"points": [[{"label": "a", "x": 1}]], "k": pa.array([5], pa.int64())},
    ],
    ids=["long texts", "many rows", "a large image", "only images", "an earlier version"],
)
def test_rows_that_can_be_read(columns: dict[str, Any], tmp_path: Path) -> None:
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
    ],
)
def test_a_core_column_of_another_type_is_refused(column: str, values: list[Any], tmp_path: Path) -> None:
    files = shard(tmp_path, **{column: values})
    with pytest.raises(InspectError, match=rf"the column {column} of .*a\.parquet has the type .*, but a run writes "):
        check_shards(files)


def test_a_file_that_is_not_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 damaged PAR1")
    with pytest.raises(InspectError, match=r"a\.parquet is not a readable Parquet file \(.*\): repeat the run$"):
        check_shards([tmp_path / "a.parquet"])
