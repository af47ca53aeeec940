"""Which formats there are."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.reading import input_folder
from groundtrace.stages.sources.base import RowSettings, Source
from groundtrace.stages.sources.registry import FORMATS, format_of, formats, read_source
from groundtrace.vision.media import MediaStore


def test_formats_are_asked_in_their_order_and_data_sets_last() -> None:
    assert [each.name for each in formats()] == [*FORMATS.plugins, *FORMATS.ours]
    assert [*FORMATS.ours][-1] == "datasets"
    assert [format_of(Source(each.name, "x")) for each in formats()] == [*formats()]


def test_only_data_sets_are_read_whole_and_tell_nothing_before() -> None:
    assert [each.name for each in formats() if each.is_read_whole] == ["datasets"]
    source = Source("datasets", "org/name")
    assert (format_of(source).count(source), list(format_of(source).media(source, RowSettings()))) == (None, [])


def test_a_source_of_no_format(store: MediaStore) -> None:
    with pytest.raises(
        ValueError,
        match=r"cannot read .*rows\.xyz: its input format cannot be used, because it must be one of .*, got 'xyz'",
    ):
        read_source(Source("xyz", "rows.xyz"), RowSettings(), store)


NAMES = {"jsonl": "data", "table": "data/rows.csv", "parquet": "data/*.parquet", "images": "data"}
"""An input of each local format, relative to the working directory."""


@pytest.mark.parametrize("kind", NAMES)
def test_the_images_of_an_input_are_found_from_any_folder(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run keeps the input's name, from which a page of the run finds the images of rejected records."""
    folder = tmp_path / "data"
    folder.mkdir()
    match kind:
        case "jsonl":
            (folder / "records.jsonl").write_text('{"id": "a"}\n', "utf-8")
        case "table":
            (folder / "rows.csv").write_text("id,question\na,How many?\n", "utf-8")
        case "parquet":
            pq.write_table(pa.table({"id": ["a"]}), folder / "rows.parquet")
        case _:
            (folder / "a.png").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    found = FORMATS[kind].find(NAMES[kind], Path(NAMES[kind]), RowSettings())
    monkeypatch.chdir("/")
    assert input_folder(found.name) == str(folder)
