"""Verification (Argos §4.3, App. C.3): score every trace, keep the best when it is good enough.

In: drafts with traces. Out: drafts with verdicts and the index of the best trace, whose score is at least
``min_score`` and whose grounding stands at its floors; or a rejection that names the best score and the scorer that
failed. Ties go to the earlier trace.

Deviation from the paper: Eq. 9 is a mean, so that at equal weights a right answer lets up to nine tenths of the points
lie off their objects before the score falls below 0.7. ``min_spatial``, ``min_counting`` and ``min_temporal`` are
floors under single verdicts; 0 turns a floor off, and all at 0 is the paper's rule.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from inference.session import Session
from inference.settings import ModelsSettings
from rewards.aggregate import GateSettings
from rewards.scorers import counting, outcome, spatial, temporal
from rewards.scorers.spatial import ObjectMasks
from rewards.second_judge import labels_of
from rewards.selection import Planner, Served, served_by
from rewards.verifier import verify_trace
from schemas.config import Share, settings
from schemas.reasons import Reason
from schemas.records import Draft, Rejected, Trace, Verdict
from stages.plumbing.calling import CallModels, reject, split, with_calls
from stages.plumbing.metrics import count_agreement

STAGE = "verify"


@settings
class VerifySettings:
    """``min_score`` is the paper's 0.7; ``gate`` holds the weights and threshold of Eq. 9.

    ``min_spatial`` is the least share of points on their objects, ``min_counting`` the least pairing of points and
    counted objects, ``min_temporal`` the least share of what is said of a clip that its frames bear out (lower, since a
    judge's word is behind it); an unscored verdict passes its floor. ``planner`` chooses the scorers: ``rules``, or
    ``judge`` for a call of the judge per trace. ``synthetic_sources`` are sources (the records' ``source``) of charts,
    maps and the like, whose objects the pointer looks for instead of the detector.
    """

    min_score: Share = 0.7
    min_spatial: Share = 1.0
    min_counting: Share = 1.0
    min_temporal: Share = 0.7
    gate: GateSettings = field(default_factory=GateSettings)
    planner: Planner = "rules"
    synthetic_sources: tuple[str, ...] = ()


GROUNDING = (spatial.NAME, counting.NAME, temporal.NAME)


def below_floor(trace: Trace, settings: VerifySettings) -> tuple[Verdict, float] | None:
    """The first grounding verdict that is below its floor, and the floor; None when there is none."""
    floors = {
        spatial.NAME: settings.min_spatial,
        counting.NAME: settings.min_counting,
        temporal.NAME: settings.min_temporal,
    }
    for verdict in trace.verdicts:
        if verdict.value is not None and verdict.value < floors.get(verdict.name, 0.0):
            return verdict, floors[verdict.name]
    return None


def good_traces(traces: tuple[Trace, ...], settings: VerifySettings) -> tuple[Trace, ...]:
    """The traces that may be kept: right, whatever ``min_score`` is, of a high enough score, and above the floors."""
    passed = (trace for trace in traces if trace.score is not None and trace.score >= settings.min_score)
    right = (trace for trace in passed if (_outcome(trace).value or 0.0) >= settings.gate.tau)
    return tuple(trace for trace in right if below_floor(trace, settings) is None)


def _outcome(trace: Trace) -> Verdict:
    return next(verdict for verdict in trace.verdicts if verdict.name == outcome.NAME)


def best_trace(traces: tuple[Trace, ...]) -> int | None:
    """The index of the trace with the highest score, the first of equals; None when none was scored."""
    scored = [trace for trace in traces if trace.score is not None]
    return max(scored, key=lambda trace: (trace.score, -trace.index)).index if scored else None


def why_rejected(traces: tuple[Trace, ...], best: int | None, settings: VerifySettings) -> tuple[Reason, str]:
    """The reason and detail for traces of which none is good enough."""
    if best is None:
        return Reason.UNVERIFIABLE, f"no answer could be graded: {traces[0].verdicts[0].reason}"
    trace = traces[best]
    values = {verdict.name: verdict for verdict in trace.verdicts if verdict.value is not None}
    if (_outcome(trace).value or 0.0) < settings.gate.tau:
        return Reason.WRONG_ANSWER, f"no trace of {len(traces)} is right: {_outcome(trace).reason}"
    low = below_floor(trace, settings)
    if low is not None and (trace.score or 0.0) >= settings.min_score:
        verdict, floor = low
        said = f"best score {trace.score:.2f}, but {verdict.name} below {floor:g}: {verdict.reason}"
        return Reason.LOW_GROUNDING, said
    failing = min(values.values(), key=lambda verdict: verdict.value or 0.0)
    reason = Reason.LOW_GROUNDING if failing.name in GROUNDING else Reason.LOW_REASONING
    return reason, f"best score {trace.score:.2f} below {settings.min_score}: {failing.name} {failing.reason}"


async def verify(draft: Draft, session: Session, settings: VerifySettings, served: Served) -> Draft | Rejected:
    """Score the draft's traces, equal ones once, and pick the best."""
    masks = ObjectMasks(draft.question, session, served)
    scored: dict[str, Trace] = {}
    for trace in draft.traces:
        if trace.text not in scored:
            scored[trace.text] = await verify_trace(draft, trace, settings.gate, masks, settings.planner)
    traces = tuple(replace(scored[trace.text], index=trace.index) for trace in draft.traces)
    for verdict in (verdict for trace in traces for verdict in trace.verdicts):
        if (labels := labels_of(verdict)) is not None:
            count_agreement(verdict.name, *labels)
    best = best_trace(good_traces(traces, settings))
    if best is None:
        best = best_trace(traces)
        reason, detail = why_rejected(traces, best, settings)
        return reject(draft, STAGE, reason, detail, session.calls, draft.calls[-1].keys[best or 0])
    return with_calls(draft, session, traces=traces, best=best)


@dataclass
class VerifyTraces(beam.PTransform):
    """Verify the traces of every draft; see the module."""

    settings: VerifySettings
    models: ModelsSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, drafts: PCollection) -> Any:
        """``kept`` drafts and ``rejected``."""
        served = served_by(self.models, self.settings.synthetic_sources)
        work = partial(verify, settings=self.settings, served=served)
        return split(drafts, "Call", CallModels(STAGE, work, self.models))
