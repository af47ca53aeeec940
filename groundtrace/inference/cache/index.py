"""Reads and writes the SQLite database of the reply cache. Log files hold a second copy of each reply.

The module defines the database's tables, imports replies from the log files into the database, detects damage, and
rebuilds a damaged database.
"""

import re
import sqlite3
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from groundtrace.inference.cache.foreign_files import check_schema
from groundtrace.inference.cache.log import (
    CacheEntry,
    LogEntries,
    LogEntry,
    decode_body,
    encode_body,
    read_log,
    stamp,
    write_log,
)
from groundtrace.storage.files import written_whole

WAL_PAGES = 8000
"""The number of pages that SQLite writes into its write-ahead log before it moves them into the main file. A large
number means fewer moves, and so fewer waits for the disk.
"""

_COLUMNS = ("key", "role", "prompt", "model", "max_tokens", "created_s", "body", "tokens_in", "tokens_out", "crc")
_FIRST_COLUMNS = _COLUMNS[:7]
_NAMES = ", ".join(_COLUMNS)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, role TEXT NOT NULL, prompt TEXT NOT NULL, model TEXT NOT NULL,
    max_tokens INTEGER NOT NULL, created_s REAL NOT NULL, body TEXT NOT NULL,
    tokens_in INTEGER NOT NULL DEFAULT 0, tokens_out INTEGER NOT NULL DEFAULT 0, crc INTEGER
) WITHOUT ROWID
"""
_LOGS = "CREATE TABLE IF NOT EXISTS logs (name TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID"

# A complete reply is never replaced by a later one. A truncated reply is replaced by a complete one, or by one with a
# larger budget. If neither of two replies is better in this sense, the cache keeps the one that was stored first, since
# it may have been used. Logs may be imported in any order, so an import keeps the older of two such replies. If their
# times are equal too, it keeps the reply whose body sorts first.
_INSERT = f"""
INSERT INTO replies ({_NAMES}) VALUES (?,?,?,?,?,?,?,?,?,?) ON CONFLICT (key) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])}
WHERE """
_BETTER = """
json_extract(body, '$.finish_reason') = 'length'
    AND (json_extract(excluded.body, '$.finish_reason') != 'length' OR excluded.max_tokens > max_tokens)
"""
_OLDER_EQUAL = """
((json_extract(body, '$.finish_reason') != 'length' AND json_extract(excluded.body, '$.finish_reason') != 'length')
    OR (json_extract(body, '$.finish_reason') = 'length' AND json_extract(excluded.body, '$.finish_reason') = 'length'
        AND excluded.max_tokens = max_tokens))
    AND (excluded.created_s, excluded.body) < (created_s, body)
