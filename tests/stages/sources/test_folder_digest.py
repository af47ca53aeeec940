"""The identity of a folder that ``datasets`` reads follows from its content, and not from its path."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import datasets
import pytest

from groundtrace.stages.sources.base import RowSettings
from groundtrace.stages.sources.folder_digest import folder_digest
from groundtrace.stages.sources.hf_datasets import DataSets


def _save(folder: Path, *names: str) -> None:
    saved = datasets.Dataset.from_dict({"question": [f"Which {name}?" for name in names]})
    datasets.DatasetDict({"train": saved, "test": saved}).save_to_disk(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of tables and an image, which ``datasets`` would read."""
    (tmp_path / "data/deep").mkdir(parents=True)
    (tmp_path / "data/train.csv").write_text("question\nWhich?\n")
    (tmp_path / "data/deep/test.csv").write_text("question\nWho?\n")
    (tmp_path / "data/a.png").write_bytes(b"image")
    return tmp_path / "data"


def test_a_saved_data_set_has_the_identity_of_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _save(tmp_path / "ds", "a", "b")
    found = DataSets().find("ds", Path("ds"), RowSettings()).fingerprint
    loaded = datasets.load_from_disk(str(tmp_path / "ds"))
    loaded.map(lambda row: row | {"more": 1})  # the library writes cache files into the folder
    assert DataSets().find("./ds", Path("./ds"), RowSettings()).fingerprint == found
    _save(tmp_path / "again", "a", "b")
    assert DataSets().find("again", Path("again"), RowSettings()).fingerprint == found
    shutil.rmtree(tmp_path / "ds")
    _save(tmp_path / "ds", "a", "c")
    assert DataSets().find("ds", Path("ds"), RowSettings()).fingerprint != found


CHANGES = [
    (lambda data: (data / "train.csv").write_text("question\nWhere?\n"), True),
    (lambda data: (data / "train.csv").rename(data / "test.csv"), True),
    (lambda data: (data / "deep/test.csv").unlink(), True),
    (lambda data: (data / "a.png").write_bytes(b"a larger image"), True),
    (lambda data: (data / ".huggingface.yaml").write_text("configs: []"), True),
    (lambda data: (data / ".git").mkdir(), False),
    (lambda data: (data / ".notes.csv").write_text("mine"), False),
    (lambda data: os.mkfifo(data / "pipe"), False),
    (lambda data: os.utime(data / "train.csv", (1, 1)), False),
]


@pytest.mark.parametrize(("change", "is_other"), CHANGES)
def test_another_content_is_another_identity(folder: Path, change: Callable[[Path], object], is_other: bool) -> None:
    found = folder_digest(folder)
    change(folder)
    assert (folder_digest(folder) != found) == is_other
    moved = folder.rename(folder.with_name("moved"))
    assert (folder_digest(moved) != found) == is_other


@pytest.mark.parametrize("text", ["[1, 2]", '{"a": 1}\n{"a": 2}\n', "not JSON"])
def test_dataset_info_json_of_a_folder_that_is_no_saved_set_is_a_file_as_any_other(folder: Path, text: str) -> None:
    found = folder_digest(folder)
    (folder / "dataset_info.json").write_text(text)
    with_file = folder_digest(folder)
    (folder / "dataset_info.json").write_text(f"{text} ")
    assert len({found, with_file, folder_digest(folder)}) == 3


def test_a_file_outside_the_folder_is_not_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "private.csv").write_text("private")
    (folder / "link.csv").symlink_to(tmp_path / "private.csv")
    found = folder_digest(folder)
    (tmp_path / "private.csv").write_text("changed")
    assert folder_digest(folder) == found
