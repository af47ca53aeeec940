"""The agentic verifier (Argos §3.1): for each response, the scorers that fit it, then the gated score.

What a response contains and what the run has endpoints for decide which scorers run (:mod:`rewards.selection`). A
scorer that does not run is reported as unscored with the reason; one that does has the reason as its last evidence, so
that a verdict shows why it was given or left out.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from inference.errors import CallError
from inference.grounding import BadReply
from inference.models import Caller
from rewards import second_judge
from rewards.aggregate import GateSettings, gated
from rewards.extraction import extract_statements
from rewards.scorers.counting import counted_points, score_counting
from rewards.scorers.outcome import score_outcome
from rewards.scorers.reasoning import score_reasoning
from rewards.scorers.spatial import ObjectMasks, point_checker, score_spatial
from rewards.scorers.temporal import ClipFrame, score_temporal
from rewards.selection import Choice, Contents, Served, plan_scorers, select_scorers
from schemas.messages import media_part
from schemas.records import Draft, Trace, Verdict
from schemas.responses.response import parse_think
from schemas.responses.times import parse_times


def contents_of(draft: Draft, trace: Trace, served: Served) -> Contents:
    """What the trace and its question give the scorers to work on; nothing is looked at but records and text."""
    question = draft.question
    counted = counted_points(question.question, trace.points)
    clips = sum(bool(medium.frames) for medium in question.media)
    return Contents(
        answer_type=question.answer_type,
        points=len(trace.points),
        boxes=len(trace.boxes),
        times=len(parse_times(trace.text)) if clips else 0,
        think=bool((parse_think(trace.text) or "").strip()),
        clips=clips,
        pointable=bool(draft.points),
        locatable=bool(served.locators(question.source)),
        counted=None if counted is None else len(counted),
    )


@dataclass(frozen=True)
class _Case:
    """One trace under verification."""

    draft: Draft
    trace: Trace
    masks: ObjectMasks

    @property
    def caller(self) -> Caller:
        return self.masks.caller


async def verify_trace(
    draft: Draft, trace: Trace, gate: GateSettings, masks: ObjectMasks, planner: str = "rules"
) -> Trace:
    """The trace with its verdicts and score. Below the gate only the outcome is scored: the others cannot matter.

    ``planner`` is a :data:`rewards.selection.Planner`; ``masks.served`` says what the run can serve.
    """
    served = masks.served
    case = _Case(draft, trace, masks)
    outcome = await score_outcome(draft.question, trace.answer, case.caller if "judge" in served.roles else None)
    if outcome.value is None or outcome.value < gate.tau:
        return replace(trace, verdicts=(outcome,), score=gated((outcome,), gate))
    choices = select_scorers(contents_of(draft, trace, served), served)
    if planner == "judge" and "judge" in served.roles:
        choices = await plan_scorers(choices, draft.question, trace.text, case.caller)
    verdicts = [outcome if choice.scorer == outcome.name else await _verdict(choice, case) for choice in choices]
    return replace(trace, verdicts=tuple(verdicts), score=gated(tuple(verdicts), gate))


async def _verdict(choice: Choice, case: _Case) -> Verdict:
    if not choice.chosen:
        return Verdict(choice.scorer, None, choice.reason)
    verdict = await _SCORERS[choice.scorer](case)
    return replace(verdict, evidence=(*verdict.evidence, json.dumps({"chosen": choice.reason}, ensure_ascii=False)))


async def _spatial(case: _Case) -> Verdict:
    return await score_spatial(case.trace.points, bool(case.draft.points), case.masks)


async def _counting(case: _Case) -> Verdict:
    return await score_counting(case.trace.points, case.trace.answer, case.draft.entities, case.masks)


async def _temporal(case: _Case) -> Verdict:
    """The frames that the models saw are the clip; its points are checked on them like points on images."""
    (index,) = (index for index, medium in enumerate(case.draft.question.media) if medium.frames)
    medium = case.draft.question.media[index]
    clip = [ClipFrame(frame.number, frame.t_s, media_part(frame)) for frame in medium.frames]
    locatable = case.masks.served.locators(case.draft.question.source)
    try:
        statements = await extract_statements(case.trace.text, case.caller)
    except (CallError, BadReply) as error:
        return Verdict("temporal", None, f"extraction: {error}")
    return await score_temporal(statements, clip, case.caller, point_checker(case.masks, index) if locatable else None)


async def _reasoning(case: _Case) -> Verdict:
    judged = (case.draft.question, parse_think(case.trace.text), case.trace.answer)
    verdict = await score_reasoning(*judged, case.caller)
    if second_judge.ROLE not in case.masks.served.roles:
        return verdict
    second = await score_reasoning(*judged, case.caller, second_judge.ROLE)
    return second_judge.with_second(verdict, second)


_SCORERS: dict[str, Callable[[_Case], Awaitable[Verdict]]] = {
    "spatial": _spatial,
    "counting": _counting,
    "temporal": _temporal,
    "reasoning": _reasoning,
}
