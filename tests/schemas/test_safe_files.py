"""Files of a folder that a stranger has sent: links, pipes and devices in the place of regular files."""

import os
import re
from pathlib import Path

import pytest

from groundtrace.schemas.safe_files import (
    UnsafeFile,
    is_elsewhere,
    opened_for_writing,
    opened_regular,
    own_file,
    read_json,
    read_regular,
    refuse_links,
    refuse_special,
)

SPECIAL = {"pipe": "a pipe", "zero": "a device", "null": "a device"}
"""The names of special files that the fixture makes, with the kinds that messages state."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a folder with a file, a folder, pipes and links, below a link of the user."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/letter.txt").write_text("precious")
    run = tmp_path / "run"
    run.symlink_to("disk")
    (run / "folder").mkdir()
    (run / "file").write_text("text")
    os.mkfifo(run / "pipe")
    links = {"zero": "/dev/zero", "null": "/dev/null", "linked": "file", "away": "../elsewhere", "dangling": "none"}
    for name, target in links.items():
        (run / name).symlink_to(target)
    return run


@pytest.mark.parametrize(
    ("name", "link"),
    [("away", "away"), ("away/letter.txt", "away"), ("dangling", "dangling"), ("linked", "linked"), ("zero", "zero")],
)
def test_links_below_the_folder_are_refused(run: Path, name: str, link: str) -> None:
    with pytest.raises(UnsafeFile, match=rf"^{re.escape(str(run / link))} is a link, but .*, or remove it$"):
        refuse_links(run, "file", name)
    with pytest.raises(UnsafeFile, match="is a link"):
        opened_for_writing(run, name)


def test_other_files_are_no_links(run: Path) -> None:
    refuse_links(run, "file", "folder", "folder/new", "pipe", "missing/too")


def test_a_regular_file_is_read_also_through_a_link(run: Path) -> None:
    assert read_regular(run / "file") == read_regular(run / "linked") == b"text"
    with opened_regular(run / "file") as stream:
        assert stream.readline() == b"text"


@pytest.mark.parametrize("name", SPECIAL)
def test_pipes_and_devices_are_not_read(run: Path, name: str) -> None:
    for use in (opened_regular, read_regular, refuse_special):
        with pytest.raises(
            UnsafeFile,
            match=rf"^{re.escape(str(run / name))} is not a regular file, but {SPECIAL[name]}: move it away$",
        ):
            use(run / name)


@pytest.mark.parametrize("name", ["missing", "dangling", "folder"])
def test_other_errors_are_those_of_the_system(run: Path, name: str) -> None:
    refuse_special(run / name)
    with pytest.raises(IsADirectoryError if name == "folder" else FileNotFoundError):
        read_regular(run / name)


def test_a_text_is_read_up_to_its_limit(run: Path) -> None:
    assert read_regular(run / "file", max_bytes=4) == b"text"
    with pytest.raises(
        UnsafeFile,
        match=r"has more than 3 bytes, so it is not read: replace it by a smaller file, or move it out of its folder$",
    ):
        read_regular(run / "file", max_bytes=3)


def test_a_file_is_appended_to_or_written_anew(run: Path) -> None:
    for truncate, text in ((False, "text1"), (True, "1")):
        with opened_for_writing(run, "file", truncate=truncate) as stream:
            stream.write(b"1")
        assert (run / "file").read_text() == text
    with opened_for_writing(run, "folder/new") as stream:
        stream.write(b"2")
    assert (run / "folder/new").read_text() == "2"


@pytest.mark.parametrize(("name", "error"), [("pipe", UnsafeFile), ("folder", IsADirectoryError)])
def test_only_a_regular_file_is_written(run: Path, name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        opened_for_writing(run, name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("file", False),
        ("missing", False),
        ("inner", False),
        ("loop", False),
        ("out", True),
        ("out/key", True),
        ("dangling", True),
        ("blob", False),
        ("blobs", True),
    ],
)
def test_a_path_that_leads_out_of_its_folder(tmp_path: Path, name: str, expected: bool) -> None:
    folder = tmp_path / "set/snapshots/01"
    for each in (folder / "deep", tmp_path / "private", tmp_path / "set/blobs"):
        each.mkdir(parents=True)
    for each in (folder / "file", tmp_path / "private/key", tmp_path / "set/blobs/a0"):
        each.touch()
    links = {"inner": "deep", "loop": "loop", "out": tmp_path / "private", "dangling": "../none"}
    for link, target in (links | {"blob": "../../blobs/a0", "blobs": "../../blobs"}).items():
        (folder / link).symlink_to(target)
    (tmp_path / "named").symlink_to(folder)
    assert (
        is_elsewhere(folder / name, folder) == is_elsewhere(tmp_path / "named" / name, tmp_path / "named") == expected
    )


@pytest.mark.parametrize(
    ("name", "link"),
    [("away", "away"), ("away/letter.txt", "away"), ("dangling", ""), ("inner/letter.txt", "inner/letter.txt")],
)
def test_a_file_behind_a_link_out_of_the_folder_is_not_read(run: Path, name: str, link: str) -> None:
    (run / "inner").symlink_to("folder")
    (run / "folder/letter.txt").symlink_to("../../elsewhere/letter.txt")
    if not link:
        assert own_file(run, name) == run / name, "its target would be in the folder"
        return
    with pytest.raises(UnsafeFile, match=rf"^{run / link} is a link to a place outside {run}, so .*, or remove it$"):
        own_file(run, name)


@pytest.mark.parametrize("name", ["file", "linked", "folder/new", "missing", "pipe"])
def test_other_files_are_of_the_folder(run: Path, name: str) -> None:
    assert own_file(run, name) == run / name


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_json_that_is_nested_too_deeply_is_not_valid(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("text", "said"), [("[" + "[]," * 3_000_000 + "0]", "3000000 lists"), (" " * 2**26 + "1", "67108864 bytes")]
)
def test_json_that_would_fill_the_memory_is_not_read(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UnsafeFile, match=f"a.json has more than {said}"):
        read_json(tmp_path / "a.json")
