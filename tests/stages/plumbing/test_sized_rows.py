"""Packed rows: their size in bytes, and the way through a shuffle with and without a spool."""

import json
from pathlib import Path

import pytest

from groundtrace.stages.plumbing.sized_rows import NO_ROW, SizedRowCoder, size_row


@pytest.mark.parametrize("text", ["abc", "两个红色方块", "naïve 🟥"])
def test_sizes_are_in_bytes(text: str) -> None:
    sized = size_row({"id": "q", "question": text}, 1000)
    assert (sized.id, sized.size_bytes) == ("q", len(json.dumps(sized.unpack()[0], ensure_ascii=False).encode()) + 1000)


def test_a_row_crosses_as_itself_or_by_way_of_a_spool(tmp_path: Path) -> None:
    rows = [size_row({"id": "q", "question": "".join(map(str, range(200)))}, 1000), NO_ROW]
    inline, spooled = SizedRowCoder(""), SizedRowCoder(str(tmp_path))
    assert inline != spooled == SizedRowCoder(str(tmp_path)) and not spooled.is_deterministic()
    assert [inline.decode(inline.encode(row)) for row in rows] == rows
    row, nothing = [spooled.decode(spooled.encode(row)) for row in rows]
    assert len(spooled.encode(row)) < len(inline.encode(rows[0]))
    assert row.unpack() == rows[0].unpack() and (row.id, row.size_bytes) == (rows[0].id, rows[0].size_bytes)
    assert nothing.packed == b""
    size_bytes = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert spooled.decode(spooled.encode(row)) == row, "it lies there already"
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) == size_bytes
    assert inline.decode(inline.encode(row)) == rows[0]
