"""Verification (Argos §4.3, App. C.3): score every trace, keep the best when it is good enough.

In: drafts with traces. Out: drafts with verdicts and the index of the best trace, whose score is at least
``min_score``; or a rejection that names the best score and the scorer that failed. Ties go to the earlier trace.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from inference.settings import ModelsSettings
from rewards.aggregate import GateSettings
from rewards.spatial import ObjectMasks
from rewards.verifier import Scorers, verify_trace
from schemas.reasons import Reason
from schemas.records import Draft, Rejected, Trace
from stages.calling import CallModels, Session, reject, split, with_calls

STAGE = "verify"


@dataclass(frozen=True)
class VerifySettings:
    """``min_score`` is the paper's 0.7; ``gate`` holds the weights and threshold of Eq. 9."""

    min_score: float = 0.7
    gate: GateSettings = field(default_factory=GateSettings)

    def __post_init__(self) -> None:
        if not 0 <= self.min_score <= 1:
            raise ValueError(f"verify.min_score must be in [0, 1], got {self.min_score}")


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
    if (values["outcome"].value or 0) < settings.gate.tau:
        return Reason.WRONG_ANSWER, f"no trace of {len(traces)} is right: {values['outcome'].reason}"
    failing = min(values.values(), key=lambda verdict: verdict.value or 0.0)
    reason = Reason.LOW_GROUNDING if failing.name == "spatial" else Reason.LOW_REASONING
    return reason, f"best score {trace.score:.2f} below {settings.min_score}: {failing.name} {failing.reason}"


async def verify(draft: Draft, session: Session, settings: VerifySettings, scorers: Scorers) -> Draft | Rejected:
    """Score the draft's traces and pick the best."""
    masks = ObjectMasks(draft.question, session)
    traces = tuple([await verify_trace(draft, trace, scorers, settings.gate, masks) for trace in draft.traces])
    best = best_trace(traces)
    if best is None or (traces[best].score or 0.0) < settings.min_score:
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
        scorers = Scorers(
            judge=self.models.has_role("judge"),
            spatial=self.models.has_role("detector") and self.models.has_role("segmenter"),
        )
        work = partial(verify, settings=self.settings, scorers=scorers)
        return split(drafts, "Call", CallModels(STAGE, work, self.models))
