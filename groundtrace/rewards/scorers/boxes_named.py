"""Scores boxes by iVGR Eq. 2, but a box matches a gold box only if its label can name the object of the gold box.

The paper does not have this reward. Eq. 2 uses only positions, so a policy would not learn to give its boxes right
labels. But crops of boxes, references (the reasonings with which others are compared) and readers need right labels.

The words of the two labels decide whether they can name the same object
(:func:`groundtrace.schemas.labels.names_alike`). If the words do not decide it, as for synonyms and other languages, a
judge decides. The judge is asked once for each pair of labels whose boxes overlap. The labels do not match if there is
no judge, or if the judge does not know or refuses a label. If the call of the judge fails for another reason, such as
an empty reply, the verdicts on the responses with these boxes have failed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from groundtrace.inference.caller import Caller
from groundtrace.inference.errors import CallError
from groundtrace.inference.grounding import BadReply
from groundtrace.inference.role_calls import Asks
from groundtrace.rewards.case import Case
from groundtrace.rewards.judge import ROLE, JudgeTask, Reading, ask_judge, true_or_false
from groundtrace.rewards.judge_guard import question_text
from groundtrace.rewards.locating import is_of_label
from groundtrace.rewards.scorers import boxes
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.labels import MAX_LABEL_CHARS, names_alike
from groundtrace.schemas.records import Question, Verdict

PROMPT = "judge_label.v1"
Pair = tuple[str, str]
"""The label of a box, and the label of a gold box."""


async def score_named_group(cases: Sequence[Case], form: str = "bidirectional") -> tuple[Verdict, ...]:
    """Return one verdict on the boxes of each response to one question, in order.

    The value of a verdict is from 0 to 1, as in :func:`groundtrace.rewards.scorers.boxes.score_group`. But a box
    matches a gold box only if its label can name the object of the gold box. If there are no gold boxes, the value is
    None. ``cases`` holds the responses; all of them answer the same question. ``form`` is the way to combine recall and
    precision, a name in :data:`groundtrace.rewards.scorers.boxes.FORMS`. Raises BudgetUsedUp if the run's budget for
    model calls is used up.
    """
    if not cases:
        return ()
    gold = cases[0].question.gold_boxes or ()
    unclear = [_unclear_pairs(case.boxes, gold) for case in cases]
    asked = sorted(set[Pair]().union(*unclear))
    found = dict(zip(asked, await asyncio.gather(*(_alike(pair, cases[0]) for pair in asked)), strict=True))

    def names(label: str, other: str) -> bool:
        known = names_alike(label, other)
        return found.get((label, other)) is True if known is None else known

    placed = boxes.score_group([case.boxes for case in cases], gold, form, names)
    return tuple(_failed(pairs, found) or verdict for pairs, verdict in zip(unclear, placed, strict=True))


def _unclear_pairs(written: Sequence[Box], gold: Sequence[Box]) -> set[Pair]:
    """Return the pairs of labels that a judge must compare.

    The first label of a pair is that of a response's box, and the second is that of a gold box. The two boxes overlap,
    and the words of their labels do not show whether both labels can name the same object. ``written`` holds the boxes
    of the response, and ``gold`` the gold boxes.
    """
    pairs = {(box.label, other.label) for box in written for other in gold if box.iou(other) > 0}
    return {pair for pair in pairs if names_alike(*pair) is None}


async def _alike(pair: Pair, case: Case) -> bool | str:
    """Ask the judge whether the two labels in ``pair`` can name the same object, and return the answer or an error
    message.

    The result is False if there is no judge, or if the judge refuses a label or does not know it. The result is an
    error message if the call fails for another reason, or if the judge's reply cannot be parsed.
    """
    if case.judge is None:
        return False
    try:
        value, _ = await ask_label(*pair, case.question, case.judge)
    except (CallError, BadReply) as error:
        return False if is_of_label(error) else f"judge: {error}"
    return value == 1


async def ask_label(label: str, gold: str, question: Question, caller: Caller) -> Reading:
    """Ask the judge whether a label can name the object of a gold label.

    Returns the value (1 for yes, 0 for no) and the judge's reason. ``label`` is the label of the response's box,
    ``gold`` is the label of the gold box, and ``caller`` is the object with which the judge is called.

    Raises CallError if the call fails, BadReply if the reply cannot be parsed, and BudgetUsedUp if the run's budget for
    model calls is used up.
    """
    task = JudgeTask(
        PROMPT,
        {"label": label},
        true_or_false("same"),
        fields={"question": question_text(question), "gold": gold},
        max_chars=2 * MAX_LABEL_CHARS,
    )
    return await ask_judge(task, caller)


def _failed(pairs: set[Pair], found: Mapping[Pair, bool | str]) -> Verdict | None:
    reasons = [reason for pair in sorted(pairs) if isinstance(reason := found[pair], str)]
    return Verdict(boxes.NAME, None, reasons[0], failed=True) if reasons else None


async def _score(case: Case) -> Verdict:
    return (await score_named_group([case]))[0]


SCORER = replace(boxes.SCORER, score=_score, asks=(Asks(ROLE, (PROMPT,), required=False, all_media=False),))
