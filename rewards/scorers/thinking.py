"""The thinking reward of SAIL-RL (§3.1): is the reasoning coherent, true to its sources, and the ground of the answer?

Three questions that a judge answers by yes or no, each asked on its own: logical coherence d1 and factual grounding d2
with the image at hand, answer consistency d3 from the text alone. R_think is their mean. Deviation: one that the
judge failed to answer leaves numerator and denominator.
"""

import asyncio
from collections.abc import Callable, Sequence

from inference.asking import Asks
from inference.models import Answered, Caller
from rewards.case import COMPLEX, SIMPLE, Case
from rewards.judge import ROLE, JudgeTask, Reading, judge, true_or_false
from rewards.judge_guard import question_text
from rewards.scorer import Scorer
from rewards.scorers.judging import decision_of
from schemas.messages import shown
from schemas.records import Question, Verdict
from schemas.responses.response import Response

NAME = "thinking"
LOGIC, GROUNDING, CONSISTENCY = "thinking_logic", "thinking_grounding", "thinking_consistency"
LOGIC_PROMPT, GROUNDING_PROMPT = "judge_logic.v1", "judge_grounding.v1"
CONSISTENCY_PROMPT = "judge_think_consistency.v1"


async def score_thinking(
    question: Question,
    response: Response,
    caller: Caller,
    complexity: str | None = None,
    correct: bool | None = None,
) -> Verdict:
    """R_think = (d1 + d2 + d3) / 3 in [0, 1] (SAIL-RL §3.1), unscored where the judge answered none of the three.

    Without reasoning the judge is not asked. The paper gives 0 to a response that chose to think and did not (§3.3) and
    leaves a direct answer open: it scores 1 where it is ``correct`` and ``complexity`` is ``simple``, else it is
    unscored; Eq. 1 is then 0 by another factor. Raises BudgetUsedUp.
    """
    if not (response.think or "").strip():
        return _without_reasoning(response, complexity, correct)
    return thinking_of(await score_aspects(question, response, caller))


def thinking_of(aspects: Sequence[Verdict]) -> Verdict:
    """The mean of the scored aspects, with what was said of each."""
    values = [aspect.value for aspect in aspects if aspect.value is not None]
    said = "; ".join(
        f"{aspect.name.removeprefix('thinking_')} {'unscored' if aspect.value is None else f'{aspect.value:g}'}: "
        f"{aspect.reason}"
        for aspect in aspects
    )
    return Verdict(NAME, sum(values) / len(values) if values else None, said)


async def score_aspects(question: Question, response: Response, caller: Caller) -> tuple[Verdict, Verdict, Verdict]:
    """d1, d2 and d3 of a response with reasoning, each 1, 0 or unscored: logic, grounding, consistency.

    A response without an answer has nothing that its reasoning leads to: d3 is 0. Raises BudgetUsedUp, once no question
    is under way any more.
    """
    texts, asked = {"reasoning": response.think or ""}, {"question": question_text(question)}
    media = {"original": shown(question.media)}
    logical = JudgeTask(LOGIC_PROMPT, texts, _reader("sound"), asked, media)
    grounded = JudgeTask(GROUNDING_PROMPT, texts, _reader("true_to_sources"), asked, media)
    answers = await asyncio.gather(
        judge(LOGIC, logical, caller),
        judge(GROUNDING, grounded, caller),
        _consistency(asked, response, caller),
        return_exceptions=True,
    )
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    logic, grounding, consistency = answers
    return logic, grounding, consistency  # type: ignore[return-value]


def _without_reasoning(response: Response, complexity: str | None, correct: bool | None) -> Verdict:
    if decision_of(response.judge) == COMPLEX:
        return Verdict(NAME, 0.0, "the response chose to think and holds no reasoning")
    if complexity == SIMPLE and correct:
        return Verdict(NAME, 1.0, "a correct direct answer to a simple question")
    return Verdict(NAME, None, "no reasoning to judge")


async def _consistency(asked: dict[str, str], response: Response, caller: Caller) -> Verdict:
    if response.answer is None or not response.answer.strip():
        return Verdict(CONSISTENCY, 0.0, "there is no answer that the reasoning could lead to")
    texts = {"reasoning": response.think or "", "predicted": response.answer}
    return await judge(CONSISTENCY, JudgeTask(CONSISTENCY_PROMPT, texts, _reader("supported"), asked), caller)


def _reader(field: str) -> Callable[[Answered], Reading]:
    return true_or_false(field, f"{field}: ")


async def _score(case: Case) -> Verdict:
    correct = None if case.outcome is None or case.outcome.value is None else case.outcome.value == 1
    return await score_thinking(case.question, case.response, case.caller, case.context.complexity, correct)


SCORER = Scorer(
    NAME,
    "the response chooses whether to think",
    _score,
    asks=(Asks(ROLE, (LOGIC_PROMPT, GROUNDING_PROMPT, CONSISTENCY_PROMPT)),),
)
