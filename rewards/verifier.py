"""The agentic verifier (Argos §3.1): for each response, the scorers that fit it, then the gated score.

What a response contains and what the run has endpoints for decide which scorers run. A scorer that does not apply is
reported as unscored with the reason, so that a verdict shows why it was left out.
"""

from dataclasses import dataclass, replace

from inference.models import Caller
from rewards.aggregate import GateSettings, gated
from rewards.outcome import score_outcome
from rewards.reasoning import score_reasoning
from rewards.spatial import ObjectMasks, score_spatial
from schemas.records import Draft, Trace, Verdict
from schemas.response import parse_think


@dataclass(frozen=True)
class Scorers:
    """Which scorers the run can serve: those whose roles have endpoints."""

    judge: bool
    spatial: bool


async def verify_trace(draft: Draft, trace: Trace, scorers: Scorers, gate: GateSettings, masks: ObjectMasks) -> Trace:
    """The trace with its verdicts and score. Below the gate only the outcome is scored: the others cannot matter."""
    caller: Caller = masks.caller
    outcome = await score_outcome(draft.question, trace.answer, caller if scorers.judge else None)
    if outcome.value is None or outcome.value < gate.tau:
        return replace(trace, verdicts=(outcome,), score=gated((outcome,), gate))
    verdicts = (
        outcome,
        await _spatial(draft, trace, scorers, masks),
        await _reasoning(draft, trace, scorers, caller),
    )
    return replace(trace, verdicts=verdicts, score=gated(verdicts, gate))


async def _spatial(draft: Draft, trace: Trace, scorers: Scorers, masks: ObjectMasks) -> Verdict:
    if not scorers.spatial:
        return Verdict("spatial", None, "no detector and segmenter are configured")
    return await score_spatial(trace.points, bool(draft.points), masks)


async def _reasoning(draft: Draft, trace: Trace, scorers: Scorers, caller: Caller) -> Verdict:
    if not scorers.judge:
        return Verdict("reasoning", None, "no judge is configured")
    return await score_reasoning(draft.question, parse_think(trace.text), trace.answer, caller)
