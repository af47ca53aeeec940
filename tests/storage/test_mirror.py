"""A folder of a store as a copy here: of one moment and inside its folder; what cannot be copied is a line."""

from pathlib import Path

import pytest

from groundtrace.storage.mirror import local_copy
from groundtrace.storage.places import StorageError
from groundtrace.storage.remote_path import RemotePath

RUN = {"input.json": b"{}", "run.json": b"{}", "sft/a.parquet": b"a", "rl/b.parquet": b"b"}


@pytest.fixture
def run(bucket: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemotePath:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "machine"))
    for name, data in RUN.items():
        (bucket / "run" / name).write_bytes(data)
    return bucket / "run"


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def put(run: RemotePath, name: str, data: bytes) -> None:
    """Write an object of any name, also of one that is no path."""
    RemotePath(f"{run}/{name}", run.storage).write_bytes(data)


@pytest.mark.parametrize(
    "name",
    ["", "sft/", "rl/", "media/", "/etc/x", "sft//c.parquet", "sft/./c.parquet", "sft/../../../x", "../x", "sft/.."],
)
def test_names_that_are_no_paths_are_passed_over(run: RemotePath, tmp_path: Path, name: str) -> None:
    """Consoles and other programs make an empty object ``sft/`` for a folder; others are hostile."""
    put(run, name, b"" if name.endswith("/") or not name else b"evil")
    assert files(local_copy(str(run))) == RUN
    assert {str(path.relative_to(run)) for path in run.walked()} == set(RUN)
    assert {path.name for path in run.iterdir()} >= {"input.json", "run.json", "sft", "rl"}
    assert not {".", "..", ""} & {path.name for path in run.iterdir()}
    assert not list(tmp_path.rglob("x"))


@pytest.mark.parametrize("name", ["sft", "run.json/x", "l" * 300, "ü" * 128, "sft/a\0b"])
def test_what_no_disk_can_hold_is_a_line(run: RemotePath, name: str) -> None:
    put(run, name, b"x")
    said = r"/run cannot be copied to this machine, .+\. Rename or remove this object in the store"
    with pytest.raises(StorageError, match=said):
        local_copy(str(run))


def test_a_folder_for_copies_that_is_none_is_a_line(run: RemotePath, tmp_path: Path) -> None:
    (tmp_path / "machine").write_bytes(b"")
    with pytest.raises(StorageError, match=r"cannot be copied to this machine .+: check that .+ is a writable folder"):
        local_copy(str(run))


def test_a_folder_that_became_a_file_and_the_reverse(run: RemotePath) -> None:
    put(run, "notes/a.txt", b"a")
    put(run, "text", b"t")
    local_copy(str(run))
    for name in ("notes/a.txt", "text"):
        (run / name).unlink()
    put(run, "notes", b"n")
    put(run, "text/b.txt", b"b")
    assert files(local_copy(str(run))) == RUN | {"notes": b"n", "text/b.txt": b"b"}


@pytest.mark.parametrize("name", ["versions.json", ".lock"])
def test_a_run_of_any_name(bucket: RemotePath, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "machine"))
    (bucket / name / "input.json").write_bytes(b"{}")
    assert files(local_copy(str(bucket / name))) == {"input.json": b"{}"}


def test_what_is_taken_away_while_it_is_copied_is_looked_for_again(
    run: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``run.json`` is, and the outputs that a newer run has no more, when one is delivered meanwhile."""
    read, gone = RemotePath.read_bytes, []

    def delivered_meanwhile(self: RemotePath, start: int | None = None, end: int | None = None) -> bytes:
        if not gone:
            gone.append(self)
            for name in ("run.json", "rl/b.parquet"):
                (run / name).unlink()
        return read(self, start, end)

    monkeypatch.setattr(RemotePath, "read_bytes", delivered_meanwhile)
    assert files(local_copy(str(run))) == {name: RUN[name] for name in ("input.json", "sft/a.parquet")}


def test_bytes_that_are_not_all_there_are_fetched_again(run: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    read, cut = RemotePath.read_bytes, []

    def cut_once(self: RemotePath, start: int | None = None, end: int | None = None) -> bytes:
        data = read(self, start, end)
        if self.name == "a.parquet" and not cut:
            cut.append(self)
            return b""
        return data

    monkeypatch.setattr(RemotePath, "read_bytes", cut_once)
    assert files(local_copy(str(run))) == RUN
