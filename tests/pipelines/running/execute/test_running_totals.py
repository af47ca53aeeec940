"""What a run has taken so far, read from its notes while they grow."""

import json
from pathlib import Path

from groundtrace.inference.flow.notes import RunNotes
from groundtrace.pipelines.running.execute.running_totals import NotesReader, RunningTotals
from groundtrace.schemas.usage import Usage


def test_the_notes_of_all_processes_are_summed_as_they_grow(tmp_path: Path) -> None:
    reader = NotesReader(str(tmp_path))
    assert reader.read() == RunningTotals()
    first, second = RunNotes(str(tmp_path)), RunNotes(str(tmp_path))
    first.paid("policy", 1, Usage(requests=1, tokens_in=30, tokens_out=12, cost_usd=0.5))
    second.paid("judge", 1, Usage(requests=2, tokens_in=1, cost_usd=0.25))
    second.failed("far", 429, "rate_limited: slow down")
    assert reader.read() == RunningTotals(3, 43, 0.75, 1, 1, "far: rate_limited: slow down")
    second.failed("far", 0, "timeout: " + "x" * 500)
    first.paid("policy", 1, Usage(requests=1, tokens_out=2))
    seen = reader.read()
    assert (seen.requests, seen.tokens, seen.failed_tries, seen.rate_limited) == (4, 45, 2, 1)
    assert seen.last_error.startswith("far: timeout: xxx")
    assert len(seen.last_error) < 220
    assert reader.read() == seen
    first.close()
    second.close()


def test_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    notes = tmp_path / "failed-1.jsonl"
    notes.write_text('{"endpoint": "far", "status": 503, ', "utf-8")
    reader = NotesReader(str(tmp_path))
    assert reader.read().failed_tries == 0
    with notes.open("a", encoding="utf-8") as file:
        file.write('"message": "busy"}\n')
    assert reader.read() == RunningTotals(failed_tries=1, last_error="far: busy")


def test_a_line_that_a_full_disk_cut_is_left_out(tmp_path: Path) -> None:
    reader, notes = NotesReader(str(tmp_path)), RunNotes(str(tmp_path))
    whole = '{"endpoint": "far", "status": 503, "message": "busy"}\n'
    (tmp_path / "failed-1.jsonl").write_text('{"endpoint": "fa' + whole + "3\n{}\n" + whole, "utf-8")
    (tmp_path / "paid-1.jsonl").write_bytes(b'\xff\n{"id": 3}\n')
    notes.paid("policy", 1, Usage(requests=1, tokens_in=30, cost_usd=0.5))
    notes.close()
    assert reader.read() == RunningTotals(1, 30, 0.5, failed_tries=1, last_error="far: busy")


def test_what_a_server_says_is_only_shown(tmp_path: Path) -> None:
    said = {"endpoint": "a\nb", "status": 500, "message": "\x1b[2J\u202e"}
    (tmp_path / "failed-1.jsonl").write_text(json.dumps(said) + "\n", "utf-8")
    assert NotesReader(str(tmp_path)).read().last_error == r"a\nb: \x1b[2J\u202e"


def test_a_run_without_notes_has_taken_nothing() -> None:
    assert NotesReader("").read() == RunningTotals()
