"""Databases of a cache that a stranger has sent, with more than the tables of a cache."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from groundtrace.inference.cache.replies import ReplyCache
from groundtrace.inference.cache.stored import StoredReplies
from groundtrace.schemas.safe_files import UnsafeFile

from ..cached_replies import entry

COLUMNS = "'r' role, 'p' prompt, 'm' model, 1 max_tokens, 0.0 created_s, '{}' body, 0 tokens_in, 0 tokens_out, NULL crc"
ENDLESS = (
    "CREATE VIEW replies AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) "
    f"SELECT CAST(n AS TEXT) key, {COLUMNS} FROM c"
)
TABLE = (
    "CREATE TABLE replies (key TEXT PRIMARY KEY, role TEXT, prompt TEXT, model TEXT, max_tokens INTEGER, "
    "created_s REAL, tokens_in INTEGER, tokens_out INTEGER, crc INTEGER, body TEXT {})"
)
FOREIGN = {
    "a view": ("DROP TABLE replies", ENDLESS),
    "another view": ("CREATE VIEW other AS SELECT 1",),
    "a trigger": ("CREATE TRIGGER t AFTER INSERT ON logs BEGIN DELETE FROM replies; END",),
    "another table": ("CREATE TABLE other (x)",),
    "a virtual table": ("DROP TABLE replies", "CREATE VIRTUAL TABLE replies USING fts5(key)"),
    "a generated column": ("DROP TABLE replies", TABLE.format("AS (hex(zeroblob(100000000)))")),
    "a constraint": ("DROP TABLE replies", TABLE.format("CHECK (length(hex(zeroblob(100000000))))")),
    "an index of an expression": ("CREATE INDEX i ON replies (hex(body))",),
}  # fmt: skip


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_database_with_more_than_the_tables_of_a_cache_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "cache/replies.sqlite"
    ReplyCache(str(path)).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in FOREIGN[kind]:
            db.execute(statement)
    before = path.read_bytes()
    for opened in (lambda: StoredReplies(path), lambda: ReplyCache(str(path))):
        with pytest.raises(
            UnsafeFile,
            match=rf"^the reply cache {path} has '\w+', which is not one of Groundtrace's tables: move the file .*",
        ):
            opened()
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["replies.sqlite", "coordination/peers.sqlite"])
def test_a_journal_that_would_delete_another_file(name: str, tmp_path: Path) -> None:
    victim, path = tmp_path / "thesis.txt", tmp_path / "cache/replies.sqlite"
    victim.write_text("my own notes")
    ReplyCache(str(path)).close()
    (path.parent / name).parent.mkdir(exist_ok=True)
    named = str(victim).encode()
    sizes = len(named).to_bytes(4, "big") + sum(named).to_bytes(4, "big")
    journal = path.parent / f"{name}-journal"
    journal.write_bytes(b"x" * 28 + named + sizes + bytes.fromhex("d9d505f920a163d7"))
    StoredReplies(path).close()  # reads no journal
    said = rf"^{journal}, a file in .* Groundtrace and would make SQLite delete another file: remove {journal.name}$"
    with pytest.raises(UnsafeFile, match=said):
        ReplyCache(str(path))
    assert victim.exists()


def test_a_journal_that_a_killed_process_left(tmp_path: Path) -> None:
    path = tmp_path / "cache/replies.sqlite"
    with closing(ReplyCache(str(path))) as cache:
        cache.put([entry("a")])
    for content in (b"", b"x", b"x" * 600):  # no journal of SQLite: it is not used, and may be deleted
        path.with_name("replies.sqlite-journal").write_bytes(content)
        with closing(ReplyCache(str(path))) as cache:
            assert cache.get("a") is not None


def test_tables_of_sqlite_itself_are_no_foreign_tables(tmp_path: Path) -> None:
    path = tmp_path / "cache/replies.sqlite"
    with closing(ReplyCache(str(path))) as cache:
        cache.put([entry("a")])
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("ANALYZE")
        db.execute("ALTER TABLE replies RENAME TO x")
        db.execute("ALTER TABLE x RENAME TO replies")
    with closing(StoredReplies(path)) as stored, closing(ReplyCache(str(path))) as cache:
        assert set(stored.get(["a"])) == set(cache.get(["a"])) == {"a"}
