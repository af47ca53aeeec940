"""``beam cache``: what a reply cache holds, dropping replies from it, and exporting them as rows.

A cache is named by a run folder, its cache folder, its SQLite file, or the remote location of a shared cache.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inference.cache.index import Damaged, logs
from inference.cache.log import read_log
from inference.cache.replies import CacheInUse, Logged, ReplyCache
from inference.cache.shared import gathered, local_folder_of, prune_segments, shared_location
from inference.cache.shared_files import SegmentFiles
from schemas.errors import UserError
from schemas.text import counted, storable

EXAMPLES = """examples:
  beam cache stats runs/sample
  beam cache prune runs/sample --older-than 30d --model old-model --dry-run
  beam cache export runs/sample --to replies.parquet
"""
ROWS_PER_GROUP = 1000
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("key", "role", "prompt", "model")]
    + [("max_tokens", pa.int64()), ("created_s", pa.float64())]
    + [(name, pa.string()) for name in ("text", "reasoning", "finish_reason")]
    + [("tokens_in", pa.int64()), ("tokens_out", pa.int64())]
)


class CacheCommandError(UserError):
    """A mistake in the command, or a cache that cannot be used; the message is one line."""


@dataclass(frozen=True)
class _Place:
    """A cache: a SQLite file on this machine, or the location of segments."""

    path: str = ""
    location: str = ""

    def __str__(self) -> str:
        return self.path or self.location


@dataclass
class _Figures:
    """What ``stats`` adds up."""

    replies: int = 0
    truncated: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    oldest_s: float = float("inf")
    newest_s: float = float("-inf")
    groups: dict[str, Counter[str]] = field(default_factory=lambda: {n: Counter() for n in ("model", "role", "prompt")})

    def add(self, logged: Logged) -> None:
        entry = logged.entry
        self.replies += 1
        self.truncated += entry.completion.finish_reason == "length"
        self.tokens_in += entry.tokens_in
        self.tokens_out += entry.tokens_out
        self.oldest_s, self.newest_s = min(self.oldest_s, logged.created_s), max(self.newest_s, logged.created_s)
        for name, counts in self.groups.items():
            counts[getattr(entry, name)] += 1


def add_cache_parser(commands: Any) -> None:
    """Add ``cache`` to the subparsers of the ``beam`` command."""
    cache = commands.add_parser(
        "cache",
        help="look into a reply cache, prune or export it",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    actions = cache.add_subparsers(dest="action", required=True, metavar="ACTION")
    stats = actions.add_parser("stats", help="what the cache holds", allow_abbrev=False)
    prune = actions.add_parser("prune", help="drop the replies that every given filter fits", allow_abbrev=False)
    export = actions.add_parser("export", help="write one row for each reply", allow_abbrev=False)
    for action in (stats, prune, export):
        action.add_argument("cache", metavar="CACHE_OR_RUN", help="a run, its cache folder or file, or a location")
        action.add_argument("--verbose", action="store_true", default=argparse.SUPPRESS, help="show where errors are")
    prune.add_argument("--older-than", metavar="AGE", help="such as 30d, 12h or 2w")
    prune.add_argument("--model", metavar="M", help="replies of this model")
    prune.add_argument("--prompt", metavar="P", help="replies to this prompt, such as judge_answer.v1")
    prune.add_argument("--truncated", action="store_true", help="replies that the budget of tokens cut off")
    prune.add_argument("--dry-run", action="store_true", help="only say how many")
    export.add_argument("--to", required=True, metavar="FILE", help="a .jsonl or .parquet file")


def run_cache(parsed: argparse.Namespace) -> int:
    """Do what ``beam cache`` was asked to. Raises :class:`CacheCommandError` for a user's mistake."""
    actions = {"stats": _stats, "prune": _prune, "export": _export}
    try:
        return actions[parsed.action](parsed)
    except (OSError, sqlite3.Error, Damaged) as error:
        raise CacheCommandError(f"{parsed.cache}: {' '.join(str(error).split())}") from error


def find_cache(named: str) -> _Place:
    """The cache that a command line names. Raises :class:`CacheCommandError` when there is none."""
    if "://" in named:
        location = (shared_location(named) or named) if named.endswith(".sqlite") else named.rstrip("/")
        for each in (location, f"{location}/cache"):
            if _has_segments(each):
                return _Place(location=each)
    path = Path(named)
    folders = [path.parent] if path.suffix == ".sqlite" and not path.is_dir() else [path, path / "cache"]
    for folder in folders:
        file = path if folder == path.parent else folder / "replies.sqlite"
        if file.is_file() or (folder / "log").is_dir():
            return _Place(path=str(file))
        if (folder / "segments").is_dir():
            return _Place(location=str(folder.resolve()))
    raise CacheCommandError(f"there is no reply cache at {named}: name a run folder, a cache folder or its file")


def _has_segments(location: str) -> bool:
    try:
        return bool(SegmentFiles(location).sizes_bytes()[0])
    except ValueError as error:
        raise CacheCommandError(str(error)) from error


@contextlib.contextmanager
def _opened(place: _Place) -> Iterator[ReplyCache]:
    if place.location:
        with gathered(SegmentFiles(place.location)) as (cache, _, _):
            yield cache
        return
    with contextlib.ExitStack() as stack:
        cache = ReplyCache(stack.enter_context(_writable(Path(place.path))))
        stack.callback(cache.close)
        yield cache


