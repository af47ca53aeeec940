"""Run folders whose replies are to be no older than a command: what ``--fresh`` asks for.

RUN/.fresh.json    since when replies of this folder count

The time is part of every reply's key, so that no earlier reply is found, wherever it is kept: in the run folder, in the
folder of ``--cache``, or in a run beside this one. It stays: later commands find what came since, with or without
``--fresh``. The same command again goes on where a run with ``--fresh`` did not finish, or its budget ended it; behind
a finished one it asks for everything anew.
"""

import datetime
import json
from pathlib import Path

from groundtrace.schemas.errors import UserError
from groundtrace.schemas.files import write_atomically

FRESH = ".fresh.json"


class FreshnessError(UserError):
    """The file cannot be read: nobody knows which replies of the folder count."""


def fresh_since(root: Path) -> str:
    """Since when the replies of the run folder count, as an ISO time; "" where all do. Raises FreshnessError."""
    file = root / FRESH
    try:
        return datetime.datetime.fromisoformat(json.loads(file.read_text("utf-8"))["since"]).isoformat()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise FreshnessError(
            f"{file} is damaged ({type(error).__name__}): remove it; without --fresh, replies of any age are then used"
        ) from error


def begin_fresh(root: Path) -> None:
    """From now on replies count that are asked for from now on, unless a run that was begun so has not finished."""
    if not is_unfinished_fresh(root):
        now = datetime.datetime.now(datetime.UTC)
        write_atomically(root / FRESH, json.dumps({"since": now.isoformat()}))


def is_unfinished_fresh(root: Path) -> bool:
    """Whether the run that was last begun with ``--fresh`` has not finished, or was ended by its budget."""
    since = fresh_since(root)
    try:
        told = json.loads((root / "run.json").read_text("utf-8"))
        finished, budget = told.get("fresh_since") == since, told.get("budget") or {}
        return bool(since) and not (finished and not budget.get("used_up"))
    except (OSError, ValueError, AttributeError):  # no finished run, or none that can be read
        return bool(since)
