"""Checks the answers that the teacher model wrote: the policy model's attempts must confirm an answer before it becomes
a gold answer.

The inputs are drafts (questions with their data) that have attempts (the policy's sampled answers). A draft whose
question and answer come from the input record passes. A draft with an answer of the teacher passes if more attempts
give this answer than any other single answer. All other drafts are rejected.

This check is our addition; the paper CodeDance does not say how it confirms the answers that a teacher wrote. The judge
model has called the pair of question and answer GOOD. But the judge may make the same errors as the teacher, and a
reward with a wrong gold answer teaches errors. The policy has seen neither the teacher's answer nor the judgement, so
its attempts are independent. One attempt that agrees is not enough: of four guesses at a yes-or-no question, two on
average agree with a wrong answer.
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
    """Return the number of times that the most frequent answer occurs in ``answers``; 0 if ``answers`` is empty.

    Answers that the grader treats as equal for this ``question`` are counted as one answer. For example, ``6``, ``six``
    and ``6.0`` are one answer if the answer type is a number.
    """
    found = Counter[str]()
    for answer in map(folded, answers):
        found[next((each for each in found if _is_same(answer, each, question)), answer)] += 1
    return max(found.values(), default=0)


def _is_same(answer: str, other: str, question: Question) -> bool:
    return answer == other or grade_answer(answer, other, question.answer_type, question.choices).value == 1


def confirm(draft: Draft) -> Draft:
    """Return the draft (a question with its data) if its answer can be used as the gold answer; otherwise raise
    :class:`Reject`.

    ``draft`` has attempts (the policy model's sampled answers). An answer that comes from the input record can be used.
    An answer that the teacher model wrote can be used if more of the policy's attempts give it than any other answer.
    """
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
    """Stage (pipeline step) that keeps a draft (a question with its data) if its answer comes from the input record, or
    if the policy model's attempts confirm it.
    """

    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function rejects the draft if the
        policy model's attempts do not confirm the teacher model's answer (:func:`confirm`).
        """
        return confirm
