"""A trajectory's folder, copied and brought back."""

import os
import time
from pathlib import Path

import pytest

from groundtrace.sandbox.inside import folder


def listing(root: Path) -> dict[str, tuple[int, int, bytes]]:
    found = {}
    for base, folders, names in os.walk(root):
        for name in folders + names:
            path = Path(base, name)
            status = path.lstat()
            content = (
                str(path.readlink()).encode() if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
            )
            found[str(path.relative_to(root))] = (
                status.st_mode,
                status.st_mtime_ns if not path.is_symlink() else 0,
                content,
            )
    return found


def test_it_is_brought_back_whatever_happened_to_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_bytes(b"\0\1")
    (root / "locked").write_text("x", "utf-8")
    (root / "locked").chmod(0o400)
    (root / "shut").mkdir()
    (root / "shut/in").write_text("y", "utf-8")
    (root / "shut").chmod(0o500)
    (root / "out").symlink_to("/etc/passwd")
    (root / "loop").symlink_to("loop")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff\n")).write_text("z", "utf-8")
    root.chmod(0o500)
    before = listing(root)
    copy = folder.copied(os.fsencode(root), 1 << 20)
    assert (listing(root), root.stat().st_mode & 0o777) == (before, 0o500)
    root.chmod(0o700)
    (root / "shut").chmod(0o700)
    (root / "shut/in").unlink()
    (root / "a").rename(root / "moved")
    (root / "locked").unlink()
    (root / "~0").mkdir()
    deep = root / "new"
    for _ in range(300):
        deep.mkdir()
        (deep / "f").touch()
        deep = deep / "d"
    folder.restore(os.fsencode(root), copy)
    assert (listing(root), root.stat().st_mode & 0o777) == (before, 0o500)
    root.chmod(0o700)


def test_many_files_and_deep_folders_are_cleared_in_time(tmp_path: Path) -> None:
    for number in range(4000):
        (tmp_path / str(number)).touch()
    before = listing(tmp_path)
    copy = folder.copied(os.fsencode(tmp_path), 1 << 20)
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    started = time.process_time()
    folder.restore(os.fsencode(tmp_path), copy)
    assert time.process_time() - started < 3
    assert listing(tmp_path) == before


def test_what_is_too_much_is_refused(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*(["d"] * (folder.MAX_DEPTH + 2)))
    deep.mkdir(parents=True)
    with pytest.raises(folder.FolderError, match="nested more than 64 deep"):
        folder.copied(os.fsencode(tmp_path), 1 << 20)
    folder.clear(os.fsencode(tmp_path))
    assert not list(tmp_path.iterdir())
    for number in range(folder.MAX_ENTRIES + 1):
        (tmp_path / str(number)).touch()
    with pytest.raises(folder.FolderError, match="more than 4096 files"):
        folder.copied(os.fsencode(tmp_path), 1 << 20)
    folder.clear(os.fsencode(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(folder.FolderError, match="pipe is not a file, folder or link"):
        folder.copied(os.fsencode(tmp_path), 1 << 20)
