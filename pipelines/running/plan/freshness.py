"""Stores the time of ``--fresh``. This option makes a run ignore stored replies of models that are older than the
command.

The file RUN/.fresh.json holds the time, where RUN is the run folder (the output folder of a pipeline's runs). Only
replies since that time are used in this run folder.

The time is part of every reply's cache key. So an earlier reply is not found in any cache: neither in the run folder,
nor in the folder of ``--cache``, nor in another run folder beside this one.

The file stays after the run. A later command without ``--fresh`` keeps the time, and uses the replies since then. A
later command with ``--fresh`` sets a new time, and thus requests all replies anew. There is one exception: if the last
run with ``--fresh`` did not finish, or its budget ended it, the time stays, and the command resumes that run. But if
that run failed because replies were unusable, a new time is set.
"""

import datetime
import json
from pathlib import Path

from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import own_file, read_json
from groundtrace.storage.files import write_atomically

FRESH = ".fresh.json"


class FreshnessError(UserError):
    """Raised if the file ``.fresh.json`` in the run folder cannot be read. This file holds a time: stored replies of
    models that are older than this time are not used.
    """


def fresh_since(root: Path) -> str:
    """Return the time that ``--fresh`` set for a run folder, as ISO text; "" if the run folder has no such time.

    A run in this folder does not use a stored reply of a model if the reply is older than this time. Without such a
    time, the run uses replies of any age. ``root`` is the run folder RUN (the output folder of a pipeline's runs).
    Raises FreshnessError if the file ``.fresh.json`` in the run folder is damaged.
    """
    file = own_file(root, FRESH)
    try:
        return datetime.datetime.fromisoformat(read_json(file)["since"]).isoformat()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise FreshnessError(
            f"{file} is damaged ({type(error).__name__}): remove this file, which holds the time of the last --fresh. "
            "Add --fresh again if the run must not use old stored replies"
        ) from error


def begin_fresh(root: Path) -> None:
    """Write the present time into ``.fresh.json`` in the run folder, so that only models' replies since this time are
    used.

    ``root`` is the run folder. If the last run with ``--fresh`` in this folder did not finish, or its budget ended it,
    the file keeps the time of that run. The new run then resumes that run, and uses its replies. Raises FreshnessError
    if the file is damaged.
    """
    if not is_unfinished_fresh(root):
        now = datetime.datetime.now(datetime.UTC)
        write_atomically(root / FRESH, json.dumps({"since": now.isoformat()}))


def end_fresh(root: Path) -> None:
    """Record that the last run with ``--fresh`` in the run folder ``root`` failed because replies were unusable.

    The next run with ``--fresh`` then requests all replies anew. Nothing is done if no run had ``--fresh``. Raises
    FreshnessError if the file ``.fresh.json`` in the run folder is damaged.
    """
    if since := fresh_since(root):
        write_atomically(root / FRESH, json.dumps({"since": since, "has_failed": True}))


def is_unfinished_fresh(root: Path) -> bool:
    """Return whether the last run with ``--fresh`` in a run folder is unfinished, or was ended by its budget.

    A run with this option ignores older stored replies of models. A run that failed because replies were unusable
    (:func:`end_fresh`) does not count as unfinished. ``root`` is the run folder. The result is False if no run had
    ``--fresh``. Raises FreshnessError if the file ``.fresh.json`` in the run folder is damaged.
    """
    since = fresh_since(root)
    if since and read_json(root / FRESH).get("has_failed"):
        return False
    try:
        summary = read_json(root / "run.json")
        finished, budget = summary.get("fresh_since") == since, summary.get("budget") or {}
        return bool(since) and not (finished and not budget.get("used_up"))
    except (OSError, ValueError, AttributeError):  # no finished run, or none that can be read
        return bool(since)
