"""How a view notices that the files of its run were replaced."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.publishing.view.opened_run import OpenedRun, RunChanged

from .viewed import sft_row, write_run


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", run, {"sft": [sft_row("a")]})


def shard_of(folder: Path) -> Path:
    return folder / "sft/train-00000-of-00001.parquet"


def write_in_place(folder: Path) -> None:
    """Write a shard of the same size, and set its earlier times, as `rsync --inplace --times` does."""
    file = shard_of(folder)
    found, data = file.stat(), file.read_bytes()
    with file.open("r+b") as opened:
        opened.write(data)
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a shard is written again": lambda folder: shard_of(folder).write_bytes(shard_of(folder).read_bytes()),
    "a shard is written in place": write_in_place,
    "a shard is gone": lambda folder: shard_of(folder).unlink(),
    "the summary has changed": lambda folder: (folder / "run.json").write_text("{}", "utf-8"),
    "the summary is gone": lambda folder: (folder / "run.json").unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_noticed(folder: Path, change: Callable[[Path], object]) -> None:
    opened = OpenedRun(folder)
    opened.check()
    change(folder)
    with pytest.raises(RunChanged, match=f"^{folder} was changed after `beam view` had read it$"):
        opened.check()


def test_a_summary_that_is_written_again_with_the_same_content_is_no_change(folder: Path) -> None:
    opened, file = OpenedRun(folder), folder / "run.json"
    file.write_bytes(file.read_bytes())
    opened.check()


def test_a_change_is_not_forgotten_if_the_first_files_are_back(folder: Path) -> None:
    """Images of the other run may be in memory."""
    opened = OpenedRun(folder)
    folder.rename(folder.with_name("away"))
    with pytest.raises(RunChanged):
        opened.check()
    folder.with_name("away").rename(folder)
    with pytest.raises(RunChanged):
        opened.check()
    OpenedRun(folder).check()
