"""No file of a data folder is unpacked without a limit."""

import bz2
import gzip
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.stages.sources import packed_files
from groundtrace.stages.sources.base import InputError, RowSettings
from groundtrace.stages.sources.data_folders import open_folder

LINE = b'{"text": "of the data set"}\n'
GZIP = gzip.compress(LINE, mtime=0)
"""Without the time of the compression, so that all test processes have tests of the same names."""
PACKED: list[tuple[str, bytes, str]] = [
    ("a.jsonl.gz", GZIP, "gunzip"),
    ("a.jsonl.bz2", bz2.compress(LINE), "bunzip2"),
    ("a.jsonl.xz", lzma.compress(LINE), "unxz"),
    ("a.tar", lzma.compress(LINE, lzma.FORMAT_ALONE), "unlzma"),
    ("a.jsonl.zst", b"\x28\xb5\x2f\xfd", "unzstd"),
    ("a.jsonl.lz4", b"\x04\x22\x4d\x18", "unlz4"),
    ("a.jsonl.7z", b"7z\xbc\xaf\x27\x1c", "7z x"),
    ("a.jsonl.gz", LINE, "gunzip"),
    ("a.jsonl", GZIP, "gunzip"),
]


def texts(folder: Path) -> list[str]:
    return [row["text"] for row in open_folder(str(folder), RowSettings())]


@pytest.mark.parametrize(("name", "data", "command"), PACKED)
def test_a_compressed_file_is_refused(
    name: str, data: bytes, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = f"---\nconfigs:\n- config_name: default\n  data_files: [b.jsonl, {name}]\n---\n"
    (tmp_path / "README.md").write_text(header)
    (tmp_path / "b.jsonl").write_bytes(LINE)
    (tmp_path / name).write_bytes(data)
    said = f"the data file {tmp_path / name} is compressed: unpack it with `{command}` first"
    with pytest.raises(InputError, match=f"^{said}$"):
        texts(tmp_path)
    assert main(["validate", "grounded_cot", "--input", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"beam: {said}\n"


MEMBERS: list[tuple[dict[str, bytes], str]] = [
    ({"a.jsonl": LINE * 40}, r"holds the file 'a\.jsonl' of more than 1000 bytes: unpack it with `unzip` first"),
    ({"a.jsonl": LINE * 20, "b.jsonl": LINE * 20, "c.jsonl": LINE * 20}, "holds more than 1500 bytes: unpack it with"),
    ({"a.jsonl": LINE, "b.jsonl.gz": LINE}, r"holds the compressed file 'b\.jsonl\.gz': unpack both, with `unzip`"),
    (
        {"a.jsonl": LINE, "b.jsonl": GZIP},
        r"holds the compressed file 'b\.jsonl': unpack both, with",
    ),
]


@pytest.mark.parametrize(("members", "said"), MEMBERS)
def test_an_archive_with_too_much_is_refused(
    members: dict[str, bytes], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_files, "MAX_TEXT_BYTES", 1000)
    monkeypatch.setattr(packed_files, "MAX_ARCHIVE_BYTES", 1500)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(InputError, match=rf"the archive {tmp_path / 'a.zip'} {said}"):
        texts(tmp_path)


def test_an_archive_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("deep")
        archive.writestr("deep/a.jsonl", LINE * 3)
        archive.writestr("b.jsonl", LINE)
    assert texts(tmp_path) == ["of the data set"] * 4


def test_images_in_an_archive_have_their_own_limit(
    write_scene: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_files, "MAX_TEXT_BYTES", 100)
    image = write_scene(tmp_path / "made/a.png")
    (tmp_path / "data").mkdir()
    with zipfile.ZipFile(tmp_path / "data/a.zip", "w") as archive:
        archive.write(image, "a.PNG")
        archive.writestr("metadata.csv", "file_name,question\na.PNG,Which?\n")
    rows = open_folder(str(tmp_path / "data"), RowSettings()).decode(False)
    assert [row["question"] for row in rows] == ["Which?"]
