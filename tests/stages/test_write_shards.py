"""Shards: their number, a row's place, bounds of row groups, embedded pictures, and bytes that rows alone decide."""

import hashlib
import io
import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.schemas.arrow import REJECTED_SCHEMA, SFT_SCHEMA
from groundtrace.schemas.ordering import order_key
from groundtrace.stages.plumbing.options import Options
from groundtrace.stages.plumbing.shard_files import ids_sha256, write_manifest
from groundtrace.stages.plumbing.sized_rows import SizedRow, size_row
from groundtrace.stages.write_shards import (
    ShardSettings,
    ShardTarget,
    WriteShards,
    row_groups,
    shard_count,
    shard_of,
    write_shard,
)
from groundtrace.vision.media import MediaMissing, MediaRoots


@pytest.mark.parametrize(
    ("rows", "total_bytes", "fixed", "shards"),
    [
        (0, 0, 0, 1),
        (1, 0, 0, 1),
        (5, 100, 0, 1),
        (5, 101, 0, 2),
        (5, 499, 0, 5),
        (5, 10_000, 0, 5),
        (5, 10_000, 3, 3),
        (5, 0, 8, 5),
        (0, 0, 8, 1),
    ],
)
def test_the_number_of_shards(rows: int, total_bytes: int, fixed: int, shards: int) -> None:
    assert shard_count(rows, total_bytes, ShardSettings(shards=fixed, shard_bytes=100)) == shards


