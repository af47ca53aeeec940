"""Implements ``beam cache stats``: prints the size of a reply cache (the stored replies of models), and the numbers of
replies by model, role (such as teacher) and prompt.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from groundtrace.inference.cache.index import logs
from groundtrace.inference.cache.log import LogEntry, read_log
from groundtrace.inference.cache.shared_files import SegmentFiles
from groundtrace.pipelines.commands.cache.places import Place, find_cache, opened
from groundtrace.schemas.text import printable


@dataclass
class _Figures:
    """Holds statistics of all replies in a cache: the numbers of replies, of truncated replies and of tokens.

    ``oldest_s`` and ``newest_s`` are the times of the oldest and the newest reply, in seconds since 1970. ``groups``
    has the keys ``model``, ``role`` and ``prompt``. Each value counts the replies by the name of the model, role or
    prompt, e.g. ``groups["role"]["teacher"]`` is the number of replies of the teacher.
    """

    replies: int = 0
    truncated: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    oldest_s: float = float("inf")
    newest_s: float = float("-inf")
    groups: dict[str, Counter[str]] = field(default_factory=lambda: {n: Counter() for n in ("model", "role", "prompt")})

    def add(self, logged: LogEntry) -> None:
        entry = logged.entry
        self.replies += 1
        self.truncated += entry.completion.finish_reason == "length"
        self.tokens_in += entry.tokens_in
        self.tokens_out += entry.tokens_out
        self.oldest_s, self.newest_s = min(self.oldest_s, logged.created_s), max(self.newest_s, logged.created_s)
        for name, counts in self.groups.items():
            counts[getattr(entry, name)] += 1


def print_stats(named: str) -> int:
    """Print the size, the age, and the numbers of replies and tokens of a reply cache; return the exit code, 0.

    A reply cache holds the stored replies of models. The numbers of replies are also printed for each model, role (such
    as teacher) and prompt. ``named`` is the cache as the command line names it: a run folder, a cache folder, a SQLite
    file or a URL. Raises :class:`groundtrace.pipelines.commands.cache.places.CacheCommandError` if the cache is not
    found.
    """
    place, figures = find_cache(named), _Figures()
    with opened(place) as cache:
        for logged in cache.entries():
            figures.add(logged)
        damaged = sum(batch.damaged for log in logs(cache.log_folder) for batch in read_log(log))
    facts = [("cache", str(place)), *_sizes(place)]
    facts += [("replies", f"{figures.replies:,}"), ("truncated", f"{figures.truncated:,}")]
    facts += [("tokens in", f"{figures.tokens_in:,}"), ("tokens out", f"{figures.tokens_out:,}")]
    if figures.replies:
        facts += [("oldest", _date(figures.oldest_s)), ("newest", _date(figures.newest_s))]
    facts.append(("damaged lines", str(damaged)))
    _print(facts, figures)
    return 0


def _sizes(place: Place) -> list[tuple[str, str]]:
    """Return the lines on the size of the cache, as pairs of name and value. All caches have the line "bytes". A shared
    cache also has lines with the number of its files (segments) and of other files in its folder.
    """
    if place.location:
        sizes, foreign = SegmentFiles(place.location).sizes_bytes()
        total = f"{sum(sizes.values()):,}"
        return [("bytes", total), ("segments", str(len(sizes))), ("other files", str(foreign))]
    file = Path(place.path)
    held = [*file.parent.glob(f"{file.name}*"), *logs(file.parent / "log")]
    return [("bytes", f"{sum(path.stat().st_size for path in held):,}")]


def _print(facts: Iterable[tuple[str, str]], figures: _Figures) -> None:
    console = Console() if sys.stdout.isatty() else Console(file=sys.stdout, width=10_000, color_system=None)
    for name, value in facts:
        console.print(Text(f"{name}: {printable(value)}"), soft_wrap=True)
    for name, counts in figures.groups.items():
        if not counts:
            continue
        table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
        table.add_column(name)
        table.add_column("replies", justify="right")
        for value, number in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            table.add_row(Text(printable(value)), str(number))
        console.print()
        console.print(table)


def _date(time_s: float) -> str:
    try:
        return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{time_s} s"
