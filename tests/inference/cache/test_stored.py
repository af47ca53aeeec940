"""The replies of a cache that no process changes."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from groundtrace.inference.cache import stored
from groundtrace.inference.cache.index import Damaged
from groundtrace.inference.cache.log import MAX_LINE_BYTES
from groundtrace.inference.cache.replies import ReplyCache
from groundtrace.inference.cache.stored import StoredReplies
from groundtrace.schemas.safe_files import UnsafeFile

from ..cached_replies import entry


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A cache with 500 replies."""
    path = tmp_path / "cache/replies.sqlite"
    with closing(ReplyCache(str(path))) as cache:
        cache.put([entry(str(number)) for number in range(500)])
    return path


def test_a_look_up_ends_after_its_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [str(number) for number in range(500)]
    with closing(StoredReplies(path)) as replies:
        assert len(replies.get(keys)) == 500
        monkeypatch.setattr(stored, "READ_S", -1.0)
        with pytest.raises(Damaged, match="the look-up took longer than"):
            replies.get(keys)


def test_a_reply_that_no_log_could_hold_is_not_read(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"UPDATE replies SET body = zeroblob({MAX_LINE_BYTES + 1}) WHERE key = '7'")
    with closing(StoredReplies(path)) as replies:
        assert set(replies.get(["8"])) == {"8"}
        with pytest.raises(sqlite3.Error, match="too big"):
            replies.get(["7"])


def test_a_link_is_not_read(path: Path, tmp_path: Path) -> None:
    path.rename(tmp_path / "private.sqlite")
    path.symlink_to(tmp_path / "private.sqlite")
    with pytest.raises(UnsafeFile, match=rf"^{path} is a link"):
        StoredReplies(path)