@pytest.mark.parametrize("wrong", [{"shards": -1}, {"shard_bytes": 0}, {"row_group_bytes": 0}, {"max_group_rows": 0}])
def test_settings_that_make_no_sense(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be (at least|greater than) 0, got "):
        ShardSettings(**wrong)


@pytest.mark.parametrize(
    ("row_id", "places"),
    [("", {1: 0, 2: 1, 7: 6, 1000: 889}), ("abc", {1: 0, 2: 1, 7: 5, 1000: 728})],
)
def test_a_rows_place_is_stable(row_id: str, places: dict[int, int]) -> None:
    assert {shards: shard_of(row_id, shards) for shards in places} == places


def test_rows_spread_evenly() -> None:
    counts = [0] * 8
    for number in range(4000):
        counts[shard_of(f"q{number}", 8)] += 1
    assert all(abs(count - 500) < 5 * 21 for count in counts), "five standard deviations of 21"


@settings(max_examples=60)
@given(st.text(max_size=9), st.integers(1, 10_000))
def test_places_follow_the_order_of_rows(row_id: str, shards: int) -> None:
    place = shard_of(row_id, shards)
    assert 0 <= place < shards
    assert place <= int(order_key(row_id)[:8], 16) / 2**32 * shards < place + 1


@settings(max_examples=100)
@given(st.lists(st.integers(0, 40), max_size=30), st.integers(1, 50), st.integers(1, 6))
def test_row_groups_keep_within_their_bounds(sizes: list[int], most_bytes: int, most_rows: int) -> None:
    rows = [SizedRow(str(number), b"", size) for number, size in enumerate(sizes)]
    bounds = ShardSettings(row_group_bytes=most_bytes, max_group_rows=most_rows)
    groups = list(row_groups(rows, bounds))
    assert [row for group in groups for row in group] == rows
    for group, after in zip(groups, [*groups[1:], []], strict=False):
        size = sum(row.size_bytes for row in group)
        assert 1 <= len(group) <= most_rows
        assert size <= most_bytes or len(group) == 1
        room = not after or len(group) == most_rows or size + after[0].size_bytes > most_bytes
        assert room, "a group is closed only when the next row does not fit"


@pytest.fixture
def roots(tmp_path: Path, write_scene: Callable[..., Path]) -> MediaRoots:
    write_scene(tmp_path / "data/a.png")
    write_scene(tmp_path / "data/b.jpg", ("blue",))
    return MediaRoots(str(tmp_path / "data"), str(tmp_path / "run"))


def sft_rows(count: int, overlay: str | None = None) -> list[SizedRow]:
    overlays = [overlay] if overlay else []
    images = ["input:a.png", "input:b.jpg"]
    return [size_row({"id": f"q{n}", "images": images, "overlays": overlays, "k": n}, 500) for n in range(count)]


def test_pictures_are_embedded_and_rows_ordered(roots: MediaRoots, tmp_path: Path) -> None:
    overlay = roots.store().write_drawn(b"drawn", "png")
    path = tmp_path / "shard.parquet"
    bounds = ShardSettings(max_group_rows=4)
    assert write_shard(sft_rows(9, overlay), path, SFT_SCHEMA, bounds, roots.store())[0] == 9
    shard = pq.ParquetFile(path)
    assert shard.schema_arrow.equals(SFT_SCHEMA)
    assert shard.schema_arrow.metadata == SFT_SCHEMA.metadata
    assert [shard.metadata.row_group(i).num_rows for i in range(shard.num_row_groups)] == [4, 4, 1]
    rows = shard.read().to_pylist()
    assert [row["id"] for row in rows] == sorted((f"q{n}" for n in range(9)), key=order_key)
    originals = [(tmp_path / "data" / name).read_bytes() for name in ("a.png", "b.jpg")]
    assert rows[0]["images"] == [
        {"bytes": originals[0], "path": "a.png"},
        {"bytes": originals[1], "path": "b.jpg"},
    ]
    assert rows[0]["overlays"] == [{"bytes": b"drawn", "path": overlay.removeprefix("run:")}]
    assert [path.name for path in tmp_path.glob("shard*")] == ["shard.parquet"], "no temporary file is left"


def test_the_same_rows_give_the_same_bytes_in_any_order(roots: MediaRoots, tmp_path: Path) -> None:
    rows = sft_rows(12)
    written = set()
    for number in range(3):
        random.Random(number).shuffle(rows)
        path = tmp_path / f"{number}.parquet"
        write_shard(iter(rows), path, SFT_SCHEMA, ShardSettings(), roots.store())
        written.add(path.read_bytes())
    assert len(written) == 1


def test_a_repeated_id_leaves_no_shard(roots: MediaRoots, tmp_path: Path) -> None:
    rows = [*sft_rows(3), *sft_rows(1)]
    with pytest.raises(ValueError, match=r"shard\.parquet: two rows have the id 'q0'"):
        write_shard(rows, tmp_path / "shard.parquet", SFT_SCHEMA, ShardSettings(), roots.store())
    assert not list(tmp_path.glob("shard*"))


def test_a_missing_picture_leaves_no_ends(roots: MediaRoots, tmp_path: Path) -> None:
    """What is there of the shard has a name that no entry will name."""
    row = size_row({"id": "q", "images": ["input:gone.png"]}, 0)
    path, ends = tmp_path / "shard.parquet", tmp_path / "ends.parquet"
    with pytest.raises(MediaMissing):
        write_shard([row], path, SFT_SCHEMA, ShardSettings(), roots.store(), ends)
    assert not ends.exists()


def test_an_empty_shard_has_the_schema(roots: MediaRoots, tmp_path: Path) -> None:
    path = tmp_path / "shard.parquet"
    assert write_shard([], path, SFT_SCHEMA, ShardSettings(), roots.store())[0] == 0
    assert pq.read_table(path).num_rows == 0
    assert pq.read_schema(path).equals(SFT_SCHEMA)
    assert pq.read_schema(path).metadata == SFT_SCHEMA.metadata


def written_by_stage(rows: list[SizedRow], roots: MediaRoots, folder: Path, bounds: ShardSettings) -> dict[str, bytes]:
    """The shards by their final names; what the stage says of them is checked."""
    for name in ("rejected", "ends"):
        (folder / name).mkdir(parents=True)
    with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        target = ShardTarget(str(folder), REJECTED_SCHEMA, roots)
        lines = {"rejected": pipeline | beam.Create(rows)} | WriteShards({"rejected": target}, bounds)
        _ = lines | beam.Map(lambda line: ("", line)) | beam.GroupByKey() | beam.Map(_write_lines, str(folder))
    [manifest] = folder.glob("manifest-*")
    entries = [json.loads(line)["shard"] for line in manifest.read_text("utf-8").splitlines()[:-1]]
    shards = shard_count(len(rows), sum(row.size_bytes for row in rows), bounds)
    names = [f"train-{shard:05d}-of-{shards:05d}.parquet" for shard in range(shards)]
    assert sorted(entry["name"] for entry in entries) == names
    assert len(list((folder / "rejected").iterdir())) == len(list((folder / "ends").iterdir())) == shards
    found = {entry["name"]: (folder / "rejected" / entry["file"]).read_bytes() for entry in entries}
    for entry in entries:
        shard = int(entry["name"][6:11])
        data = found[entry["name"]]
        assert entry["rows"] == sum(shard_of(row.id, shards) == shard for row in rows)
        assert (entry["size_bytes"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        assert entry["ids_sha256"] == ids_sha256(pq.read_table(io.BytesIO(data))["id"].to_pylist())
        assert pq.read_table(folder / "ends" / entry["ends"])["id"].to_pylist() == (
            pq.read_table(io.BytesIO(data))["id"].to_pylist()
        )
    return dict(sorted(found.items()))


def _write_lines(keyed: tuple[str, Iterable[str]], folder: str) -> str:
    return write_manifest(Path(folder), list(keyed[1]))


@pytest.mark.parametrize(
    ("count", "bounds"), [(40, ShardSettings(shards=5)), (0, ShardSettings()), (3, ShardSettings(shards=3))]
)
def test_the_stage(count: int, bounds: ShardSettings, roots: MediaRoots, tmp_path: Path) -> None:
    rows = [size_row({"id": f"q{number}", "reason": "too_easy"}, 0) for number in range(count)]
    first = written_by_stage(rows, roots, tmp_path / "first", bounds)
    again = written_by_stage(rows[::-1], roots, tmp_path / "again", bounds)
    assert first == again
    read = [row["id"] for name in sorted(first) for row in pq.read_table(io.BytesIO(first[name])).to_pylist()]
    assert read == sorted((row.id for row in rows), key=order_key), "over all shards the order is that of the ids"
