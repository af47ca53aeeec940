"""Selects the scorers (checks) that run for a response, as the agentic verifier of Argos does for each sample (§3).

Each scorer has conditions on the response, the question and the run's endpoints, i.e. model servers
(:class:`groundtrace.rewards.scorer.Scorer`). By default, a scorer runs if all of its conditions are true. With the
planner ``judge``, a model may leave out some of these scorers (:func:`plan_scorers`). Deviation: in the paper, a model
always selects the scorers.

The conditions are checked without a call of a model. Each condition has a text, which is the reason why a scorer does
not run. If the condition is false, the verdict (result) of its scorer contains this text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from groundtrace.grading.messages import shown
from groundtrace.inference.caller import CallResult
from groundtrace.inference.errors import CallError
from groundtrace.inference.grounding import BadReply, json_object
from groundtrace.rewards.case import Case
from groundtrace.rewards.judge import MAX_REASON_CHARS, JudgeTask, ask_judge
from groundtrace.rewards.judge_guard import question_text
from groundtrace.rewards.scorer import Scorer

PLAN_PROMPT = "plan_scorers.v2"
Planner = Literal["rules", "judge"]


@dataclass(frozen=True)
class Choice:
    """Holds the decision whether a scorer (a check of one property of a response) runs for a response.

    Attributes:
        scorer: the scorer.
        chosen: whether the scorer runs.
        reason: the reason for the decision.
        failed: True if the scorer is applicable but cannot run, for example because a model role has no endpoint (model
            server). False if the scorer runs, or if it is not applicable.
    """

    scorer: Scorer
    chosen: bool
    reason: str
    failed: bool = False


def select_scorers(case: Case, scorers: Sequence[Scorer], skip: Sequence[str] = ()) -> tuple[Choice, ...]:
    """Decide for each scorer (check) whether it runs for a response; return the decisions in the order of ``scorers``.

    ``case`` holds the response, its question and the data that scorers need. A scorer whose name is in ``skip`` does
    not run.
    """
    return tuple(
        Choice(scorer, False, "left out by the config") if scorer.name in skip else choose(scorer, case)
        for scorer in scorers
    )


def choose(scorer: Scorer, case: Case) -> Choice:
    """Decide whether the scorer (a check) runs for this case, which is a response with its question.

    The scorer runs if three conditions hold: all tests in its field ``needs`` succeed, its required model roles have
    endpoints (model servers), and all tests in its field ``means`` succeed. The result holds the decision and the
    reason for it. If a test in ``needs`` fails, the scorer is not applicable. If the scorer is applicable, but the
    second or the third condition does not hold, the field ``failed`` of the result is True.
    """
    unmet = next((need for holds, need in scorer.needs if not holds(case)), None)
    if unmet is not None:
        return Choice(scorer, False, unmet)
    absent = [asks.role for asks in scorer.asks if asks.required and asks.role not in case.served.roles]
    lacks = f"no {' and '.join(absent)} is configured" if absent else None
    lacks = lacks or next((need for holds, need in scorer.means if not holds(case)), None)
    return Choice(scorer, lacks is None, scorer.why if lacks is None else lacks, failed=lacks is not None)


async def plan_scorers(choices: tuple[Choice, ...], case: Case, always: str) -> tuple[Choice, ...]:
    """Return the choices after the judge has left out scorers (checks) that it does not consider useful.

    ``choices`` holds, for each scorer, the decision whether it runs (:func:`select_scorers`), and ``case`` holds the
    response. A response could contain instructions for the judge. So the judge cannot add a scorer that does not run
    according to ``choices``, and cannot leave out three kinds of scorers: gates (a value of 0 makes the whole score 0),
    grounding scorers (they compare the response with the images), and the scorer whose name is ``always``.

    If the call of the judge fails, or its reply is bad, no scorer is left out, and the reasons mention the failure.
    """
    offered = tuple(choice for choice in choices if choice.chosen and _is_optional(choice.scorer, always))
    if not offered:
        return choices
    question, names = case.question, {choice.scorer.name for choice in offered}
    task = JudgeTask(
        PLAN_PROMPT,
        {"response": case.text},
        _reader(names | {always}),
        fields={
            "question": question_text(question),
            "answer_type": question.answer_type,
            "scorers": "\n".join(f"{choice.scorer.name}: {choice.reason}" for choice in offered),
        },
        media={"original": shown(question.media)},
    )
    try:
        wanted = await ask_judge(task, case.caller)
    except (CallError, BadReply) as error:
        note = f"; the planner failed: {error}"
        return tuple(replace(c, reason=c.reason + note) if c in offered else c for c in choices)
    return tuple(_planned(choice, wanted) if choice in offered else choice for choice in choices)


def _is_optional(scorer: Scorer, always: str) -> bool:
    return not (scorer.name == always or scorer.is_gate or scorer.is_grounding)


def _reader(names: set[str]) -> Callable[[CallResult], dict[str, str]]:
    """Return a parser of the planner's reply.

    The planner is the judge model when it selects the scorers (checks) that run for a response. The parser returns a
    mapping: for each scorer that the planner selects, the scorer's name and the planner's reason. The parser raises
    BadReply if the reply has the wrong form, or if it contains a name that is not in ``names``.
    """

    def read(reply: CallResult) -> dict[str, str]:
        rows = json_object(reply.text).get("scorers")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise BadReply(f"the reply's field 'scorers' must be a list of objects, got {rows!r:.80}")
        wanted = {str(row.get("name")): str(row.get("reason", ""))[:MAX_REASON_CHARS] for row in rows}
        unknown = sorted(wanted.keys() - names)
        if unknown:
            raise BadReply(f"the scorer {unknown[0]!r:.80} is not in the list of scorers: use only names from the list")
        return wanted

    return read


def _planned(choice: Choice, wanted: dict[str, str]) -> Choice:
    if choice.scorer.name in wanted:
        return replace(choice, reason=f"planned: {wanted[choice.scorer.name]}")
    return Choice(choice.scorer, False, "left out by the planner")