"""
_PUT = _INSERT + _BETTER
_TAKE_IN = f"{_INSERT}({_BETTER}) OR ({_OLDER_EQUAL})"
_TAKEN = "INSERT INTO logs VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET bytes = excluded.bytes"
_DAMAGE_WORDS = (
    "malformed JSON",
    "Could not decode to UTF-8",
    "no such table",
    "no such column",
    "unsupported file format",
)
_LOG = re.compile(r"\d{8}T\d{12}(-\d+)?-[0-9a-f]{32}\.jsonl")
"""The form of the names of log files: those that this machine wrote, and those that it got from another machine."""
_SHORT_READ = 522  # SQLITE_IOERR_SHORT_READ

Row = tuple[str, str, str, str, int, float, str, int, int, int | None]


class Damaged(Exception):
    """Raised if the SQLite database of the cache is damaged. The message describes the damage."""


def row_of(logged: LogEntry, body: str) -> Row:
    """Return the database row for ``logged``, an entry of the reply log (one reply and its creation time). ``body`` is
    the reply of this entry as JSON text (:func:`groundtrace.inference.cache.log.encode_body`). The last column of the
    row is a checksum of the other columns.
    """
    e = logged.entry
    row = (e.key, e.role, e.prompt, e.model, e.max_tokens, logged.created_s, body, e.tokens_in, e.tokens_out)
    return (*row, _crc(row))


def logged_of(row: Row) -> LogEntry:
    """Convert a database row to a log entry. Raises :class:`Damaged` if the row does not match its checksum, or if its
    reply cannot be decoded.
    """
    key, role, prompt, model, max_tokens, created_s, body, tokens_in, tokens_out, crc = row
    if crc is not None and crc != _crc(row[:-1]):  # rows of old databases have no checksum
        raise Damaged("a cached reply does not match its checksum")
    try:
        completion = decode_body(body)
    except (ValueError, TypeError) as error:
        raise Damaged("a cached reply cannot be decoded") from error
    return LogEntry(CacheEntry(key, role, prompt, model, max_tokens, completion, tokens_in, tokens_out), created_s)


def _crc(values: tuple[object, ...]) -> int:
    return zlib.crc32(" ".join(map(str, values)).encode("utf-8", "surrogatepass"))


@contextmanager
def reporting_damage() -> Iterator[None]:
    """Convert each SQLite error that reports a damaged file to the exception :class:`Damaged`. The conversion applies
    to the body of the ``with`` statement. All other errors are raised unchanged.
    """
    try:
        yield
    except UnicodeDecodeError as error:  # sqlite3 could not even read the message, which quotes the damaged schema
        raise Damaged("the schema of the cache's database cannot be read") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None) or 0
        broken = code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or code == _SHORT_READ
        if broken or any(words in str(error) for words in _DAMAGE_WORDS):
            raise Damaged(str(error).partition(" with text ")[0]) from error  # the cut part may quote a reply
        raise


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Run the body of the ``with`` statement in a database transaction, and yield ``db``. The transaction holds the
    write lock from its beginning. It is rolled back if the body raises an exception.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def open_index(path: str, log_folder: Path | None, check: bool) -> sqlite3.Connection:
    """Open the SQLite database ``path`` and return the connection. The database is created if it does not exist, and
    converted if it has the form of an earlier version.

    ``log_folder`` is the folder of the cache's logs: files that hold a second copy of each reply. Databases of the
    first version had no logs. If such a database holds replies, they are written to a new log in ``log_folder``. If
    ``log_folder`` is None, no log is written.

    If ``check`` is True, the function also looks for two kinds of damage that SQLite does not detect when it opens a
    file:

    - The last page is truncated.
    - A process died while the database was open, and pages were damaged.

    ``check`` may be True only if no other process has the database open.

    Raises :class:`Damaged` if the database is damaged. Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if the
    database has a view, a trigger, or a table that our code does not make (:func:`check_schema`).
    """
    with reporting_damage():
        wal = Path(f"{path}-wal")
        unclean = check and wal.exists() and wal.stat().st_size > 0
        if check and not unclean:
            _check_length(Path(path))
        db = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None, cached_statements=256)
        try:
            check_schema(db, path)
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES}")
            if unclean:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                if not wal.exists() or wal.stat().st_size == 0:
                    _check_length(Path(path))
                _check_pages(db)
            _bring_up_to_date(db, log_folder)
        except BaseException:
            db.close()
            raise
        return db


def _check_length(path: Path) -> None:
    if not path.exists():
        return
    with path.open("rb") as stream:
        head = stream.read(100)
    size_bytes = path.stat().st_size
    if size_bytes == 0:
        return
    if not head.startswith(b"SQLite format 3\0") or len(head) < 100:
        raise Damaged("the cache file is not an SQLite database")
    page_bytes = int.from_bytes(head[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    if page_bytes < 512 or size_bytes % page_bytes or size_bytes < page_bytes * int.from_bytes(head[28:32], "big"):
        raise Damaged("the cache file is truncated")


def _check_pages(db: sqlite3.Connection) -> None:
    found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise Damaged(found)


def _bring_up_to_date(db: sqlite3.Connection, log_folder: Path | None) -> None:
    """Create the tables and columns that the database ``db`` does not have yet.

    Databases of the first version had no logs (files with a second copy of each reply). If ``db`` is such a database
    and holds replies, they are written to a first log in ``log_folder``. If ``log_folder`` is None, no log is written.
    """
    if _columns(db) >= set(_COLUMNS) and db.execute("SELECT 1 FROM sqlite_master WHERE name = 'logs'").fetchone():
        return
    with transaction(db):
        db.execute(_SCHEMA)
        have = _columns(db)
        if not have >= set(_FIRST_COLUMNS):
            raise Damaged("the cache file is a database of another program")
        for name, kind in (("tokens_in", "NOT NULL DEFAULT 0"), ("tokens_out", "NOT NULL DEFAULT 0"), ("crc", "")):
            if name not in have:
                db.execute(f"ALTER TABLE replies ADD COLUMN {name} INTEGER {kind}")
        db.execute(_LOGS)
        if log_folder is not None and db.execute("SELECT 1 FROM replies LIMIT 1").fetchone():
            log_folder.mkdir(parents=True, exist_ok=True)
            log = log_folder / f"{stamp()}-0-{uuid.uuid4().hex}.jsonl"
            db.execute(_TAKEN, (log.name, write_log(log, all_entries(db))))


def _columns(db: sqlite3.Connection) -> set[str]:
    return {row[1] for row in db.execute("PRAGMA table_info(replies)")}


def all_entries(db: sqlite3.Connection, after: str | None = None, limit: int = -1) -> Iterator[LogEntry]:
    """Yield the entries (replies with their keys) of the open database ``db`` in the order of their keys.

    ``after`` is a key: only entries with greater keys are yielded. If it is None, the entries start with the first key.
    ``limit`` is the largest number of entries; -1 means no limit. Raises :class:`Damaged` if an entry is damaged.
    """
    where = "" if after is None else "WHERE key > ?"
    query = f"SELECT {_NAMES} FROM replies {where} ORDER BY key LIMIT {limit}"
    with reporting_damage():
        for row in db.execute(query, () if after is None else (after,)):
            yield logged_of(row)


def find(db: sqlite3.Connection, keys: list[str]) -> list[LogEntry]:
    """Return the entries (replies with their keys) that the open database ``db`` holds for ``keys``. Keys without an
    entry are missing in the result, which has no particular order. ``keys`` must be short enough for one SQL query.
    Raises :class:`Damaged` if an entry is damaged.
    """
    with reporting_damage():
        rows = db.execute(f"SELECT {_NAMES} FROM replies WHERE key IN ({','.join('?' * len(keys))})", keys).fetchall()
    return [logged_of(row) for row in rows]


def insert(
    db: sqlite3.Connection, rows: Iterable[Row], log: str | None, taken_bytes: int, statement: str = _PUT
) -> int:
    """Insert ``rows`` into the table of replies in the open database ``db``, and return how many of them were stored. A
    row that replaces an existing row counts as stored.

    ``statement`` is the SQL statement that decides whether a row replaces an existing row with the same key. With the
    default statement, an existing complete reply is kept. An existing truncated reply is replaced by a complete reply,
    or by a reply with a larger token budget.

    If ``log`` is the name of a log file, the function also records that the first ``taken_bytes`` bytes of this file
    are imported. If ``log`` is None, nothing is recorded. Call this function inside a :func:`transaction`.
    """
    stored = db.executemany(statement, rows).rowcount
    if log is not None:
        db.execute(_TAKEN, (log, taken_bytes))
    return stored


def untaken(db: sqlite3.Connection, log_folder: Path) -> list[tuple[Path, int]]:
    """Return the log files in ``log_folder`` that must be imported into the database ``db``. A line of a log file holds
    one reply. A file must be imported if ``db`` does not have all of its lines yet.

    Each element of the result is the path of a log file, and the offset (in bytes) at which the import must start. If a
    log file is shorter than at its last import, the offset is 0, so that the whole file is imported again.
    """
    with reporting_damage():
        taken = dict(db.execute("SELECT name, bytes FROM logs"))
    found = []
    for log in logs(log_folder):
        size_bytes, taken_bytes = log.stat().st_size, taken.get(log.name, 0)
        if size_bytes != taken_bytes:
            found.append((log, taken_bytes if size_bytes > taken_bytes else 0))
    return found


def take_in(db: sqlite3.Connection, log: Path, batch: LogEntries) -> None:
    """Insert replies from a log file into the open database ``db``. ``batch`` holds some consecutive entries of this
    file, and ``log`` is the file's path. The function also records up to which byte the file is now imported. Raises
    :class:`Damaged` if the database is damaged.
    """
    rows = [row_of(logged, encode_body(logged.entry.completion)) for logged in batch.entries]
    with reporting_damage(), transaction(db):
        insert(db, rows, log.name, batch.end_bytes, _TAKE_IN)


def replace_logs(db: sqlite3.Connection, doomed: Iterable[str], log: str, taken_bytes: int) -> None:
    """Delete replies from the open database ``db``, and record that the cache now has only one log file.

    ``doomed`` holds the keys of the replies to delete. ``log`` is the name of this log file. ``taken_bytes`` is the
    number of bytes at the beginning of this log that the database already contains. Raises :class:`Damaged` if the
    database is damaged.
    """
    with reporting_damage(), transaction(db):
        db.executemany("DELETE FROM replies WHERE key = ?", ((key,) for key in doomed))
        db.execute("DELETE FROM logs")
        db.execute(_TAKEN, (log, taken_bytes))


def logs(log_folder: Path) -> list[Path]:
    """Return the paths of the log files in ``log_folder``, oldest first. A log file holds a second copy of replies.
    Files whose names are not those of log files are left out.
    """
    return sorted(log for log in log_folder.glob("*.jsonl") if _LOG.fullmatch(log.name))


def rebuild(path: Path, log_folder: Path) -> int:
    """Replace the damaged database ``path`` by a new database that is built only from the logs in ``log_folder``. The
    damaged file is renamed: its name gets the suffix ``.damaged``.

    Returns the number of replies in the new database. The caller must hold the lock that prevents other processes from
    opening the database.
    """
    with written_whole(path) as fresh:
        count = _build(fresh, log_folder)
        damaged = path.with_name(f"{path.name}.damaged")
        # SQLite's write-ahead log is moved first: otherwise it would be applied to the new file.
        Path(f"{path}-shm").unlink(missing_ok=True)
        if Path(f"{path}-wal").exists():
            Path(f"{path}-wal").replace(f"{damaged}-wal")
        if path.exists():
            path.replace(damaged)
    return count


def _build(path: Path, log_folder: Path) -> int:
    """Create a database at ``path`` from the logs in ``log_folder``, and return the number of its replies."""
    try:
        with closing(open_index(str(path), None, check=False)) as db:
            for log in logs(log_folder):
                for batch in read_log(log):
                    take_in(db, log, batch)
            return db.execute("SELECT count(*) FROM replies").fetchone()[0]
    finally:
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
