"""Implements ``beam cache export``: writes the replies in a reply cache (the stored replies of models) to a JSON Lines
or Parquet file, one row for each reply.
"""

import contextlib
import json
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.inference.cache.replies import LogEntry, ReplyCache
from groundtrace.pipelines.commands.cache.places import CacheCommandError, failure_of, find_cache, opened
from groundtrace.schemas.text import counted, say

ROWS_PER_GROUP = 1000
_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("key", "role", "prompt", "model")]
    + [("max_tokens", pa.int64()), ("created_s", pa.float64())]
    + [(name, pa.string()) for name in ("text", "reasoning", "finish_reason")]
    + [("tokens_in", pa.int64()), ("tokens_out", pa.int64())]
)


def export(named: str, to: str) -> int:
    """Write the stored replies of models in a cache to a file, one row each, and return the exit code, which is 0.

    ``named`` names the cache: a run folder, a cache folder, a SQLite file or a URL. ``to`` is the path of the file,
    which is written completely or not at all. Raises :class:`CacheCommandError` if the cache is not found or cannot be
    read, if ``to`` cannot be written, or if its name does not end in ``.jsonl`` or ``.parquet``.
    """
    target = Path(to)
    if target.suffix not in (".jsonl", ".parquet"):
        raise CacheCommandError(f"--to must name a .jsonl or .parquet file, got {to}")
    if target.is_dir():
        raise CacheCommandError(f"cannot write {to}: it is a folder, so name a file")
    write = _write_jsonl if target.suffix == ".jsonl" else _write_parquet
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    with opened(find_cache(named)) as cache:
        try:
            number = write(unfinished, _rows(named, cache))
            unfinished.replace(target)
        except OSError as error:
            raise CacheCommandError(
                f"cannot write {to}: {error.strerror or error}: name another file in --to"
            ) from error
        finally:
            with contextlib.suppress(OSError):
                unfinished.unlink()
    say(f"{counted(number, 'reply', 'replies')} written to {target}")
    return 0


def _rows(named: str, cache: ReplyCache) -> Iterator[dict[str, Any]]:
    """Yield one row, a dict of column names and values, for each reply in a cache.

    ``named`` is the cache as the command line names it, for the error message. Raises CacheCommandError, not OSError,
    if the cache cannot be read. The caller writes the rows to a file. So if the caller gets an OSError, this file is
    the cause.
    """
    try:
        yield from map(_row, cache.entries())
    except OSError as error:
        raise failure_of(named, error) from error


def _row(logged: LogEntry) -> dict[str, Any]:
    entry, reply = logged.entry, logged.entry.completion
    row = {name: getattr(entry, name) for name in ("key", "role", "prompt", "model", "max_tokens")}
    row["created_s"] = logged.created_s
    texts = {name: getattr(reply, name) for name in ("text", "reasoning", "finish_reason")}
    return row | texts | {"tokens_in": entry.tokens_in, "tokens_out": entry.tokens_out}


def _write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    number = 0
    with path.open("w", encoding="utf-8") as stream:
        for number, row in enumerate(rows, 1):  # noqa: B007 (the count of rows)
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    return number


def _write_parquet(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    number, group = 0, list[dict[str, Any]]()
    # Arrow's own error for a path names the unfinished file
    with path.open("wb") as stream, pq.ParquetWriter(stream, _SCHEMA, compression="zstd") as writer:
        for number, row in enumerate(rows, 1):  # noqa: B007 (the count of rows)
            group.append(row)
            if len(group) == ROWS_PER_GROUP:
                writer.write_table(pa.Table.from_pylist(group, _SCHEMA))
                group = []
        writer.write_table(pa.Table.from_pylist(group, _SCHEMA))
    return number
