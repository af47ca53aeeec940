"""Paths as a command line names them."""

import os
from pathlib import Path

import pytest

from groundtrace.schemas.paths import is_pipe, local_path, real_path


@pytest.mark.parametrize(("name", "path"), [("~", "home"), ("~/a", "home/a"), ("a~b", "a~b"), ("~no-such-user/a",) * 2])
def test_a_home_folder_is_expanded(name: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert local_path(name).absolute() == real_path(name) == tmp_path / path


def test_links_in_a_cycle_stay(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert real_path(str(tmp_path / "loop/x")) == tmp_path / "loop/x"


def test_only_a_pipe_is_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    assert is_pipe(str(tmp_path / "pipe")) and is_pipe(str(tmp_path / "link"))
    assert not any(is_pipe(str(tmp_path / name)) for name in ("file", ".", "absent", "x" * 300, "file/x"))
