"""The time left is within a factor of two from a fifth of the run on: simulated runs, and one that was recorded."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.running.execute.time_left import TimeLeft
from groundtrace.pipelines.running.plan.expected_stage import ExpectedRun, ExpectedStage
from groundtrace.stages.plumbing.metrics import StageProgress

from .simulated import SimulatedStage, Snapshot, expecting, simulated

RECORDED = Path(__file__).parent / "data/recorded_run.json"
FROM_SHARE = 0.2
UNTIL_SHARE = 0.9
"""The last tenth is not looked at: a few seconds are a large factor there."""

INGEST = SimulatedStage("ingest", calls=0)
ATTEMPT = SimulatedStage("attempt", call_s=2.0, at_once=16, keeps=0.4)
TRACE = SimulatedStage("trace", call_s=8.0, at_once=16)
VERIFY = SimulatedStage("verify", calls=4, call_s=0.2, at_once=16, keeps=0.8)
USUAL = (INGEST, ATTEMPT, TRACE, VERIFY)
BEFORE = {"attempt": "ingest", "trace": "attempt", "verify": "trace"}
RECORDS = 800


def changed(stages: Sequence[SimulatedStage], **fields: Any) -> tuple[SimulatedStage, ...]:
    """The stages with these fields of all that make calls changed."""
    return tuple(replace(each, **fields) if each.calls else each for each in stages)


def with_attempts(**fields: Any) -> tuple[SimulatedStage, ...]:
    """The usual run with these fields of its first calls changed."""
    return (INGEST, replace(ATTEMPT, **fields), TRACE, VERIFY)


RUNS = {
    "as expected": (USUAL, 0.0),
    "a slow start": (USUAL, 25.0),
    "a server three times as slow": (changed(USUAL, at_once=5), 0.0),
    "a server five times as fast": (changed(USUAL, at_once=80), 0.0),
    "half of each stage from the cache": (changed(USUAL, cached=0.5), 0.0),
    "the first stage from the cache": (with_attempts(cached=1.0), 0.0),
    "a killed run goes on": (with_attempts(cached=0.7), 5.0),
    "a third of the records reach the later stages": (with_attempts(keeps=0.13), 0.0),
    "twice as many reach them": (with_attempts(keeps=0.8), 0.0),
    "no record reaches them": (with_attempts(keeps=0.0)[:2], 0.0),
}


def factors(snapshots: Iterable[Snapshot], expected: ExpectedRun, end_s: float) -> list[tuple[float, float]]:
    """The share of the run's time that has passed, and the estimated time left divided by the true one."""
    left, found = TimeLeft(expected, BEFORE), list[tuple[float, float]]()
    for now_s, stages in snapshots:
        left.watch(now_s, stages)
        share, estimate = now_s / end_s, left.left_s(stages)
        if FROM_SHARE <= share <= UNTIL_SHARE:
            assert estimate is not None, f"nothing is said after {share:.0%}"
            found.append((share, estimate / (end_s - now_s)))
    return found


@pytest.mark.parametrize("name", RUNS)
def test_simulated_runs(name: str) -> None:
    """One snapshot of a hundred may be wrong: that in which a stage begins with a burst from the cache."""
    stages, start_s = RUNS[name]
    snapshots = list(simulated(stages, RECORDS, start_s))
    found = factors(snapshots, expecting(USUAL, RECORDS), snapshots[-1][0])
    wrong = [f"{share:.0%}: {factor:.2f}" for share, factor in found if not 0.5 <= factor <= 2]
    assert found and len(wrong) <= 0.01 * len(found), wrong


def test_without_seconds_of_an_earlier_run_its_own_are_used() -> None:
    """A stage that has not begun is taken to be as fast as those before it, so it is right when the slow one runs."""
    stages = with_attempts(call_s=0.2)[:3]
    snapshots = list(simulated(stages, RECORDS))
    found = factors(snapshots, expecting(stages, RECORDS, seconds=False), snapshots[-1][0])
    assert found and all(0.5 <= factor <= 2 for _, factor in found)


def test_a_recorded_run() -> None:
    """``make demo``'s questions on two busy cores, after a preview of 10 of them: the rate of its calls alone foretold
    21 minutes at the start of a run of about one."""
    fields = json.loads(RECORDED.read_text("utf-8"))
    stages = {name: ExpectedStage(**each) for name, each in fields["expected"].items()}
    expected = ExpectedRun(stages, fields["rest_s"])
    names = ("seen", "kept", "rejected", "calls", "in_flight")
    live, snapshots = dict[str, StageProgress](), list[Snapshot]()
    for now_s, changed_stages in fields["snapshots"]:
        live |= {name: StageProgress(name, **dict(zip(names, n, strict=True))) for name, n in changed_stages.items()}
        snapshots.append((now_s, dict(live)))
    found = factors(snapshots, expected, fields["end_s"])
    wrong = [f"{share:.0%}: {factor:.2f}" for share, factor in found if not 0.5 <= factor <= 2]
    assert found and not wrong


def test_nothing_is_said_of_an_unknown_run_or_before_it_works() -> None:
    unknown, begun = TimeLeft(), TimeLeft(expecting(USUAL, 10))
    for now_s, stages in simulated(USUAL, 10, start_s=20.0):
        unknown.watch(now_s, stages)
        assert unknown.left_s(stages) is None
        if now_s <= 20:
            begun.watch(now_s, stages)
            assert begun.left_s(stages) is None


def test_the_seconds_of_calls_are_kept_for_a_later_run() -> None:
    left = TimeLeft()
    for now_s, stages in simulated((INGEST, ATTEMPT, VERIFY), 200):
        left.watch(now_s, stages)
    seconds = {name: wall_s for name, (wall_s, _) in left.seconds().items()}
    assert seconds["attempt"] == pytest.approx(200 * 2.0 / 16, abs=1)
    assert seconds["verify"] == pytest.approx(80 * 4 * 0.2 / 16, abs=1)
