"""Scores the outcome: whether the final answer is right (Argos §3.1, Eq. 6–8).

Rules grade the answer if they can (:mod:`groundtrace.grading.answers.grading`); otherwise the judge grades it. If the
judge fails, the answer is unscored: it counts as neither right nor wrong. Without a judge, two rules apply. If the gold
answer is free text, an answer that differs from it in words is unscored. For any other gold answer, an answer that
rules cannot grade is wrong.
"""

from groundtrace.grading.answers.grading import grade_answer
from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.inference.caller import Caller
from groundtrace.inference.role_calls import Asks
from groundtrace.rewards.case import Case
from groundtrace.rewards.judge import JudgeTask, judge, true_or_false
from groundtrace.rewards.judge_guard import question_text
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.records import Question, Verdict

NAME = "outcome"
JUDGE_PROMPT = "judge_answer.v3"
MAX_ANSWER_CHARS = 2000
ASKS = (Asks("judge", (JUDGE_PROMPT,), required=False),)


def needs_judge(question: Question) -> bool:
    """Return whether a judge is needed to grade an answer that differs in words from the question's gold answer.

    The result is True if the gold answer is free text. It is False if rules can grade the answer, for example if the
    gold answer is a number.
    """
    return answer_type_named(question.answer_type).needs_judge(question.answer, question.choices)


async def score_outcome(question: Question, predicted: str | None, caller: Caller | None) -> Verdict:
    """Return a verdict on the final answer: its value is 1 for a right answer, and 0 for a wrong or missing answer.

    The verdict has no value (None) if neither rules nor the judge can decide.

    ``predicted`` is the final answer of the response; None if it has no answer. ``caller`` is the object with which the
    judge is called; None if the run has no judge. Without a judge, an answer that only a judge can grade has no value
    if the gold answer is free text, else the value 0. For example, the answer "at least 3" has the value 0 if the
    gold answer is the number 3.
    """
    grade = grade_answer(predicted, question.answer, question.answer_type, question.choices)
    if grade.value is not None or grade.method != "judge" or predicted is None:
        return Verdict(NAME, grade.value, f"{grade.method}: {grade.reason}")
    if caller is None and not needs_judge(question):
        return Verdict(NAME, 0.0, f"{grade.method}: {grade.reason}, and no judge is configured")
    if caller is None:
        return Verdict(NAME, None, "judge: no judge is configured for free text", failed=True)
    task = JudgeTask(
        JUDGE_PROMPT,
        {"predicted": predicted},
        true_or_false("same"),
        fields={"question": question_text(question), "gold": question.answer},
        max_chars=MAX_ANSWER_CHARS,
    )
    return await judge(NAME, task, caller, prefix="judge: ")


async def _score(case: Case) -> Verdict:
    return await score_outcome(case.question, case.answer, case.judge)


SCORER = Scorer(
    NAME,
    "every response has its answer graded",
    _score,
    asks=(Asks("judge", (JUDGE_PROMPT,), required=False, all_media=False),),
)
