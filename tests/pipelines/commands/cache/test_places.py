"""Which caches are found and opened."""

from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.pipelines.commands.cache.places import CacheCommandError

Command = Callable[..., int]


def test_a_cache_that_may_not_be_written_is_read(
    run: Path,
    command: Command,
    tmp_path: Path,
    make_read_only: Callable[[Path], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_read_only(run)
    assert command("stats", run) == 0
    assert "replies: 3\n" in capsys.readouterr().out
    assert command("prune", run, "--truncated", "--dry-run") == 0
    assert "1 reply would be dropped" in capsys.readouterr().out
    assert command("export", run, "--to", tmp_path / "replies.jsonl") == 0
    assert len((tmp_path / "replies.jsonl").read_text("utf-8").splitlines()) == 3
    with pytest.raises(CacheCommandError):
        command("prune", run, "--truncated")
