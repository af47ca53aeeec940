"""Reads the model replies with which a record was made, for the page of ``beam view``.

The replies are read from the cache in the run folder, or from the cache that the option ``--cache`` names. The cache is
not changed.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from groundtrace.inference.cache.index import Damaged
from groundtrace.inference.cache.log import LogEntry
from groundtrace.inference.cache.stored import StoredReplies
from groundtrace.inference.request import fresh_key
from groundtrace.publishing.reading import InspectError
from groundtrace.schemas.safe_files import own_file

FILE = "replies.sqlite"
CACHE = Path("cache") / FILE
"""The path of the cache of model replies, relative to the run folder."""
MAX_REPLIES = 200
"""The maximum number of replies of one record that are read."""
MAX_CHARS = 20_000
"""The maximum number of characters that the page shows of one reply."""


def keys_of(row: Mapping[str, Any]) -> list[str]:
    """Return the cache keys of the replies with which a row was made, at most :data:`MAX_REPLIES`.

    A kept row has the keys in the column ``lineage``. A rejected record has one key in the column ``cache_key``: that
    of the reply that led to the rejection.
    """
    keys = [
        *((row.get("lineage") or {}).get("cache_keys") or []),
        *([row["cache_key"]] if row.get("cache_key") else []),
    ]
    return list(dict.fromkeys(keys))[:MAX_REPLIES]


def cache_file(run: Path, cache: Path | None = None) -> Path:
    """Return the path of the file with the replies of the run in the folder ``run``.

    ``cache`` is the folder that the user named with ``--cache``; None for the cache in the run folder. Raises
    InspectError if there is no such file. Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if the file of the
    cache is a link, or if its folder is a link out of the run folder.
    """
    file = own_file(run, str(CACHE)) if cache is None else own_file(cache, FILE)
    if not file.is_file():
        raise InspectError(
            f"there is no file {file} with the replies of this run: if the run used another cache (--cache), give "
            "`beam view` the same --cache; otherwise, copy the run's folder `cache` back to its place"
        )
    return file


def read_replies(run: Path, keys: Sequence[str], cache: Path | None = None) -> list[dict[str, Any]]:
    """Return the replies with these cache keys, ready for JSON, in the order in which they were made.

    ``run`` and ``cache`` are the arguments of :func:`cache_file`, which raises errors for a missing or unsafe file.
    Replies that the cache does not hold are left out. The cache is opened with SQLite's option ``immutable``. With this
    option, SQLite creates no files of its own beside the cache, and expects that no process changes the cache.

    Raises InspectError if the cache cannot be read. Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if its
    database has other tables than those of a cache.
    """
    file = cache_file(run, cache)
    try:
        with closing(StoredReplies(file)) as stored:
            found = sorted(stored.entries(keys), key=lambda each: each.entry.completion.made_s or each.created_s)
        return [_shown(each) for each in found]
    except (sqlite3.Error, Damaged, ValueError, TypeError, OverflowError, OSError) as error:
        raise InspectError(
            f"the replies in {file} cannot be read ({' '.join(str(error).split())}): make the file readable, or, if "
            f"it is damaged, run `beam cache stats {cache or run}`, which repairs it"
        ) from error


def with_replies(
    run: Path, calls: Sequence[Mapping[str, Any]], fresh_since: str, cache: Path | None = None
) -> list[dict[str, Any]]:
    """Return the calls of a replay, each with the field ``replies``: its stored replies, ready for JSON.

    Only the first :data:`MAX_REPLIES` replies of all calls together are read. ``run`` and ``cache`` are the arguments
    of :func:`cache_file`. The field ``stored`` of a call holds the cache keys of its stored replies
    (:func:`groundtrace.inference.request_log.log_request`).

    ``fresh_since`` is the time that the option ``--fresh`` set, from the run's summary; "" for a run without this
    option. With ``--fresh``, the run stored each reply under a key that is computed from the normal key and this time
    (:func:`groundtrace.inference.request.fresh_key`). So the keys in ``stored`` are first converted to such keys.

    Raises InspectError or UnsafeFile in the same cases as :func:`read_replies`.
    """
    stored = {key: fresh_key(key, fresh_since) for call in calls for key in call["stored"]}
    found = {each["key"]: each for each in read_replies(run, list(stored.values())[:MAX_REPLIES], cache)}
    return [
        {**call, "replies": [found[stored[key]] for key in call["stored"] if stored[key] in found]} for call in calls
    ]


def times_of(logged: LogEntry) -> dict[str, str | None]:
    """Return when the model made a stored reply, as a dict with three fields, ready for JSON.

    ``created`` is the time at which the model made the reply. It is None for a reply that an earlier version of the
    code copied from another run, because that version did not store this time. If the reply was copied from the cache
    of another run, ``taken_from`` is the name of that run, and ``taken_at`` is the time of the copy. Otherwise
    ``taken_from`` and ``taken_at`` are "". Raises ValueError, OverflowError or OSError for a time that is not a
    possible date.
    """
    completion = logged.entry.completion
    if not completion.taken_from:
        return {"created": _iso(logged.created_s), "taken_from": "", "taken_at": ""}
    made = _iso(completion.made_s) if completion.made_s else None
    return {"created": made, "taken_from": completion.taken_from, "taken_at": _iso(logged.created_s)}


def _iso(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="seconds")


def _shown(logged: LogEntry) -> dict[str, Any]:
    entry, completion = logged.entry, logged.entry.completion
    made = {name: getattr(entry, name) for name in ("key", "role", "prompt", "model", "tokens_in", "tokens_out")}
    made |= {"text": completion.text[:MAX_CHARS], "reasoning": completion.reasoning[:MAX_CHARS]}
    made |= {"is_shortened": max(len(completion.text), len(completion.reasoning)) > MAX_CHARS}
    return made | {"finish_reason": completion.finish_reason} | times_of(logged)
