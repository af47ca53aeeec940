"""Simulated runs: stages one after the other, as the local runner works, with their live figures by time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from groundtrace.pipelines.running.plan.expected_stage import ExpectedRun, ExpectedStage
from groundtrace.stages.plumbing.metrics import StageProgress

STEP_S = 0.5
Snapshot = tuple[float, dict[str, StageProgress]]


@dataclass(frozen=True)
class SimulatedStage:
    """Holds a stage: its calls for each record, the seconds of a call, the requests in flight, and the share kept.

    ``cached`` is the share of its calls that the cache answers, which are the first ones.
    """

    name: str
    calls: int = 1
    call_s: float = 1.0
    at_once: int = 1
    keeps: float = 1.0
    cached: float = 0.0


def simulated(stages: Sequence[SimulatedStage], records: int, start_s: float = 0.0) -> Iterator[Snapshot]:
    """Yield the live figures every half second until the run ends. Nothing happens during the first ``start_s``."""
    now_s, made = 0.0, dict[str, StageProgress]()
    while now_s < start_s:
        yield now_s, {}
        now_s += STEP_S
    for stage in stages:
        live = made[stage.name] = StageProgress(stage.name, seen=records)
        total = records * stage.calls
        done = stage.cached * total
        while live.calls < total:
            live.calls = min(total, int(done))
            finished = live.calls // max(stage.calls, 1)
            live.kept = int(finished * stage.keeps)
            live.rejected = finished - live.kept
            live.in_flight = min(stage.at_once, total - live.calls)
            yield now_s, {name: replace(each) for name, each in made.items()}
            now_s += STEP_S
            done += STEP_S * stage.at_once / stage.call_s
        if not stage.calls:
            live.kept = int(records * stage.keeps)
            live.rejected = records - live.kept
        records = live.kept


def expecting(stages: Sequence[SimulatedStage], records: int, seconds: bool = True) -> ExpectedRun:
    """Return what an earlier run, in which the stages behaved so, makes of a run of that many records."""
    found, reads = dict[str, ExpectedStage](), float(records)
    for stage in stages:
        call_s = stage.call_s / stage.at_once if seconds and stage.calls else 0.0
        found[stage.name] = ExpectedStage(reads, reads * stage.keeps, reads * stage.calls, call_s)
        reads *= stage.keeps
    return ExpectedRun(found)
