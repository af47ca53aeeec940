"""What all formats share: the settings of rows, a source's share of a limit, the sign of a run folder, and links."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.stages.sources.base import Format, InputError, RowSettings, Source, is_run_folder
from groundtrace.stages.sources.images import Images
from groundtrace.stages.sources.jsonl import JsonLines
from groundtrace.stages.sources.parquet import Parquet
from groundtrace.stages.sources.tables import Tables


@pytest.mark.parametrize("section", ["columns", "constants"])
def test_unknown_fields_in_the_column_map(section: str) -> None:
    with pytest.raises(ValueError, match=rf"{section}\.qeustion must be one of id, source, .*, got 'qeustion'"):
        RowSettings(**{section: {"qeustion": "q"}})


@pytest.mark.parametrize(("first", "limit", "share"), [(1, None, None), (1, 3, 3), (3, 3, 1), (4, 3, 0), (9, 3, 0)])
def test_a_sources_share_of_the_first_records(first: int, limit: int | None, share: int | None) -> None:
    assert Source("parquet", "x", first).share_of(limit) == share


MARKERS = [
    (b'{"input": "x", "fingerprint": "y"}', True),
    (b'{"input": "x", "fingerprint": "y", "more": 1}', True),
    (b'{"input": "x"}', False),
    (b"[1]", False),
    (b"{", False),
    (b"\xff", False),
]


@pytest.mark.parametrize(("content", "is_run"), MARKERS)
def test_a_run_folder_by_its_marker(content: bytes, is_run: bool, tmp_path: Path) -> None:
    (tmp_path / "input.json").write_bytes(content)
    assert is_run_folder(tmp_path) == is_run
    assert not is_run_folder(tmp_path / "input.json")
    assert not is_run_folder(tmp_path / "none")


@pytest.mark.parametrize("name", ["input.json", "sub/input.json"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("data", ["a.png", "a.parquet"])
def test_a_marker_that_is_no_file_makes_no_run_folder(data: str, kind: str, name: str, tmp_path: Path) -> None:
    """It is not opened, and does not hide the data beside it."""
    (tmp_path / "sub").mkdir()
    marker = tmp_path / name
    os.mkfifo(marker) if kind == "pipe" else marker.symlink_to("/dev/zero")
    fmt = Parquet() if data.endswith("parquet") else Images()
    for folder in (tmp_path, tmp_path / "sub"):
        write_data(folder / data)
    found = fmt.find(str(tmp_path), tmp_path, RowSettings())
    assert len(found.sources) == 2 or found.sources[0].records == 2


def write_data(file: Path) -> None:
    row = {"id": "a", "question": "Which?", "answer": "1"}
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([row]), file)
    elif file.suffix == ".csv":
        file.write_text("id,question,answer\na,Which?,1\n")
    else:
        file.write_text(json.dumps(row) + "\n")


@pytest.mark.parametrize(
    ("fmt", "name", "pattern"),
    [
        (JsonLines(), "records.jsonl", ""),
        (Parquet(), "a.parquet", ""),
        (Parquet(), "deep/a.parquet", ""),
        (Parquet(), "a.parquet", "*.parquet"),
        (Tables(), "a.csv", ""),
    ],
    ids=["jsonl", "parquet", "deep parquet", "pattern", "csv"],
)
def test_a_link_in_a_data_folder_leads_to_no_file_outside(fmt: Format, name: str, pattern: str, tmp_path: Path) -> None:
    data, link = tmp_path / "data", tmp_path / "data" / name
    private, own = tmp_path / f"private{link.suffix}", data / "own" / f"real{link.suffix}x"
    link.parent.mkdir(parents=True)
    own.parent.mkdir(exist_ok=True)
    write_data(private)
    link.symlink_to(private)
    with pytest.raises(InputError, match=f"{link} is a link to a file outside its folder: copy this file"):
        fmt.find("input", data / pattern if pattern else data, RowSettings())
    assert fmt.find("input", link, RowSettings()).sources, "the user has named the link itself"
    link.unlink()
    private.rename(own)
    link.symlink_to(own)
    (tmp_path / "linked").symlink_to("data")
    for folder in (data, tmp_path / "linked"):
        assert len(fmt.find("input", folder / pattern if pattern else folder, RowSettings()).sources) == 1
