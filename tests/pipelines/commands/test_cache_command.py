"""``beam cache``: figures, pruning that lasts, and rows that other tools read."""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from inference.cache.replies import CacheEntry, ReplyCache
from inference.cache.shared import SegmentStore, local_folder_of
from inference.request import Completion
from pipelines.commands.cache_command import CacheCommandError, add_cache_parser, age_s, run_cache

REPLIES = [
    CacheEntry("a", "policy", "attempt.v1", "small", 100, Completion("three", "because"), 30, 4),
    CacheEntry("b", "policy", "attempt.v1", "small", 100, Completion("cut o", "", "length"), 30, 100),
    CacheEntry("c", "judge", "judge.v1", "large", 50, Completion('emoji \ud83d\n"x"', ""), 7, 1),
]


def command(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    add_cache_parser(parser.add_subparsers(dest="command"))
    return run_cache(parser.parse_args(["cache", *map(str, arguments)]))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with a cache of three replies."""
    cache = ReplyCache(str(tmp_path / "run/cache/replies.sqlite"))
    cache.put(REPLIES)
    cache.close()
    return tmp_path / "run"


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A location with the same replies in segments."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    location = tmp_path / "shared"
    store = SegmentStore(str(location), str(local_folder_of(str(location))))
    store.put(REPLIES)
    store.close()
    return location


def keys(run: Path) -> set[str]:
    cache = ReplyCache(str(run / "cache/replies.sqlite"))
    found = {logged.entry.key for logged in cache.entries()}
    cache.close()
    return found


@pytest.mark.parametrize("named", ["", "cache", "cache/replies.sqlite"])
def test_stats(run: Path, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    [log] = (run / "cache/log").iterdir()
    log.write_bytes(log.read_bytes() + b"torn")
    assert command("stats", run / named) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for line in ("replies: 3", "truncated: 1", "tokens in: 67", "tokens out: 105", "damaged lines: 1"):
        assert line.split() in lines
    for name, number in (("small", 2), ("large", 1), ("policy", 2), ("judge.v1", 1)):
        assert [name, str(number)] in lines


def test_a_cache_that_may_not_be_written_is_read(
    run: Path, tmp_path: Path, make_read_only: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    make_read_only(run)
    assert command("stats", run) == 0
    assert "replies: 3\n" in capsys.readouterr().out
    assert command("prune", run, "--truncated", "--dry-run") == 0
    assert "1 reply would be dropped" in capsys.readouterr().out
    assert command("export", run, "--to", tmp_path / "replies.jsonl") == 0
    assert len((tmp_path / "replies.jsonl").read_text("utf-8").splitlines()) == 3
    with pytest.raises(CacheCommandError):
        command("prune", run, "--truncated")


def test_stats_of_an_empty_cache_and_of_segments(
    tmp_path: Path, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ReplyCache(str(tmp_path / "c/replies.sqlite")).close()
    assert command("stats", tmp_path / "c") == 0
    assert "replies: 0\n" in capsys.readouterr().out
    assert command("stats", shared) == 0
    printed = capsys.readouterr().out
    assert "segments: 1\n" in printed
    assert "replies: 3\n" in printed


def test_a_name_that_would_drive_the_terminal_is_spelt_out(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = ReplyCache(str(run / "cache/replies.sqlite"))
    cache.put([CacheEntry("d", "policy", "[bold]p", "\x1b[2J", 1, Completion(""))])
    cache.close()
    command("stats", run)
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "[bold]p" in printed


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        (["--model", "small"], {"c"}),
        (["--prompt", "judge.v1"], {"a", "b"}),
        (["--truncated"], {"a", "c"}),
        (["--model", "large", "--truncated"], {"a", "b", "c"}),
        (["--older-than", "0s"], set()),
        (["--older-than", "1h"], {"a", "b", "c"}),
        (["--older-than", "0.000001s", "--model", "large"], {"a", "b"}),
    ],
)
def test_prune_lasts_when_the_database_is_rebuilt(run: Path, filters: list[str], left: set[str]) -> None:
    assert command("prune", run, *filters, "--dry-run") == 0
    assert keys(run) == {"a", "b", "c"}
    assert command("prune", run, *filters) == 0
    assert keys(run) == left
    (run / "cache/replies.sqlite").write_bytes(b"damaged")
    assert keys(run) == left


def test_prune_tells_how_many(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("prune", run, "--truncated", "--dry-run")
    command("prune", run, "--truncated")
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(" from ")[0] for line in printed] == ["1 reply would be dropped", "1 reply dropped"]


def test_prune_of_segments(shared: Path, tmp_path: Path) -> None:
    assert command("prune", shared, "--model", "small") == 0
    for folder in (str(tmp_path / "another machine"), str(local_folder_of(str(shared)))):
        store = SegmentStore(str(shared), folder)
        assert {logged.entry.key for logged in store.entries()} == {"c"}
        store.close()


def test_prune_is_refused_while_the_cache_is_open(run: Path) -> None:
    cache = ReplyCache(str(run / "cache/replies.sqlite"))
    with pytest.raises(CacheCommandError, match=r"another process has .* open"):
        command("prune", run, "--truncated")
    command("stats", run)
    cache.close()
    assert keys(run) == {"a", "b", "c"}


def expected_rows() -> list[dict[str, object]]:
    rows = []
    for e in REPLIES:
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
) -> None:
    target = tmp_path / name
    target.write_text("older")
    assert command("export", request.getfixturevalue(source), "--to", target) == 0
    rows = read(target)
    times_s = [row.pop("created_s") for row in rows]
    assert rows == expected_rows()
    assert all(isinstance(each, float) and abs(each - time.time()) < 600 for each in times_s)
    query = f"SELECT sum(tokens_out), max(text) FILTER (key = 'c') FROM '{target}'"
    assert duckdb.sql(query).fetchall() == [(105, 'emoji \\ud83d\n"x"')]
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stats", "{tmp}/nothing"], "there is no reply cache at"),
        (["stats", "{tmp}/empty"], "there is no reply cache at"),
        (["stats", "nowhere://bucket/run"], "Unable to get filesystem|nowhere"),
        (["stats", "gs://bucket/*"], "pattern"),
        (["prune", "{run}"], "prune needs --older-than, --model, --prompt or --truncated"),
        (["prune", "{run}", "--older-than", "30"], "takes an age such as 30d"),
        (["prune", "{run}", "--older-than", "-1d"], "takes an age such as 30d"),
        (["export", "{run}", "--to", "{tmp}/r.csv"], r"takes a \.jsonl or a \.parquet file"),
        (["export", "{run}", "--to", "{tmp}/no/r.jsonl"], "No such file"),
        (["export", "{run}", "--to", "{tmp}/folder.jsonl"], "it is a folder"),
    ],
)
def test_mistakes_are_told_in_one_line(run: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.jsonl").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CacheCommandError, match=message) as caught:
        command(*(each.format(tmp=tmp_path, run=run) for each in arguments[:2]), *_rest(arguments, tmp_path))
    assert "\n" not in str(caught.value)
    assert {path for path in tmp_path.rglob("*") if "cache" not in path.parts} == {
        path for path in before if "cache" not in path.parts
    }


def _rest(arguments: list[str], tmp: Path) -> list[str]:
    """The options, each joined with its value, so that a value may begin with a hyphen."""
    rest = [each.format(tmp=tmp) for each in arguments[2:]]
    return [f"{name}={value}" for name, value in zip(rest[::2], rest[1::2], strict=True)]


def test_ages() -> None:
    assert [age_s(text) for text in ("30d", "12h", "1.5m", "2w", "0s")] == [2_592_000, 43_200, 90, 1_209_600, 0]
