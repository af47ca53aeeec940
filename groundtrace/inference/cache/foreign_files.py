"""Checks the SQLite database of a reply cache before the first query, because another person may have sent the file.

Such a database can hold code of its sender. For example, a table can be replaced by a view whose rows never end, and
triggers and generated columns are computed when rows are written or read. Beside the database, there can be a journal
that makes SQLite delete another file.
"""

import re
import sqlite3
from pathlib import Path

from groundtrace.schemas.safe_files import UnsafeFile

_OWN = re.compile(r"""CREATE TABLE (IF NOT EXISTS )?["'`\[]?(replies|logs|sqlite_\w+)["'`\]]?\s*\(.*""", re.DOTALL)
"""Matches the SQL statements that create the tables of a cache, or SQLite's own tables such as ``sqlite_stat1``. A
database with any other statement is rejected.
"""
_COMPUTED = re.compile(r"\b(AS|CHECK)\b", re.IGNORECASE)
"""Matches the SQL words that begin the expression of a generated column or of a constraint. A table with such a word is
rejected, since the tables of a cache have neither.
"""

_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a journal that names another file, the super-journal of a transaction on several databases."""


def check_journal(journal: Path) -> None:
    """Check that the rollback journal of a database does not name another file.

    A killed process may leave a journal. When the database is opened next, SQLite uses the journal to restore the
    database. If the journal names a super-journal (another file), SQLite deletes that file, whatever its path is. A
    cache has only one database, so a journal that SQLite wrote for it never names a super-journal. A missing journal is
    accepted. Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if the journal names another file, and OSError
    if the journal cannot be read.
    """
    try:
        with journal.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(size - len(_JOURNAL_MAGIC), 0))
            end = stream.read()
    except (FileNotFoundError, NotADirectoryError):  # the caller finds a file in place of the folder when it writes
        return
    if size >= 2 * len(_JOURNAL_MAGIC) and end == _JOURNAL_MAGIC:
        raise UnsafeFile(
            f"{journal}, a file in the folder of the reply cache, does not come from Groundtrace and would make SQLite "
            f"delete another file: remove {journal.name}"
        )


def check_schema(db: sqlite3.Connection, path: str) -> None:
    """Check that a reply cache (the stored replies of models) has only tables that our code makes.

    ``db`` is the open database. ``path`` is its file, which the error message names. Only SQLite's list of tables
    (``sqlite_master``) is read, and no code of the database is executed.

    Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if the database has one of these:

    - a view or a trigger;
    - a table that neither our code nor SQLite itself makes;
    - an index that an SQL statement (``CREATE INDEX``) made, not SQLite itself;
    - a table with computed columns or with a ``CHECK`` constraint.

    Raises sqlite3.Error if the file cannot be read.
    """
    db.execute("PRAGMA trusted_schema=OFF")
    for name, sql in db.execute("SELECT name, sql FROM sqlite_master"):
        # The column "type" is not needed: the statement states it. Indices of SQLite itself have no statement.
        if sql is not None and (not _OWN.fullmatch(str(sql)) or _COMPUTED.search(str(sql))):
            raise UnsafeFile(
                f"the reply cache {path} has {str(name)[:60]!r}, which is not one of Groundtrace's tables: move the "
                f"file {path} away. The next run makes a new one from the replies in {Path(path).parent / 'log'}"
            )
