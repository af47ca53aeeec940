"""Implements the agentic verifier of Argos (§3.1), which runs scorers on a response and combines their verdicts.

A scorer checks one property of a response, and its result is a verdict. The content of the response and the run's
endpoints (model servers) decide which scorers run (:mod:`groundtrace.rewards.selection`).

If a scorer does not run, the ``reason`` of its verdict states why. The verdict has failed if the scorer is applicable
but cannot run, for example because a model role has no endpoint. Otherwise it is "not applicable". If a scorer runs,
the last entry of the verdict's ``evidence`` states why the scorer was chosen. The scorer ``outcome`` always runs, so
its verdict has no such entry.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from groundtrace.rewards.aggregate import GateSettings, gated
from groundtrace.rewards.case import Case
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorer_sets import TRACE_SCORERS
from groundtrace.rewards.scorers import outcome
from groundtrace.rewards.selection import Choice, plan_scorers, select_scorers
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.records import Verdict


@dataclass(frozen=True)
class VerifiedResponse:
    """Holds the verdicts (results of checks) on a response, and the score that combines them (Argos Eq. 9).

    ``score`` is None if the response could not be verified, for example because a model failed.
    """

    verdicts: tuple[Verdict, ...]
    score: float | None


async def verify(
    case: Case, gate: GateSettings, scorers: Sequence[Scorer] = TRACE_SCORERS, planner: str = "rules"
) -> VerifiedResponse:
    """Run scorers (checks) on a response, and return their verdicts in order, with the combined score (Argos Eq. 9).

    Some scorers do not run if their verdicts cannot change the score:

    - If the verdict on the outcome has no value, or a value below τ (``gate.tau``), it is the only verdict in the
      result.
    - If a scorer that is a gate, such as ``format``, has the value 0, the result has only the verdict of the scorer
      ``outcome`` and the verdicts of all gates.

    Args:
        case: the response with its question.
        gate: the weights of the score, τ, and the names of scorers to skip.
        scorers: the scorers that can run. One of them must be named ``outcome``.
        planner: how the scorers to run are selected from the applicable scorers: ``rules`` (all of them run) or
            ``judge`` (a model may leave out some).

    Raises:
        UserError: if no scorer is named ``outcome``.
        BudgetUsedUp: if the run's budget for model calls is used up.
    """
    case = replace(case, pointing=gate.pointing)
    grader = next((scorer for scorer in scorers if scorer.name == outcome.NAME), None)
    if grader is None:
        names = ", ".join(scorer.name for scorer in scorers) or "none"
        raise UserError(
            f"the argument `scorers` lacks the scorer {outcome.NAME!r}, which grades the answer (given: {names}): add "
            f"{outcome.__name__}.SCORER to this argument"
        )
    graded = await grader.verdict(case)
    if graded.value is None or graded.value < gate.tau:
        return VerifiedResponse((graded,), gated((graded,), gate))
    case = replace(case, outcome=graded)
    choices = select_scorers(case, scorers, gate.skip)
    gates = [await _verdict(choice, case) for choice in choices if choice.scorer.is_gate]
    names = [verdict.name for verdict in gates]
    if any(verdict.value == 0 for verdict in gates):
        return VerifiedResponse((graded, *gates), gated((graded, *gates), gate, names))
    if planner == "judge" and case.judge is not None:
        choices = await plan_scorers(choices, case, always=outcome.NAME)
    known = {verdict.name: verdict for verdict in (graded, *gates)}
    verdicts = tuple([known.get(choice.scorer.name) or await _verdict(choice, case) for choice in choices])
    return VerifiedResponse(verdicts, gated(verdicts, gate, names))


async def _verdict(choice: Choice, case: Case) -> Verdict:
    if not choice.chosen:
        return Verdict(choice.scorer.name, None, choice.reason, failed=choice.failed)
    verdict = await choice.scorer.verdict(case)
    return replace(verdict, evidence=(*verdict.evidence, json.dumps({"chosen": choice.reason}, ensure_ascii=False)))
