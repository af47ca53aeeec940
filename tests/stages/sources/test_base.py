"""What all formats share: the settings of rows, a source's share of a limit, and the sign of a run folder."""

from pathlib import Path

import pytest

from groundtrace.stages.sources.base import RowSettings, Source, is_run_folder


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
