"""The replies that made a record, as a view reads them from the cache of the run."""

import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from groundtrace.inference.cache.log import CacheEntry
from groundtrace.inference.cache.replies import ReplyCache
from groundtrace.inference.request import Completion, fresh_key
from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view.replies import CACHE, MAX_CHARS, MAX_REPLIES, keys_of, read_replies, with_replies
from groundtrace.schemas.safe_files import UnsafeFile


def row_of(run: Path, name: str, column: str) -> dict[str, object]:
    (file, *_) = sorted((run / name).glob("*.parquet"))
    return next(row for row in pq.read_table(file, columns=[column]).to_pylist() if row[column])


def test_the_replies_of_a_kept_row_are_those_of_its_lineage(run: Path) -> None:
    keys = keys_of(row_of(run, "sft", "lineage"))
    found = read_replies(run, keys)
    assert {each["key"] for each in found} == set(keys) and len(found) == len(keys) > 3
    assert {"policy", "teacher"} <= {each["role"] for each in found}
    assert all(each["text"] and each["prompt"] and each["model"] for each in found)
    assert [each["created"] for each in found] == sorted(each["created"] for each in found)


def test_a_rejected_record_has_the_reply_of_its_rejection(run: Path) -> None:
    key = str(row_of(run, "sft", "lineage")["lineage"]["cache_keys"][0])  # type: ignore[index]
    (found,) = keys_of({"cache_key": key, "lineage": None})
    assert [each["key"] for each in read_replies(run, [found, "0" * 64])] == [key]


@pytest.mark.parametrize("row", [{}, {"lineage": None}, {"cache_key": None}, {"lineage": {"cache_keys": None}}])
def test_a_row_without_calls_has_no_replies(row: dict[str, object]) -> None:
    assert keys_of(row) == []


def test_keys_are_limited_and_unique() -> None:
    keys = [str(number) for number in range(MAX_REPLIES + 50)]
    assert keys_of({"lineage": {"cache_keys": [*keys[:3], *keys]}}) == keys[:MAX_REPLIES]


@pytest.mark.parametrize("since", ["", "2026-01-01T00:00:00+00:00"])
def test_calls_of_a_replay_have_their_replies(since: str, tmp_path: Path) -> None:
    cache = ReplyCache(str(tmp_path / CACHE))
    cache.put(CacheEntry(fresh_key(key, since), "policy", "p", "m", 64, Completion(f"says {key}")) for key in "abc")
    cache.close()
    calls = [{"stage": "attempt", "stored": ["b", "a"]}, {"stage": "trace", "stored": ["lost"]}, {"stored": []}]
    found = with_replies(tmp_path, calls, since)
    assert [[each["text"] for each in call["replies"]] for call in found] == [["says b", "says a"], [], []]
    assert found[0]["stage"] == "attempt" and "replies" not in calls[0]


def test_only_the_first_replies_of_a_replay_are_read(tmp_path: Path) -> None:
    cache = ReplyCache(str(tmp_path / CACHE))
    keys = [f"{number:064}" for number in range(MAX_REPLIES + 3)]
    cache.put(CacheEntry(key, "policy", "p", "m", 64, Completion(key)) for key in keys)
    cache.close()
    found = with_replies(tmp_path, [{"stored": keys[:3]}, {"stored": keys[3:]}], "")
    assert [len(call["replies"]) for call in found] == [3, MAX_REPLIES - 3]


MADE_S, MADE = 1_750_000_000.0, "2025-06-15T15:06:40+00:00"


@pytest.mark.parametrize(
    ("reply", "created", "is_taken"),
    [
        (Completion("a"), "now", False),
        (Completion("a", taken_from="other", made_s=MADE_S), MADE, True),
        (Completion("a", taken_from="other"), None, True),  # copied by an earlier version of the code
    ],
)
def test_a_reply_has_the_time_at_which_it_was_made(
    reply: Completion, created: str | None, is_taken: bool, tmp_path: Path
) -> None:
    cache = ReplyCache(str(tmp_path / CACHE))
    cache.put([CacheEntry("a" * 64, "judge", "p", "m", 64, reply)])
    [stored] = cache.entries()
    cache.close()
    now = datetime.fromtimestamp(stored.created_s, UTC).isoformat(timespec="seconds")
    (found,) = read_replies(tmp_path, ["a" * 64])
    assert found["created"] == (now if created == "now" else created)
    assert (found["taken_from"], found["taken_at"]) == (("other", now) if is_taken else ("", ""))


