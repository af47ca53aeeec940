"""The log of replies: every line that is whole is read, whatever happened to the others."""

import json
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundtrace.inference.cache.log import (
    CacheEntry,
    LogEntry,
    LogWriter,
    decode_body,
    decode_line,
    encode_body,
    encode_line,
    read_log,
    write_log,
)
from groundtrace.inference.request import Completion

FOLDER = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def logged(n: int, text: str = "text") -> LogEntry:
    return LogEntry(CacheEntry(f"key {n}", "policy", "p.v1", "m", 100, Completion(text, "why"), n, 2 * n), 1000.5 + n)


def line(each: LogEntry) -> bytes:
    return encode_line(each, encode_body(each.entry.completion))


def read(path: Path, start_bytes: int = 0, batch_lines: int = 1000) -> tuple[list[LogEntry], int, int]:
    entries, damaged, end_bytes = [], 0, start_bytes
    for batch in read_log(path, start_bytes, batch_lines):
        entries += batch.entries
        damaged += batch.damaged
        end_bytes = batch.end_bytes
    return entries, damaged, end_bytes


@given(st.text(st.characters(exclude_categories=())), st.lists(st.floats(-1e9, 0)))
def test_a_line_gives_back_its_entry(text: str, logprobs: list[float]) -> None:
    entry = CacheEntry("k", "r", "p", "m", 7, Completion(text, text, "length", tuple(logprobs)), 3, 4)
    whole = line(LogEntry(entry, 12.25))
    assert whole.count(b"\n") == 1
    assert decode_line(whole) == LogEntry(entry, 12.25)


def test_logprobs_stand_only_where_there_are_some() -> None:
    assert decode_body('{"text": "\\ud83d", "reasoning": "", "finish_reason": "stop"}').text == "\ufffd", "an old cache"
    assert json.loads(encode_body(Completion("a"))) == {"text": "a", "reasoning": "", "finish_reason": "stop"}
    assert decode_body(encode_body(Completion("a", logprobs=(-0.5, -2)))).logprobs == (-0.5, -2.0)


def test_who_answered_is_kept_where_it_is_another() -> None:
    reply = Completion("a", answered_by="m-2026-01-01")
    assert decode_body(encode_body(reply)) == reply
    assert "answered_by" not in json.loads(encode_body(Completion("a")))
    with pytest.raises(ValueError, match="a cached reply has a text that is not a string"):
        decode_body(json.dumps({"text": "a", "reasoning": "", "finish_reason": "stop", "answered_by": 3}))


def test_where_and_when_a_copied_reply_was_made_is_kept() -> None:
    reply = Completion("a", taken_from="look", made_s=1_750_000_000.0)
    assert decode_body(encode_body(reply)) == reply
    assert "made_s" not in json.loads(encode_body(Completion("a")))


@pytest.mark.parametrize(
    "entry",
    [
        CacheEntry(None, "r", "p", "m", 1, Completion("b")),  # type: ignore[arg-type]
        CacheEntry("\ud83d", "r", "p", "m", 1, Completion("b")),
        CacheEntry("k", "r", "p", "m", -1, Completion("b")),
        CacheEntry("k", "r", "p", "m", True, Completion("b")),
        CacheEntry("k", "r", "p", "m", 1, Completion("b"), 2**63),
        CacheEntry("k", "r", "p", "m", 1, Completion("b", logprobs=(float("-inf"),))),
    ],
)
def test_an_entry_that_cannot_be_kept_is_refused(entry: CacheEntry) -> None:
    with pytest.raises(ValueError, match=r"must be a text|surrogates|whole number of at least 0|Out of range"):
        line(LogEntry(entry, 1.0))


def sealed(data: bytes) -> bytes:
    return b"%08x %b\n" % (zlib.crc32(data), data)