@contextlib.contextmanager
def _writable(file: Path) -> Iterator[str]:
    """The cache's file, or where it may not be written one in a copy: a cache takes in its logs when it is opened."""
    log, lock = file.parent / "log", file.parent / ".cache.lock"
    stores = sorted(file.parent.glob(f"{file.name}*"))
    if all(os.access(path, os.W_OK) for path in (file.parent, log, lock, *stores) if path.exists()):
        yield str(file)
        return
    with tempfile.TemporaryDirectory(prefix="groundtrace-cache-") as folder:
        for store in stores:
            shutil.copy(store, folder)
        if log.is_dir():
            shutil.copytree(log, Path(folder) / log.name)
        for copied in Path(folder).rglob("*"):
            copied.chmod(0o700)
        yield str(Path(folder) / file.name)


def _stats(parsed: argparse.Namespace) -> int:
    place, figures = find_cache(parsed.cache), _Figures()
    facts: list[tuple[str, str]] = [("cache", str(place))]
    with _opened(place) as cache:
        for logged in cache.entries():
            figures.add(logged)
        damaged = sum(batch.damaged for log in logs(cache.log_folder) for batch in read_log(log))
    if place.location:
        sizes, foreign = SegmentFiles(place.location).sizes_bytes()
        facts += [("bytes", f"{sum(sizes.values()):,}"), ("segments", str(len(sizes))), ("other files", str(foreign))]
    else:
        file = Path(place.path)
        held = [*file.parent.glob(f"{file.name}*"), *logs(file.parent / "log")]
        facts.append(("bytes", f"{sum(path.stat().st_size for path in held):,}"))
    facts += [("replies", f"{figures.replies:,}"), ("truncated", f"{figures.truncated:,}")]
    facts += [("tokens in", f"{figures.tokens_in:,}"), ("tokens out", f"{figures.tokens_out:,}")]
    if figures.replies:
        facts += [("oldest", _date(figures.oldest_s)), ("newest", _date(figures.newest_s))]
    facts.append(("damaged lines", str(damaged)))
    _print(facts, figures)
    return 0


def _print(facts: Iterable[tuple[str, str]], figures: _Figures) -> None:
    console = Console() if sys.stdout.isatty() else Console(file=sys.stdout, width=10_000, color_system=None)
    for name, value in facts:
        console.print(Text(f"{name}: {_printable(value)}"), soft_wrap=True)
    for name, counts in figures.groups.items():
        if not counts:
            continue
        table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
        table.add_column(name)
        table.add_column("replies", justify="right")
        for value, number in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            table.add_row(Text(_printable(value)), str(number))
        console.print()
        console.print(table)


def _printable(text: str) -> str:
    """Text without anything that a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _date(time_s: float) -> str:
    try:
        return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{time_s} s"


def _prune(parsed: argparse.Namespace) -> int:
    keep = _keeper(parsed)
    place = find_cache(parsed.cache)
    if parsed.dry_run:
        with _opened(place) as cache:
            dropped = sum(not keep(logged) for logged in cache.entries())
        print(f"{counted(dropped, 'reply', 'replies')} would be dropped from {place}")
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
        raise CacheCommandError(f"{error}: prune when it has ended") from error
    print(f"{counted(dropped, 'reply', 'replies')} dropped from {place}")
    return 0


def _keeper(parsed: argparse.Namespace) -> Callable[[Logged], bool]:
    """Whether a reply stays: it does when one of the given filters does not fit it."""
    filters: list[Callable[[Logged], bool]] = []
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
        raise CacheCommandError("prune needs --older-than, --model, --prompt or --truncated")
    return lambda logged: not all(fits(logged) for fits in filters)


def age_s(text: str) -> float:
    """The seconds in an age such as ``30d``. Raises :class:`CacheCommandError`."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([smhdw])", text, re.ASCII)
    if found is None:
        raise CacheCommandError(f"--older-than takes an age such as 30d, 12h or 2w, got {text!r}")
    return float(found[1]) * _UNITS_S[found[2]]


def _export(parsed: argparse.Namespace) -> int:
    target = Path(parsed.to)
    if target.suffix not in (".jsonl", ".parquet"):
        raise CacheCommandError(f"--to takes a .jsonl or a .parquet file, got {parsed.to}")
    if target.is_dir():
        raise CacheCommandError(f"cannot write {parsed.to}: it is a folder")
    write = _write_jsonl if target.suffix == ".jsonl" else _write_parquet
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    with _opened(find_cache(parsed.cache)) as cache:
        try:
            number = write(unfinished, (_row(logged) for logged in cache.entries()))
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    print(f"{counted(number, 'reply', 'replies')} written to {target}")
    return 0


def _row(logged: Logged) -> dict[str, Any]:
    entry, reply = logged.entry, logged.entry.completion
    row = {name: getattr(entry, name) for name in ("key", "role", "prompt", "model", "max_tokens")}
    row["created_s"] = logged.created_s
    texts = {name: storable(getattr(reply, name)) for name in ("text", "reasoning", "finish_reason")}
    return row | texts | {"tokens_in": entry.tokens_in, "tokens_out": entry.tokens_out}


def _write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    number = 0
    with path.open("w", encoding="utf-8") as stream:
        for number, row in enumerate(rows, 1):  # noqa: B007 (the count of rows)
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    return number


def _write_parquet(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    number, group = 0, list[dict[str, Any]]()
    with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
        for number, row in enumerate(rows, 1):  # noqa: B007 (the count of rows)
            group.append(row)
            if len(group) == ROWS_PER_GROUP:
                writer.write_table(pa.Table.from_pylist(group, _SCHEMA))
                group = []
        writer.write_table(pa.Table.from_pylist(group, _SCHEMA))
    return number
