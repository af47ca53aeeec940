"""The box reward with names: iVGR Eq. 2, where a box counts on no gold box whose name it cannot have.

Not in the paper, whose Eq. 2 speaks of positions only: a response would learn nothing about what it calls its objects,
and the crops, references and readers of its reasoning go by that. Whether two labels can name one object their words
tell where they do (:func:`groundtrace.schemas.labels.names_alike`); of synonyms and other languages the judge is asked,
once for each pair of labels of boxes that overlap. Where no judge can be asked, or it does not know the label, other
words are another name. A judge that fails leaves the responses unscored whose boxes it was asked about.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from groundtrace.inference.asking import Asks
from groundtrace.inference.caller import Caller
from groundtrace.inference.errors import CallError
from groundtrace.inference.grounding import BadReply
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
"""The label of a box, and that of a gold box."""


async def score_named_group(cases: Sequence[Case], form: str = "bidirectional") -> tuple[Verdict, ...]:
    """Returns one verdict for each of the responses to one question, in their order, as
    :func:`groundtrace.rewards.scorers.boxes.score_group` does with positions alone. Raises BudgetUsedUp.
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
    """The pairs of labels of boxes that overlap, of which their words do not tell whether they can name one object."""
    pairs = {(box.label, other.label) for box in written for other in gold if box.iou(other) > 0}
    return {pair for pair in pairs if names_alike(*pair) is None}


async def _alike(pair: Pair, case: Case) -> bool | str:
    """Whether both labels can name one object, as the judge says; why nobody knows, where it fails."""
    if case.judge is None:
        return False
    try:
        value, _ = await ask_label(*pair, case.question, case.judge)
    except (CallError, BadReply) as error:
        return False if is_of_label(error) else f"judge: {error}"
    return value == 1


async def ask_label(label: str, gold: str, question: Question, caller: Caller) -> Reading:
    """Returns 1 where the label can name what the gold one does, else 0, and why. Raises CallError, BadReply and
    BudgetUsedUp.
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