def test_replies_are_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    cache = ReplyCache(str(tmp_path / CACHE))
    cache.put([CacheEntry("a" * 64, "judge", "p", "m", 64, Completion("later"))])
    cache.put([CacheEntry("b" * 64, "judge", "p", "m", 64, Completion("first", taken_from="x", made_s=MADE_S))])
    cache.close()
    assert [each["text"] for each in read_replies(tmp_path, ["a" * 64, "b" * 64])] == ["first", "later"]


def test_reading_changes_nothing_and_long_texts_are_shortened(tmp_path: Path) -> None:
    cache = ReplyCache(str(tmp_path / CACHE))
    long = Completion("x" * (MAX_CHARS + 5), reasoning="why", finish_reason="length", taken_from="other")
    cache.put([CacheEntry("a" * 64, "judge", "p", "m", 64, long, 3, 4)])
    cache.close()
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    (found,) = read_replies(tmp_path, ["a" * 64])
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    assert found["text"] == "x" * MAX_CHARS and found["is_shortened"] and found["reasoning"] == "why"
    assert (found["finish_reason"], found["taken_from"], found["tokens_in"]) == ("length", "other", 3)


def test_the_replies_are_read_from_a_named_cache(run: Path, tmp_path: Path) -> None:
    elsewhere, bare = tmp_path / "cache", tmp_path / "run"
    shutil.copytree(run / "cache", elsewhere)
    bare.mkdir()
    keys = keys_of(row_of(run, "sft", "lineage"))
    with pytest.raises(InspectError, match=r"give `beam view` the same --cache"):
        read_replies(bare, keys)
    assert read_replies(bare, keys, elsewhere) == read_replies(run, keys)
    (call,) = with_replies(bare, [{"stored": keys}], "", elsewhere)
    assert len(call["replies"]) == len(keys)
    (elsewhere / "replies.sqlite").unlink()
    with pytest.raises(InspectError, match=rf"no file {elsewhere}/replies.sqlite"):
        read_replies(run, keys, elsewhere)


@pytest.mark.parametrize(
    "damage", ["no cache", "no database", "no table", "a changed reply", "a late time", "a time in words"]
)
def test_a_cache_that_cannot_be_read_is_one_line(run: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "a run # %41"
    shutil.copytree(run / "cache", folder / "cache")
    keys = keys_of(row_of(run, "sft", "lineage"))
    assert len(read_replies(folder, keys)) == len(keys)
    if damage == "no cache":
        shutil.rmtree(folder / "cache")
    elif damage == "no database":
        (folder / CACHE).write_bytes(b"no database" * 100)
    else:
        change = {
            "no table": "DROP TABLE replies",
            "a changed reply": "UPDATE replies SET tokens_in = tokens_in + 1",
            "a late time": "UPDATE replies SET crc = NULL, created_s = 1e300",
            "a time in words": f"UPDATE replies SET crc = NULL, created_s = 'soon' WHERE key = '{keys[0]}'",
        }
        with sqlite3.connect(folder / CACHE) as db:
            db.execute(change[damage])
        db.close()
    before = sorted(folder.rglob("*"))
    with pytest.raises(InspectError) as caught:
        read_replies(folder, keys)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)
    assert sorted(folder.rglob("*")) == before


def test_a_cache_whose_rows_never_end_is_not_read(tmp_path: Path) -> None:
    """A stranger may have sent the run, in which the table of replies is a view."""
    ReplyCache(str(tmp_path / CACHE)).close()
    with closing(sqlite3.connect(tmp_path / CACHE)) as db:
        db.execute("DROP TABLE replies")
        db.execute(
            "CREATE VIEW replies AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT "
            "'' || n AS key, '' role, '' prompt, '' model, 1 max_tokens, 0.0 created_s, '' body, 0 tokens_in, "
            "0 tokens_out, NULL crc FROM c"
        )
    with pytest.raises(UnsafeFile, match=rf"^the reply cache {tmp_path / CACHE} has 'replies', which is not"):
        read_replies(tmp_path, ["a" * 64])


@pytest.mark.parametrize("name", ["cache", "cache/replies.sqlite"])
def test_no_replies_are_read_through_a_link_out_of_the_run(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    ReplyCache(str(run / CACHE)).close()
    (run / name).rename(tmp_path / "private")
    (run / name).symlink_to(tmp_path / "private")
    with pytest.raises(UnsafeFile, match=rf"^{run / name} is a link to a place outside {run}"):
        read_replies(run, ["a" * 64])
