"""Parquet as an input: its rows, and what is told of them without reading their images."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.stages.sources.base import InputError, RowSettings, Source
from groundtrace.stages.sources.parquet import Parquet

FORMAT = Parquet()


def written(path: Path, rows: list[dict[str, Any]]) -> Source:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return Source("parquet", str(path), first_number=3)


def test_rows_are_records(tmp_path: Path, read: Callable[..., Any]) -> None:
    rows = [{"question": "How many?", "image": "a.png"}] * 100
    source = written(tmp_path / "a.parquet", rows)
    found = read(source)
    assert [(number, row["id"], row["media"]) for number, row in found] == [
        (number, f"row-{number}", ["input:a.png"]) for number in range(3, 103)
    ]
    assert FORMAT.count(source) == 100


def test_the_columns_of_all_files(tmp_path: Path) -> None:
    written(tmp_path / "a.parquet", [{"id": "a", "query": "q"}])
    written(tmp_path / "b.parquet", [{"id": "b", "gold": "g"}])
    assert FORMAT.find("x", tmp_path, RowSettings()).columns == {"id", "query", "gold"}


EMBEDDED = {"bytes": b"no image", "path": "a.png"}
MEDIA = [
    ([{"media": "a.png"}, {"media": None}], RowSettings(), ["a.png", None]),
    ([{"image": EMBEDDED}, {"image": None}], RowSettings(), [{"path": "a.png"}, None]),
    ([{"images": [EMBEDDED, EMBEDDED]}, {"images": []}], RowSettings(), [[{"path": "a.png"}] * 2, []]),
    ([{"image": b"bytes"}], RowSettings(), [b"bytes"]),
    ([{"image": {"bytes": b"bytes"}}], RowSettings(), [{"bytes": b"bytes"}]),
    ([{"a.b": EMBEDDED}], RowSettings(columns={"media": "a.b"}), [{"path": "a.png"}]),
    ([{"image": "a.png", "image.x": "b.png"}], RowSettings(), ["a.png"]),
    ([{"question": "q"}], RowSettings(), []),
]


@pytest.mark.parametrize(("rows", "settings", "found"), MEDIA)
def test_the_media_of_rows_but_their_bytes(
    rows: list[dict[str, Any]], settings: RowSettings, found: list[Any], tmp_path: Path
) -> None:
    assert list(FORMAT.media(written(tmp_path / "a.parquet", rows), settings)) == found


def test_a_damaged_page_names_the_file(tmp_path: Path, read: Callable[..., Any]) -> None:
    """The footer, with the number of rows, is whole: only reading the rows shows it."""
    rows = [{"image": f"{n}.png", "answer": f"{n}"} for n in range(2000)]
    source = written(tmp_path / "a.parquet", rows)
    data = bytearray(Path(source.path).read_bytes())
    footer_bytes = int.from_bytes(data[-8:-4], "little") + 8
    for at in range(4, len(data) - footer_bytes):
        data[at] ^= 0xFF
    Path(source.path).write_bytes(data)
    assert FORMAT.count(source) == 2000
    for reading in (
        lambda: read(source),
        lambda: list(FORMAT.media(source, RowSettings())),
        lambda: list(FORMAT.answers(source, RowSettings())),
    ):
        with pytest.raises(
            InputError, match=f"^{source.path} .*: write or download the file again, or remove it from the input$"
        ):
            reading()


def test_a_link_to_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").symlink_to("/proc/self/mem")
    with pytest.raises(InputError, match=r"a\.parquet is not a Parquet file, or is damaged"):
        FORMAT.find("input", tmp_path / "a.parquet", RowSettings())
