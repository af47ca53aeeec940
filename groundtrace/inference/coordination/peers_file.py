"""Defines the SQLite file through which the processes of one machine coordinate their use of endpoints and budgets. The
module contains the file's tables, the function that opens the file, and the error for a file that cannot be used.
"""

import errno
import sqlite3
from pathlib import Path
from typing import Final

from groundtrace.inference.errors import RunStopped

REMEDY: Final = "{} does not respond: continue that process (kill -CONT) or end it"
VERSION: Final = 1
"""The version of the tables. It shows whether an existing file was written by another version of this code."""
SCHEMA = f"""
PRAGMA user_version = {VERSION};
CREATE TABLE IF NOT EXISTS processes (
    id TEXT PRIMARY KEY, pid INTEGER NOT NULL, is_open INTEGER NOT NULL, looks INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (
    key TEXT PRIMARY KEY, process TEXT NOT NULL REFERENCES processes ON DELETE CASCADE) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS claims_of ON claims (process);
CREATE TABLE IF NOT EXISTS slots (
    endpoint TEXT, process TEXT REFERENCES processes ON DELETE CASCADE, held INTEGER NOT NULL, wanted INTEGER NOT NULL,
    PRIMARY KEY (endpoint, process)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rates (
    endpoint TEXT PRIMARY KEY, requests_free_s REAL NOT NULL, tokens_free_s REAL NOT NULL, at_s REAL NOT NULL,
    world_s REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS budgets (
    run TEXT PRIMARY KEY, usd REAL NOT NULL, tokens INTEGER NOT NULL, is_exhausted INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reservations (
    run TEXT, process TEXT REFERENCES processes ON DELETE CASCADE, usd REAL NOT NULL, tokens INTEGER NOT NULL,
    requests INTEGER NOT NULL, PRIMARY KEY (run, process)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spenders (run TEXT, process TEXT, PRIMARY KEY (run, process)) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS lost AFTER DELETE ON reservations WHEN OLD.requests BEGIN
    UPDATE budgets SET usd = usd + OLD.usd, tokens = tokens + OLD.tokens WHERE run = OLD.run;
END;
"""


def open_file(path: Path, is_alone: bool) -> sqlite3.Connection:
    """Open the SQLite file ``path`` through which the processes of this machine coordinate, and return the connection.
    ``is_alone`` is True if no other process that uses the file is running.

    The file is needed only while processes run. So there are two cases:

    - If this process is alone, the entries of ended processes are deleted. If the file is damaged, or was written by
      another version of this code, it is replaced by an empty file.
    - If this process is not alone, the version is not checked, and the file is never replaced. Raises
      sqlite3.DatabaseError if the file is damaged.

    In both cases, sqlite3.DatabaseError is also raised if the file cannot be created.
    """
    try:
        db = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None, cached_statements=64)
        try:
            for setting in ("synchronous = OFF", "journal_mode = WAL", "foreign_keys = ON"):
                db.execute(f"PRAGMA {setting}")
            if is_alone:
                _check_version(db)
            db.executescript(SCHEMA)
            if is_alone:
                db.execute("DELETE FROM processes")
        except BaseException:
            db.close()
            raise
    except sqlite3.DatabaseError:
        if not is_alone or not path.exists():
            raise
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return open_file(path, False)
    return db


def _check_version(db: sqlite3.Connection) -> None:
    """Raise sqlite3.DatabaseError if the file was written by another version of this code."""
    if db.execute("SELECT 1 FROM sqlite_master, pragma_user_version WHERE user_version != ?", (VERSION,)).fetchone():
        raise sqlite3.DatabaseError(
            "another version of Groundtrace wrote the file peers.sqlite, and this version cannot read the file"
        )


def stopped_by(error: OSError | sqlite3.Error, folder: Path | None) -> RunStopped:
    """Return the exception that ends a run because its processes cannot coordinate in ``folder``. ``error`` is the
    cause of this exception. Its message has the reason, and what the user can do.
    """
    text = f"the processes of this reply cache cannot coordinate through the folder {folder} ({error})"
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF == sqlite3.SQLITE_BUSY:
        remedy = REMEDY.format("a process that uses this reply cache")
        return RunStopped(f"{text}: {remedy}, then repeat the command", resumable=True)
    if code == sqlite3.SQLITE_FULL or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return RunStopped(f"{text}: make room, then repeat the command", resumable=True)
    if isinstance(error, sqlite3.Error):  # the file holds nothing that was paid for
        return RunStopped(f"{text}: end all runs that use this cache, delete that folder, and repeat the command")
    return RunStopped(f"{text}: choose another --cache")
