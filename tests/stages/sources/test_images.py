"""A folder of images: which files are records, and which folders are left to other formats."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.stages.sources.base import RUN_MARKER, NothingHere, RowSettings, Source
from groundtrace.stages.sources.images import IMAGES

Read = Callable[..., list[tuple[int, dict[str, Any]]]]
FILES = ("b.png", "dev-1.JPG", "deep/er/a.webp", "test_2.png")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder with images at several depths, and with files that are no images."""
    for name in (*FILES, "notes.txt", "b.json", ".thumbs/b.png", ".hidden.png"):
        (tmp_path / "pictures" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pictures" / name).write_bytes(b"x" * len(name))
    return tmp_path / "pictures"


def test_each_image_is_a_record_without_a_question(pictures: Path, read: Read) -> None:
    found = IMAGES.find("pictures", pictures, RowSettings())
    [source] = found.sources
    assert (source.records, found.media_root) == (len(FILES), str(pictures))
    assert list(IMAGES.media(source, RowSettings())) == sorted(FILES)
    rows = [fields for _, fields in read(source, RowSettings())]
    assert rows == [
        {"id": name, "media": [f"input:{name}"], "source": "pictures", "license": "unknown"} for name in sorted(FILES)
    ]


def test_a_constant_takes_the_place_of_a_default_and_ids_may_be_numbers(pictures: Path, read: Read) -> None:
    rows = RowSettings(constants={"source": "SA-1B", "license": "CC-BY-4.0"}, number_ids=True)
    found = read(Source("images", str(pictures)), rows)
    assert {(fields["source"], fields["license"]) for _, fields in found} == {("SA-1B", "CC-BY-4.0")}
    assert [fields["id"] for _, fields in found] == ["row-1", "row-2", "row-3", "row-4"]


def test_the_fingerprint_is_that_of_names_and_sizes(pictures: Path) -> None:
    first = IMAGES.find("pictures", pictures, RowSettings()).fingerprint
    (pictures / "notes.txt").unlink()
    assert IMAGES.find("pictures", pictures, RowSettings()).fingerprint == first
    (pictures / "b.png").rename(pictures / "c.png")
    assert IMAGES.find("pictures", pictures, RowSettings()).fingerprint != first


def test_images_of_a_run_below_are_not_input(pictures: Path) -> None:
    first = IMAGES.find("pictures", pictures, RowSettings())
    (pictures / "run/media").mkdir(parents=True)
    (pictures / "run" / RUN_MARKER).write_text('{"input": "x", "fingerprint": "y"}')
    (pictures / "run/media/drawn.png").write_bytes(b"x")
    assert IMAGES.find("pictures", pictures, RowSettings()) == first


@pytest.mark.parametrize("name", ["a.csv", "metadata.jsonl", "deep/x.parquet", "all.TAR", "some.zip"])
def test_a_folder_that_may_hold_questions_is_left_to_the_other_formats(name: str, pictures: Path) -> None:
    (pictures / name).write_bytes(b"x")
    with pytest.raises(NothingHere, match="no folder that holds only images"):
        IMAGES.find("pictures", pictures, RowSettings())


def test_what_holds_no_image(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x")
    for path in (tmp_path, tmp_path / "a.txt", tmp_path / "none"):
        with pytest.raises(NothingHere):
            IMAGES.find("x", path, RowSettings())
