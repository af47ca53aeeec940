"""Copies of shards: the rows of the sources that go out, in their order, in row groups that the viewer takes."""

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.publishing.hub import shards
from groundtrace.publishing.hub.errors import PublishError
from groundtrace.publishing.hub.shards import check_shard, copy_rows

SCHEMA = pa.schema(
    [("id", pa.string()), ("source", pa.string()), ("license", pa.string()), ("data", pa.binary())],
    metadata={"huggingface": '{"info": {"features": {"images": {"feature": {"_type": "Image"}}}}}'},
)
KEYS = {"a": ("a", "mit"), "b": ("b", ""), "c": ("c", "mit")}


def write(file: Path, sources: str, size_bytes: int = 10, group_rows: int = 1000) -> Path:
    rows = [
        {
            "id": f"q{place}",
            "source": source,
            "license": KEYS[source][1] or None,
            "data": bytes([place % 256]) * size_bytes,
        }
        for place, source in enumerate(sources)
    ]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), file, row_group_size=group_rows)
    return file


@settings(max_examples=30, deadline=None)
@given(st.text("abc", max_size=60), st.sets(st.sampled_from("abc")))
def test_what_is_kept(tmp_path_factory: pytest.TempPathFactory, sources: str, published: set[str]) -> None:
    folder = tmp_path_factory.mktemp("shards")
    file, copy = write(folder / "from.parquet", sources, group_rows=7), folder / "to.parquet"
    expected = [f"q{place}" for place, source in enumerate(sources) if source in published]
    assert copy_rows(file, copy, [KEYS[name] for name in published]) == len(expected)
    assert copy.exists() is bool(expected)
    if expected:
        found = pq.read_table(copy)
        assert found["id"].to_pylist() == expected
        assert found.schema.equals(SCHEMA, check_metadata=True)


def test_flagged_rows_are_not_copied(tmp_path: Path) -> None:
    file, flagged = write(tmp_path / "from.parquet", "aabaab"), frozenset({"q1", "q2", "q5", "another"})
    assert copy_rows(file, tmp_path / "copy", [KEYS["a"]], flagged_ids=flagged) == 3
    assert pq.read_table(tmp_path / "copy")["id"].to_pylist() == ["q0", "q3", "q4"]
    assert copy_rows(file, tmp_path / "none", [KEYS["b"]], flagged_ids=flagged) == 0


def test_a_copy_is_the_same_each_time(tmp_path: Path) -> None:
    file = write(tmp_path / "from.parquet", "abcabc")
    digests = set()
    for name in ("one", "two"):
        copy_rows(file, tmp_path / name, [KEYS["a"]])
        digests.add(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("size_bytes", "read_rows", "groups"),
    [(11_000, 2, 10), (11_000, 16, 10), (90_000, 16, 40)],
    ids=["small batches", "a batch beyond the limit", "a row beyond the limit"],
)
def test_row_groups_are_cut(
    size_bytes: int, read_rows: int, groups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "MAX_GROUP_BYTES", 50_000)
    monkeypatch.setattr(shards, "READ_ROWS", read_rows)
    file, copy = write(tmp_path / "from.parquet", "a" * 40, size_bytes), tmp_path / "to.parquet"
    assert not check_shard(file, needs_images=True)
    assert copy_rows(file, copy, [KEYS["a"]]) == 40
    assert check_shard(copy, needs_images=True)
    assert pq.read_metadata(copy).num_row_groups >= groups
    assert pq.read_table(copy)["id"].to_pylist() == pq.read_table(file)["id"].to_pylist()


def test_a_shard_that_does_not_say_what_its_images_are(tmp_path: Path) -> None:
    pq.write_table(pa.table({"source": ["a"]}), tmp_path / "plain.parquet")
    with pytest.raises(PublishError, match="does not declare which column holds images"):
        check_shard(tmp_path / "plain.parquet", needs_images=True)


def test_a_shard_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 but no more")
    for refused in (
        lambda file: check_shard(file, needs_images=True),
        lambda file: copy_rows(file, tmp_path / "c", []),
    ):
        with pytest.raises(PublishError, match=r"bad\.parquet"):
            refused(tmp_path / "bad.parquet")
    assert not list(tmp_path.glob(".*.tmp"))
