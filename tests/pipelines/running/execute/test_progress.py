"""The live view: totals, time left, and the lines and tables that show them."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from groundtrace.inference.flow.notes import RunNotes
from groundtrace.pipelines.grounded_cot import RECIPE
from groundtrace.pipelines.running.execute.progress import (
    RunView,
    eta_s,
    progress_line,
    progress_table,
    show_progress,
    stages_before,
    taken_text,
    total_of,
)
from groundtrace.pipelines.running.execute.running_totals import RunningTotals
from groundtrace.pipelines.running.plan.expected_stage import ExpectedRun, ExpectedStage
from groundtrace.schemas.usage import Usage
from groundtrace.stages.plumbing.metrics import StageProgress, board, clear_board, progress
from tests.wired import default_stages

LISTED = default_stages(RECIPE)


@pytest.fixture(autouse=True)
def empty_board() -> Iterator[None]:
    clear_board()
    yield
    clear_board()


@pytest.mark.parametrize(
    ("kept", "rejected", "total", "left"),
    [
        (0, 0, 10, None),
        (5, 0, None, None),
        (10, 0, 10, None),
        (12, 0, 10, None),
        (5, 0, 10, 9.0),
        (3, 2, 10, 9.0),
        (1, 0, 11, 90.0),
    ],
)
def test_the_time_left_at_the_present_rate(kept: int, rejected: int, total: int | None, left: float | None) -> None:
    stage = StageProgress(started_s=100.0, kept=1000 + kept, rejected=rejected)
    for number in range(kept + rejected):
        stage.end(116.0 + number % 2)
    found = eta_s(stage, None if total is None else 1000 + total, now_s=120.0)
    assert found == (left if left is None else pytest.approx(left))


@pytest.mark.parametrize(
    ("stage", "total"), [("clean", 7), ("dedup", 5), ("ingest", None), ("attempt", None), ("rubric_judge", None)]
)
def test_a_stages_total_is_what_the_one_before_kept(stage: str, total: int | None) -> None:
    stages = {"ingest": StageProgress(kept=7), "clean": StageProgress(seen=7, kept=5), "dedup": StageProgress()}
    assert total_of(stage, stages, stages_before(LISTED)) == total


def test_the_stages_before_follow_the_recipe() -> None:
    """Of what the split and the cut get, no one stage tells; nor of what is sampled."""
    before = stages_before(LISTED)
    assert (before["clean"], before["difficulty"], before["verify"]) == ("ingest", "attempt", "trace")
    assert {"ingest", "cut", "rubric_candidates", "rubric_judge"}.isdisjoint(before)


BEFORE = stages_before(LISTED)
STAGES = {
    "ingest": StageProgress(kept=8, rejected=2),
    "clean": StageProgress(kept=5, rejected=1, requests=3, cached=4),
    "attempt": StageProgress(kept=1, rejected=1, in_flight=6, requests=5, cached=2),
}


def test_a_stage_that_waits_is_shown_before_those_that_it_keeps_waiting() -> None:
    behind = {"difficulty": StageProgress(kept=1), "split": StageProgress(kept=1)}
    line = "attempt: 2/40 done, 1 rejected; requests sent 8, replies from the cache 6, in flight 6"
    before = {"ingest": STAGES["ingest"], "clean": STAGES["clean"], "draw": StageProgress(kept=40)}
    assert progress_line(before | {"attempt": STAGES["attempt"]} | behind, BEFORE) == line


def test_the_latest_stage_in_one_line() -> None:
    assert progress_line({}, BEFORE) == ""
    line = "clean: 6/8 done, 1 rejected; requests sent 3, replies from the cache 4"
    assert progress_line({name: STAGES[name] for name in ("ingest", "clean")}, BEFORE) == line
    line = "attempt: 2 done, 1 rejected; requests sent 8, replies from the cache 6, in flight 6"
    assert progress_line(STAGES, BEFORE) == line


@pytest.mark.parametrize(
    ("so_far", "text"),
    [
        (RunningTotals(), ""),
        (RunningTotals(requests=3), ""),
        (RunningTotals(requests=3, tokens=31_204), "31,204 tokens"),
        (RunningTotals(tokens=900, usd=0.4249), "900 tokens, $0.42"),
        (RunningTotals(failed_tries=1, last_error="far: busy"), "1 try failed, the last: far: busy"),
        (
            RunningTotals(tokens=5, failed_tries=12, rate_limited=8, last_error="far: busy"),
            "5 tokens; 12 tries failed (8 with HTTP 429), the last: far: busy",
        ),
    ],
)
def test_what_was_taken(so_far: RunningTotals, text: str) -> None:
    assert taken_text(so_far) == text


def test_the_line_adds_what_was_taken(tmp_path: Path) -> None:
    notes = RunNotes(str(tmp_path))
    view = RunView(LISTED, notes=str(tmp_path))
    assert view.line() == ""
    notes.paid("policy", 1, Usage(requests=2, tokens_in=40, cost_usd=0.01))
    assert view.line() == "requests sent 2; 40 tokens, $0.01"
    progress("ingest").kept = 3
    assert view.line() == "ingest: 3 done, 0 rejected; requests sent 0, replies from the cache 0; 40 tokens, $0.01"
    notes.close()


def test_the_line_tells_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """900 of 1,000 calls at 10 a second, after an earlier run of which only their number is known."""
    clock = [100.0]
    monkeypatch.setattr("groundtrace.pipelines.running.execute.progress.time.monotonic", lambda: clock[0])
    view = RunView(LISTED, expected=ExpectedRun({"attempt": ExpectedStage(1000, 1000, 1000)}))
    live = progress("attempt")
    for clock[0], calls in ((100.0, 0), (105.0, 50), (110.0, 100)):
        live.calls = live.kept = live.seen = calls
        live.in_flight = 8
        view.watch()
    assert view.line().endswith("; about 2 min left of the run")
    view.note_seconds()
    assert (live.wall_s, live.in_flight_s) == (10.0, 80.0)


def test_a_stage_that_an_earlier_run_had_may_get_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("groundtrace.pipelines.running.execute.progress.time.monotonic", lambda: clock[0])
    expected = {"attempt": ExpectedStage(1000, 1000, 1000), "point": ExpectedStage(500, 500, 500)}
    view = RunView(LISTED, expected=ExpectedRun(expected))
    live = progress("attempt")
    for clock[0], calls in ((100.0, 0), (105.0, 50), (110.0, 100)):
        live.calls = live.kept = live.seen = calls
        view.watch()
    assert "left of the run" in view.line()
    view.note_seconds()
    assert live.wall_s == 10.0 and "point" not in board()


def test_the_table_has_a_row_for_each_stage() -> None:
    console = Console(width=120, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as captured:
        console.print(progress_table(STAGES, BEFORE))
    header, *rows = captured.get().splitlines()
    assert header.split()[:4] == ["stage", "done", "of", "rejected"]
    assert [row.split()[:3] for row in rows] == [["ingest", "10", "2"], ["clean", "6", "8"], ["attempt", "2", "1"]]


def test_without_a_terminal_the_last_state_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(LISTED):
        progress("ingest").kept = 3
    assert capsys.readouterr().err == "ingest: 3 done, 0 rejected; requests sent 0, replies from the cache 0\n"


def test_a_part_of_a_run_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(LISTED, "wave 2: "):
        progress("ingest").kept = 3
    assert capsys.readouterr().err.startswith("wave 2: ingest: 3 done, ")
    console = Console(width=120)
    with console.capture() as shown:
        console.print(progress_table(STAGES, BEFORE, "wave 2"))
    assert shown.get().splitlines()[0].strip() == "wave 2"


def test_nothing_is_printed_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(LISTED):
        pass
    assert capsys.readouterr().err == ""


def test_the_view_ends_with_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    with pytest.raises(ZeroDivisionError), show_progress(LISTED):
        progress("ingest").rejected = 1
        _ = 1 / 0
    assert "1 rejected" in capsys.readouterr().err
    assert time.monotonic() - started < 5
