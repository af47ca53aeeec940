"""Control groups on a folder that stands in for the kernel's, which makes the files of a new group."""

from pathlib import Path

import pytest

from groundtrace.sandbox import groups

FILES = {"version 2": ("memory.max", "pids.max"), "version 1": ("memory.limit_in_bytes", "pids.max")}


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Let each new group have these files; those that end with a slash cannot be written."""

    def given(*files: str, controllers: tuple[str, ...] = ("memory", "pids")) -> None:
        def mkdir(folder: Path, exist_ok: bool) -> None:
            made(folder, exist_ok=exist_ok)
            for name in files:
                made(folder / name, exist_ok=True) if name.endswith("/") else (folder / name).touch()

        made = Path.mkdir
        monkeypatch.setattr(Path, "mkdir", mkdir)
        monkeypatch.setattr(groups, "parents", lambda: dict.fromkeys(controllers, tmp_path))

    return given


@pytest.mark.parametrize("files", FILES.values(), ids=FILES)
def test_the_limits_are_written(kernel, tmp_path: Path, files: tuple[str, ...]) -> None:
    kernel(*files)
    group = groups.make_group("a", 2, 7)
    [folder] = group.folders
    assert (folder.parent, group.controllers) == (tmp_path, {"memory", "pids"})
    assert [(folder / name).read_text("ascii") for name in files] == [str(2 << 20), "7"]


def test_a_group_with_one_limit_is_kept(kernel) -> None:
    kernel("pids.max")
    group = groups.make_group("a", 2, 7)
    assert (len(group.folders), group.controllers) == (1, {"pids"})


def test_a_group_without_a_limit_is_removed(kernel, tmp_path: Path) -> None:
    """Its folder would stay, since nobody knows of it."""
    kernel()
    assert groups.make_group("a", 2, 7) == groups.ControlGroup()
    assert list(tmp_path.iterdir()) == []


def test_a_limit_that_cannot_be_written(kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel("memory.max/", controllers=("memory",))
    monkeypatch.setattr(Path, "rmdir", lambda folder: removed.append(folder.name))
    removed: list[str] = []
    assert groups.make_group("a", 2, 7) == groups.ControlGroup()
    assert [name.rpartition("-")[2] for name in removed] == ["a"]
