"""The state of ``--fresh``: replies older than the command are not used.

RUN/.fresh.json    since when replies of this folder count

The time is part of every reply's cache key, so that an earlier reply is not found, wherever it is kept: in the run
folder, in the folder of ``--cache``, or in a run beside this one. The file stays: later commands use the replies since
that time, with or without ``--fresh``. The same command again resumes a run with ``--fresh`` that did not finish or
that its budget ended; after a finished run it requests every reply anew.
"""

import datetime
import json
from pathlib import Path

from groundtrace.schemas.errors import UserError
from groundtrace.storage.files import write_atomically

FRESH = ".fresh.json"


class FreshnessError(UserError):
    """The file cannot be read, so it is unknown which replies of the folder count."""


def fresh_since(root: Path) -> str:
    """The ISO time since when the replies of the run folder count; "" if all count. Raises FreshnessError."""
    file = root / FRESH
    try:
        return datetime.datetime.fromisoformat(json.loads(file.read_text("utf-8"))["since"]).isoformat()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise FreshnessError(
            f"{file} is damaged ({type(error).__name__}): remove it; a run without --fresh then uses replies of any age"
        ) from error


def begin_fresh(root: Path) -> None:
    """Let only replies count that are requested from this moment on, unless a run with ``--fresh`` is unfinished."""
    if not is_unfinished_fresh(root):
        now = datetime.datetime.now(datetime.UTC)
        write_atomically(root / FRESH, json.dumps({"since": now.isoformat()}))


def is_unfinished_fresh(root: Path) -> bool:
    """Whether the last run with ``--fresh`` has not finished, or was ended by its budget."""
    since = fresh_since(root)
    try:
        summary = json.loads((root / "run.json").read_text("utf-8"))
        finished, budget = summary.get("fresh_since") == since, summary.get("budget") or {}
        return bool(since) and not (finished and not budget.get("used_up"))
    except (OSError, ValueError, AttributeError):  # no finished run, or none that can be read
        return bool(since)
