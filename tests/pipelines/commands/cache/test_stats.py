"""``beam cache stats``: figures, also of a cache that may only be read."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.inference.cache.replies import CacheEntry, ReplyCache
from groundtrace.inference.request import Completion
from groundtrace.schemas.safe_files import UnsafeFile

Command = Callable[..., int]


@pytest.mark.parametrize("named", ["", "cache", "cache/replies.sqlite"])
def test_stats(run: Path, command: Command, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    [log] = (run / "cache/log").iterdir()
    log.write_bytes(log.read_bytes() + b"torn")
    assert command("stats", run / named) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for line in ("replies: 3", "truncated: 1", "tokens in: 67", "tokens out: 105", "damaged lines: 1"):
        assert line.split() in lines
    for name, number in (("small", 2), ("large", 1), ("policy", 2), ("judge.v1", 1)):
        assert [name, str(number)] in lines


def test_stats_of_an_empty_cache_and_of_segments(
    tmp_path: Path, shared: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    ReplyCache(str(tmp_path / "c/replies.sqlite")).close()
    assert command("stats", tmp_path / "c") == 0
    assert "replies: 0\n" in capsys.readouterr().out
    assert command("stats", shared) == 0
    printed = capsys.readouterr().out
    assert "segments: 1\n" in printed
    assert "replies: 3\n" in printed


def test_a_name_that_would_drive_the_terminal_is_spelt_out(
    run: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = ReplyCache(str(run / "cache/replies.sqlite"))
    cache.put([CacheEntry("d", "policy", "[bold]p", "\x1b[2J", 1, Completion(""))])
    cache.close()
    command("stats", run)
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "[bold]p" in printed


@pytest.mark.parametrize("name", ["replies.sqlite", "replies.sqlite-wal"])
def test_a_pipe_in_a_run_folder_is_not_waited_for(run: Path, command: Command, name: str) -> None:
    (run / "cache" / name).unlink(missing_ok=True)
    os.mkfifo(run / "cache" / name)
    with pytest.raises(UnsafeFile, match=rf"{name} is not a regular file, but a pipe: move it away$"):
        command("stats", run)