GOOD = json.loads(line(logged(1))[9:])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b"[" * 100_000,
        b"\xff",
        json.dumps({**GOOD, "key": 5}).encode(),
        json.dumps({**GOOD, "key": "\ud83d"}).encode(),
        json.dumps({**GOOD, "created_s": float("nan")}).encode(),
        json.dumps({**GOOD, "created_s": 10**400}).encode(),
        json.dumps({**GOOD, "tokens_in": 1.5}).encode(),
        json.dumps({**GOOD, "more": 1}).encode(),
        json.dumps({**GOOD, "reply": None}).encode(),
        json.dumps({**GOOD, "reply": {"text": "a"}}).encode(),
        json.dumps({**GOOD, "reply": {**GOOD["reply"], "logprobs": ["a"]}}).encode(),
        json.dumps({**GOOD, "reply": {**GOOD["reply"], "made_s": "soon"}}).encode(),
        json.dumps({**GOOD, "reply": {**GOOD["reply"], "made_s": float("inf")}}).encode(),
        json.dumps({name: value for name, value in GOOD.items() if name != "model"}).encode(),
    ],
)
def test_a_line_of_another_kind_is_damaged_though_its_checksum_is_right(data: bytes) -> None:
    assert decode_line(sealed(data)) is None


@given(st.binary(max_size=60))
def test_any_bytes_are_read(data: bytes) -> None:
    assert decode_line(data) is None
    assert decode_line(sealed(data)) is None


def test_a_cut_at_any_byte_loses_the_cut_line_only(tmp_path: Path) -> None:
    entries = [logged(n, "text " * n) for n in range(8)]
    whole = b"".join(map(line, entries))
    ends = [sum(len(line(each)) for each in entries[:n]) for n in range(9)]
    for cut in range(len(whole) + 1):
        (tmp_path / "a.jsonl").write_bytes(whole[:cut])
        kept = sum(end <= cut for end in ends) - 1
        assert read(tmp_path / "a.jsonl") == (entries[:kept], int(cut not in ends), ends[kept])


@FOLDER
@given(st.integers(0, 10_000), st.integers(1, 255), st.integers(1, 4))
def test_a_changed_byte_costs_no_line_but_those_it_stands_between(
    tmp_path: Path, where: int, flip: int, batch_lines: int
) -> None:
    entries = [logged(n, "text " * n) for n in range(8)]
    data = bytearray(b"".join(map(line, entries)))
    data[where % len(data)] ^= flip
    (tmp_path / "a.jsonl").write_bytes(data)
    found, damaged, _ = read(tmp_path / "a.jsonl", batch_lines=batch_lines)
    assert [each for each in entries if each in found] == found
    assert len(found) >= 6
    assert 1 <= damaged <= 2


def test_a_cut_in_the_middle_that_glues_two_lines(tmp_path: Path) -> None:
    first, second, third = (line(logged(n)) for n in range(3))
    (tmp_path / "a.jsonl").write_bytes(first[:40] + second + third)
    assert read(tmp_path / "a.jsonl")[:2] == ([logged(2)], 1)


def test_reading_goes_on_from_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(logged(0)) + line(logged(1))[:20])
    entries, damaged, end_bytes = read(path)
    assert (entries, damaged, end_bytes) == ([logged(0)], 1, len(line(logged(0))))
    path.write_bytes(line(logged(0)) + line(logged(1)))
    assert read(path, end_bytes)[:2] == ([logged(1)], 0)


def test_a_line_longer_than_the_longest_is_one_damaged_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groundtrace.inference.cache.log.MAX_LINE_BYTES", 1000)
    (tmp_path / "a.jsonl").write_bytes(b"x" * 5500 + b"\n" + line(logged(1)))
    assert read(tmp_path / "a.jsonl")[:2] == ([logged(1)], 1)


def test_each_writer_has_a_log_of_its_own(tmp_path: Path) -> None:
    one, other = LogWriter(tmp_path / "log"), LogWriter(tmp_path / "log")
    one.append(line(logged(1)))
    other.append(line(logged(2)))
    one.append(line(logged(3)))
    assert read(tmp_path / "log" / one.name) == ([logged(1), logged(3)], 0, one.size_bytes)
    assert read(tmp_path / "log" / other.name)[0] == [logged(2)]
    before = one.name
    one.abandon()
    one.append(line(logged(4)))
    assert one.name > before
    assert one.size_bytes == len(line(logged(4)))
    one.abandon()
    other.abandon()


def test_a_log_written_as_a_whole_appears_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert write_log(path, iter([logged(1), logged(2)])) == path.stat().st_size
    assert read(path)[0] == [logged(1), logged(2)]
    bad = LogEntry(CacheEntry("k", "r", "p", "m", -1, Completion("")), 1.0)
    with pytest.raises(ValueError, match="max_tokens"):
        write_log(path, iter([bad]))
    assert read(path)[0] == [logged(1), logged(2)]
    assert [each.name for each in tmp_path.iterdir()] == ["a.jsonl"]
