import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from groundtrace.storage.files import is_unfinished, write_atomically, written_whole


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(("data", "held"), [("é\n", b"\xc3\xa9\n"), (b"\0\xff", b"\0\xff"), ("", b""), (b"", b"")])
def test_the_file_holds_what_was_given(tmp_path: Path, data: bytes | str, held: bytes, durable: bool) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old and longer than the new one")
    write_atomically(path, data, durable=durable)
    assert path.read_bytes() == held
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_until_the_end_the_old_file_stands(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with written_whole(path) as unfinished:
        unfinished.write_text("new")
        assert path.read_text() == "old"
        assert is_unfinished(unfinished.name)
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(error), written_whole(path) as unfinished:
        unfinished.write_text("ne")
        raise error
    assert {entry.name: entry.read_text() for entry in tmp_path.iterdir()} == {"a": "old"}


def test_a_writer_that_wrote_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), written_whole(tmp_path / "a"):
        pass
    assert not list(tmp_path.iterdir())


def test_two_writers_at_once_each_write_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with written_whole(path) as one:
        with written_whole(path) as other:
            one.write_text("one")
            other.write_text("other")
        assert path.read_text() == "other"
    assert path.read_text() == "one"


def _killed_while_writing(path: Path) -> None:
    with written_whole(path) as unfinished:
        unfinished.write_text("ne")
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_writer_leaves_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    process = multiprocessing.get_context("fork").Process(target=_killed_while_writing, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    left = sorted(tmp_path.iterdir())
    assert [is_unfinished(entry.name) for entry in left] == [True, False]
    assert path.read_text() == "old"


@pytest.mark.parametrize("name", ["a", ".lock", "input.json", ".a.tmp", f"a.{'0' * 32}.tmp", f".a.{'0' * 32}"])
def test_other_names_are_not_unfinished_files(name: str) -> None:
    assert not is_unfinished(name)
