"""The thinking reward of SAIL-RL (§3.1): is the reasoning coherent, true to its sources, and the ground of the answer?

Three questions that a judge answers by yes or no, each asked on its own: logical coherence d1 and factual grounding d2
with the picture at hand, answer consistency d3 from the text alone. R_think is their mean. Deviation: one that the
judge failed to answer leaves numerator and denominator.
"""

import asyncio
from collections.abc import Sequence

from inference.asking import ask_for
from inference.errors import CallError
from inference.grounding import BadReply, json_object
from inference.models import Answered, Caller
from inference.request import Sampling
from prompts.loader import RenderedPrompt, load_prompt
from rewards.judge_guard import question_text, quote
from rewards.scorers.judging import COMPLEX, SIMPLE, decision_of
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
    quoted, asked = quote(response.think or ""), question_text(question)
    fields = {"question": asked, "reasoning": quoted.texts[0], "mark": quoted.mark}
    media = {"original": shown(question.media)}
    answers = await asyncio.gather(
        _ask(LOGIC, load_prompt(LOGIC_PROMPT).render(media, **fields), "sound", caller),
        _ask(GROUNDING, load_prompt(GROUNDING_PROMPT).render(media, **fields), "true_to_sources", caller),
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


async def _consistency(asked: str, response: Response, caller: Caller) -> Verdict:
    if response.answer is None or not response.answer.strip():
        return Verdict(CONSISTENCY, 0.0, "there is no answer that the reasoning could lead to")
    quoted = quote(response.think or "", response.answer)
    reasoning, predicted = quoted.texts
    prompt = load_prompt(CONSISTENCY_PROMPT).render(
        question=asked, reasoning=reasoning, predicted=predicted, mark=quoted.mark
    )
    return await _ask(CONSISTENCY, prompt, "supported", caller)


async def _ask(name: str, prompt: RenderedPrompt, field: str, caller: Caller) -> Verdict:
    def judged(reply: Answered) -> tuple[bool, str]:
        fields = json_object(reply.text)
        value = fields.get(field)
        if not isinstance(value, bool):
            raise BadReply(f"{field}: expected true or false, got {value!r:.80}")
        return value, str(fields.get("reason", ""))[:200]

    try:
        (value, reason), _ = await ask_for(caller, "judge", prompt, Sampling(max_tokens=1024), judged)
    except (CallError, BadReply) as error:
        return Verdict(name, None, f"judge: {error}")
    return Verdict(name, float(value), reason)
