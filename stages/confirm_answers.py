"""Compares the teacher's written answers with the policy's attempts, before they are used as gold answers.

The inputs are drafts with attempts. A draft whose question and answer come with the record passes. A draft with an
answer of the teacher passes if more attempts give this answer than any other single answer. All other drafts are
rejected.

This check is our addition; the paper does not say how it confirms written answers. The judge has called the pair of
question and answer GOOD. But the judge may make the same errors as the teacher, and a reward with a wrong gold answer
teaches errors. The policy has seen neither the teacher's answer nor the judgement, so its attempts are independent. One
attempt that agrees is not enough: of four guesses at a yes-or-no question, two on average agree with a wrong answer.
"""

from collections import Counter
from dataclasses import dataclass

from groundtrace.grading.answers.grading import grade_answer
from groundtrace.schemas.records import Draft, Question
from groundtrace.schemas.text import folded
from groundtrace.stages.plumbing.stage import DraftStage, Reject, Stage, Work
from groundtrace.stages.write_questions import QUESTION_SOURCE, TEACHER

UNCONFIRMED = "unconfirmed_answer"


def most_given(answers: list[str], question: Question) -> int:
    """Return how often the most frequent of ``answers`` occurs; answers that the grader treats as equal are one answer.

    For example, ``6``, ``six`` and ``6.0`` are one answer if the answer type is a number. Return 0 if ``answers`` is
    empty.
    """
    found = Counter[str]()
    for answer in map(folded, answers):
        found[next((each for each in found if _is_same(answer, each, question)), answer)] += 1
    return max(found.values(), default=0)


def _is_same(answer: str, other: str, question: Question) -> bool:
    return answer == other or grade_answer(answer, other, question.answer_type, question.choices).value == 1


def confirm(draft: Draft) -> Draft:
    """Return the draft. Raises :class:`Reject` if the teacher wrote its answer and the attempts do not confirm it."""
    if draft.added(QUESTION_SOURCE) != TEACHER:
        return draft
    agreeing = sum(attempt.correct is True for attempt in draft.attempts)
    others = [attempt.answer or "" for attempt in draft.attempts if attempt.correct is False]
    most = most_given(others, draft.question)
    if agreeing <= most:
        detail = f"{agreeing} of {len(draft.attempts)} attempts agree with the written answer, {most} with another one"
        raise Reject(UNCONFIRMED, detail)
    return draft


STAGE = Stage(
    "confirm_answers",
    "a written answer that the policy's attempts do not give more often than any other is dropped",
    reasons={UNCONFIRMED: "the policy's attempts do not confirm the answer that the teacher wrote"},
    joins=True,
)


@dataclass
class ConfirmAnswers(DraftStage):
    """Keeps drafts whose answer comes with the record or is confirmed by the attempts; see the module."""

    stage = STAGE

    def work(self) -> Work:
        """Return :func:`confirm`, to be called with each draft."""
        return confirm
