"""``beam cache export``: rows that other tools read."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from groundtrace.inference.cache.replies import CacheEntry, LogEntry, ReplyCache
from groundtrace.pipelines.commands.cache.places import CacheCommandError

Command = Callable[..., int]


def expected_rows(replies: Sequence[CacheEntry]) -> list[dict[str, object]]:
    rows = []
    for e in replies:
        text = e.completion.text.replace("\ud83d", "\\ud83d")
        row = {"key": e.key, "role": e.role, "prompt": e.prompt, "model": e.model, "max_tokens": e.max_tokens}
        row |= {"text": text, "reasoning": e.completion.reasoning, "finish_reason": e.completion.finish_reason}
        rows.append(row | {"tokens_in": e.tokens_in, "tokens_out": e.tokens_out})
    return rows


def read_jsonl(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def read_parquet(path: Path) -> list[dict[str, object]]:
    return pq.read_table(path).to_pylist()


@pytest.mark.parametrize(("name", "read"), [("r.jsonl", read_jsonl), ("r.parquet", read_parquet)])
@pytest.mark.parametrize("source", ["run", "shared"])
def test_export(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    name: str,
    read: Callable[[Path], list[dict[str, object]]],
    source: str,
    command: Command,
    replies: Sequence[CacheEntry],
) -> None:
    target = tmp_path / name
    target.write_text("older")
    assert command("export", request.getfixturevalue(source), "--to", target) == 0
    rows = read(target)
    times_s = [row.pop("created_s") for row in rows]
    assert rows == expected_rows(replies)
    assert all(isinstance(each, float) and abs(each - time.time()) < 600 for each in times_s)
    query = f"SELECT sum(tokens_out), max(text) FILTER (key = 'c') FROM '{target}'"
    assert duckdb.sql(query).fetchall() == [(105, 'emoji \ufffd\n"x"')]
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    ("name", "reason"), [("missing/r.jsonl", "No such file or directory"), ("file/r.parquet", "Not a directory")]
)
def test_a_target_that_cannot_be_written(name: str, reason: str, tmp_path: Path, command: Command, run: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheCommandError) as caught:
        command("export", run, "--to", tmp_path / name)
    target = tmp_path / name
    assert str(caught.value) == f"cannot write {target}: {reason}: name another file in --to"


def test_a_cache_that_cannot_be_read(
    tmp_path: Path, command: Command, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: ReplyCache) -> Iterator[LogEntry]:
        raise OSError("the disk does not answer")

    monkeypatch.setattr(ReplyCache, "entries", broken)
    with pytest.raises(CacheCommandError, match=f"failed on the cache {run}: the disk does not answer"):
        command("export", run, "--to", tmp_path / "r.jsonl")
    assert not list(tmp_path.glob("*r.jsonl*"))
