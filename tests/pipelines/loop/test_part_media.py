"""The media of the two parts are in their own folders: nothing is written through a link of the input."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.loop.held_out import SplitError
from groundtrace.pipelines.loop.part_media import PartMedia
from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.vision.media import MediaStore

from .loops import FIELDS, png, split


def write_rows(folder: Path, paths: list[str | None]) -> Path:
    """A Parquet file with a row for each path; None is an image that the row holds as bytes."""
    folder.mkdir()
    rows: list[dict[str, Any]] = []
    for number, path in enumerate(paths):
        image = {"bytes": png(number), "path": "a.png"} if path is None else {"bytes": None, "path": path}
        rows.append(FIELDS | {"id": f"q{number}", "image": image})
    pq.write_table(pa.Table.from_pylist(rows), folder / "q.parquet")
    return folder


PATHS = [
    ["media", None, None, None, None],
    [None, None, None, None, "media"],
    ["./media/", None, None, None, None],
    ["records.jsonl", None, None, None, None],
    ["deep", "deep/a.png", None, None, None, None],
]


@pytest.mark.parametrize("paths", PATHS)
def test_a_link_to_a_folder_gets_no_file_of_the_loop(paths: list[str | None], tmp_path: Path) -> None:
    (outside := tmp_path / "outside").mkdir()
    (outside / "a.png").write_bytes(png(99))
    data = write_rows(tmp_path / "data", paths)
    for link in ("media", "records.jsonl", "deep"):
        (data / link).symlink_to(outside)
    division = split(tmp_path / "out", data / "q.parquet")
    assert {path.name for path in outside.iterdir()} == {"a.png"}
    assert division.train + division.held == len(paths)
    found = [path for path in (tmp_path / "out/questions").rglob("*") if path.is_symlink()]
    assert found == []


def test_a_link_to_a_file_at_the_name_of_the_folder_is_left_out(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "data", ["media", None, None, None, None])
    (tmp_path / "secret.png").write_bytes(png(99))
    (data / "media").symlink_to(tmp_path / "secret.png")
    split(tmp_path / "out", data / "q.parquet")
    assert len(list((tmp_path / "out/questions").glob("*/media/*.png"))) == 4


@pytest.mark.parametrize("place", [0, 4], ids=["before embedded media", "after embedded media"])
def test_a_medium_with_the_name_of_the_folder_is_one_line(
    place: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths: list[str | None] = [None] * 5
    paths[place] = "media"
    data = write_rows(tmp_path / "data", paths)
    (data / "media").write_bytes(png(99))
    with pytest.raises(SplitError, match="the media file 'media' of the input has the same name as the folder"):
        split(tmp_path / "out", data / "q.parquet")
    words = ["loop", "grounded_cot", "--input", str(data / "q.parquet"), "--model", "tiny", "--output"]
    assert main([*words, str(tmp_path / "looped")]) == 2
    err = capsys.readouterr().err.splitlines()
    assert err[-1].startswith("beam: the media file 'media' of the input has the same name")


def test_a_medium_is_not_written_through_a_link(tmp_path: Path) -> None:
    (data := tmp_path / "data/deep").mkdir(parents=True)
    (data / "a.png").write_bytes(png(0))
    (side := tmp_path / "train").mkdir()
    (outside := tmp_path / "outside").mkdir()
    (side / "deep").symlink_to(outside)
    media = PartMedia(MediaStore(str(tmp_path / "data"), str(tmp_path)), tmp_path)
    with pytest.raises(UnsafeFile, match=f"{side / 'deep'} is a link"):
        media.put("input:deep/a.png", side)
    assert list(outside.iterdir()) == []
