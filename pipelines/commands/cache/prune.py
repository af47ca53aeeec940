"""Implements ``beam cache prune``: permanently removes replies from a reply cache (the stored replies of models).

A reply is removed if it matches all given filters.
"""

import argparse
import re
import time
from collections.abc import Callable

from groundtrace.inference.cache.replies import CacheInUse, LogEntry, ReplyCache
from groundtrace.inference.cache.shared import local_folder_of, prune_segments
from groundtrace.pipelines.commands.cache.places import CacheCommandError, find_cache, opened
from groundtrace.schemas.text import counted, say

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def prune(parsed: argparse.Namespace) -> int:
    """Remove the replies that match all given filters from a reply cache, and return the exit code, which is 0.

    A reply cache holds the stored replies of models. With ``--dry-run``, the replies are only counted. ``parsed`` holds
    the parsed arguments of the command line. Raises :class:`CacheCommandError` if no filter is given, or if the cache
    is not found or is in use.
    """
    keep = _keeper(parsed)
    place = find_cache(parsed.cache)
    if parsed.dry_run:
        with opened(place) as cache:
            dropped = sum(not keep(logged) for logged in cache.entries())
        say(f"{counted(dropped, 'reply', 'replies')} would be dropped from {place}")
        return 0
    try:
        if place.location:
            dropped = prune_segments(place.location, str(local_folder_of(place.location)), keep)
        else:
            cache = ReplyCache(place.path, exclusive=True)
            try:
                dropped = cache.rewrite(keep)
            finally:
                cache.close()
    except CacheInUse as error:
        raise CacheCommandError(
            f"cannot remove replies from {place}, because another process has this cache open: wait until that process "
            "has ended, and repeat the command"
        ) from error
    say(f"{counted(dropped, 'reply', 'replies')} dropped from {place}")
    return 0


def _keeper(parsed: argparse.Namespace) -> Callable[[LogEntry], bool]:
    """Return a function that decides whether a reply is kept.

    The function returns False if all given filters match the reply, which is then removed; otherwise it returns True.
    The filters are the options ``--older-than``, ``--model``, ``--prompt`` and ``--truncated`` in ``parsed``. Raises
    :class:`CacheCommandError` if no filter is given, or if the age of ``--older-than`` is not valid.
    """
    filters: list[Callable[[LogEntry], bool]] = []
    if parsed.older_than is not None:
        before_s = time.time() - age_s(parsed.older_than)
        filters.append(lambda logged: logged.created_s < before_s)
    if parsed.model is not None:
        filters.append(lambda logged: logged.entry.model == parsed.model)
    if parsed.prompt is not None:
        filters.append(lambda logged: logged.entry.prompt == parsed.prompt)
    if parsed.truncated:
        filters.append(lambda logged: logged.entry.completion.finish_reason == "length")
    if not filters:
        raise CacheCommandError(
            "prune needs --older-than, --model, --prompt or --truncated, to choose the replies to remove"
        )
    return lambda logged: not all(fits(logged) for fits in filters)


def age_s(text: str) -> float:
    """Return an age as a number of seconds, e.g. ``30d`` → 2592000.0.

    ``text`` is a number and a unit: s, m, h, d (days) or w (weeks). Raises :class:`CacheCommandError` for other texts.
    """
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([smhdw])", text, re.ASCII)
    if found is None:
        raise CacheCommandError(f"--older-than must be an age such as 30d, 12h or 2w, got {text!r}")
    return float(found[1]) * _UNITS_S[found[2]]
