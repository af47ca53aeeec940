"""Scores the thinking of SAIL-RL (§3.1): whether the reasoning is coherent, is true, and leads to the answer.

A judge answers three yes/no questions, each in its own call. They are about logical coherence (d1), factual grounding
(d2) and answer consistency (d3). The judge sees the image for d1 and d2, but not for d3. R_think is the mean of d1, d2
and d3. If the judge fails on one of them, the verdict has failed.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence

from groundtrace.grading.messages import shown
from groundtrace.grading.responses.response import Response
from groundtrace.inference.caller import Caller, CallResult
from groundtrace.inference.role_calls import Asks
from groundtrace.rewards.case import Case
from groundtrace.rewards.complexity import COMPLEXITY, SIMPLE
from groundtrace.rewards.judge import ROLE, JudgeTask, Reading, judge, true_or_false
from groundtrace.rewards.judge_guard import question_text
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.records import Question, Verdict

NAME = "thinking"
LOGIC, GROUNDING, CONSISTENCY = "thinking_logic", "thinking_grounding", "thinking_consistency"
ASPECTS = (LOGIC, GROUNDING, CONSISTENCY)
LOGIC_PROMPT, GROUNDING_PROMPT = "judge_logic.v2", "judge_grounding.v2"
CONSISTENCY_PROMPT = "judge_think_consistency.v2"


async def score_thinking(
    question: Question,
    response: Response,
    caller: Caller,
    complexity: str | None = None,
    correct: bool | None = None,
) -> Verdict:
    """Return a verdict with R_think = (d1 + d2 + d3) / 3 in [0, 1] (SAIL-RL §3.1).

    The verdict has failed if the judge fails on d1, d2 or d3. Without reasoning the judge is not called. The paper
    gives 0 to a response that decides to think and does not think (§3.3), and does not define the reward of a direct
    answer. Here the reward of a direct answer is 1 if the answer is ``correct`` and ``complexity`` is ``simple``, else
    0, since a response must not gain by not thinking. Raises BudgetUsedUp.
    """
    if (response.think or "").strip():
        return thinking_of(await score_aspects(question, response, caller))
    if complexity == SIMPLE and correct:
        return Verdict(NAME, 1.0, "a correct direct answer to a simple question")
    return Verdict(NAME, 0.0, "no reasoning, and no correct direct answer to a simple question")


def thinking_of(aspects: Sequence[Verdict]) -> Verdict:
    """Return a verdict with the mean of the aspects' values, and the reason of each aspect.

    The verdict has failed if an aspect is unscored.
    """
    values = [aspect.value for aspect in aspects if aspect.value is not None]
    failed = len(values) < len(aspects)
    reason = "; ".join(
        f"{aspect.name.removeprefix('thinking_')} {'unscored' if aspect.value is None else f'{aspect.value:g}'}: "
        f"{aspect.reason}"
        for aspect in aspects
    )
    return Verdict(NAME, None if failed else sum(values) / len(values), reason, failed=failed)


async def score_aspects(
    question: Question, response: Response, caller: Caller, wanted: Collection[str] = ASPECTS
) -> tuple[Verdict, ...]:
    """Return the ``wanted`` verdicts among d1 (logic), d2 (grounding) and d3 (consistency), in this order.

    The value of each verdict is 1 or 0, unless the verdict has failed. The response must have reasoning; without an
    answer d3 is 0. Raises BudgetUsedUp after all calls have ended.
    """
    texts, asked = {"reasoning": response.think or ""}, {"question": question_text(question)}
    media = {"original": shown(question.media)}
    logical = JudgeTask(LOGIC_PROMPT, texts, _reader("sound"), asked, media)
    grounded = JudgeTask(GROUNDING_PROMPT, texts, _reader("true_to_sources"), asked, media)
    judging = {
        LOGIC: lambda: judge(LOGIC, logical, caller),
        GROUNDING: lambda: judge(GROUNDING, grounded, caller),
        CONSISTENCY: lambda: _consistency(asked, response, caller),
    }
    answers = await asyncio.gather(*(judging[name]() for name in ASPECTS if name in wanted), return_exceptions=True)
    verdicts = list[Verdict]()
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        verdicts.append(answer)
    return tuple(verdicts)


async def _consistency(asked: dict[str, str], response: Response, caller: Caller) -> Verdict:
    if response.answer is None or not response.answer.strip():
        return Verdict(CONSISTENCY, 0.0, "there is no answer that the reasoning could lead to")
    texts = {"reasoning": response.think or "", "predicted": response.answer}
    return await judge(CONSISTENCY, JudgeTask(CONSISTENCY_PROMPT, texts, _reader("supported"), asked), caller)


def _reader(field: str) -> Callable[[CallResult], Reading]:
    return true_or_false(field, f"{field}: ")


async def _score(case: Case) -> Verdict:
    correct = None if case.outcome is None or case.outcome.value is None else case.outcome.value == 1
    return await score_thinking(case.question, case.response, case.caller, case.context.added(COMPLEXITY), correct)


SCORER = Scorer(
    NAME,
    "the response chooses whether to think",
    _score,
    asks=(Asks(ROLE, (LOGIC_PROMPT, GROUNDING_PROMPT, CONSISTENCY_PROMPT)),),
)
