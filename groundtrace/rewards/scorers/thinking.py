"""Scores the thinking of SAIL-RL (§3.1): whether the reasoning is coherent and true, and leads to the answer.

A judge answers three yes/no questions, each in a separate call. They are about logical coherence (d1), factual
grounding (d2) and answer consistency (d3). The judge sees the image for d1 and d2, but not for d3. R_think is the mean
of d1, d2 and d3, where yes is 1 and no is 0. If the judge fails on one of them, the verdict (the result) has failed.

:class:`ThinkingSettings` has the variants of the paper's ablations: other weights of d1, d2 and d3 (Table 8), and a
judge that gives a number from 0 to 1 instead of yes or no (Table 7).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from groundtrace.config.settings import Weight, settings
from groundtrace.grading.messages import shown
from groundtrace.grading.responses.response import Response
from groundtrace.inference.caller import Caller, CallResult
from groundtrace.inference.role_calls import Asks
from groundtrace.rewards.case import Case
from groundtrace.rewards.complexity import COMPLEXITY, SIMPLE
from groundtrace.rewards.judge import ROLE, JudgeTask, Reading, from_0_to_1, judge, true_or_false
from groundtrace.rewards.judge_guard import question_text
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.records import Question, Verdict

NAME = "thinking"
LOGIC, GROUNDING, CONSISTENCY = "thinking_logic", "thinking_grounding", "thinking_consistency"
ASPECTS = (LOGIC, GROUNDING, CONSISTENCY)
LOGIC_PROMPT, GROUNDING_PROMPT = "judge_logic.v2", "judge_grounding.v2"
CONSISTENCY_PROMPT = "judge_think_consistency.v2"
PROMPTS = {
    "discrete": {LOGIC: LOGIC_PROMPT, GROUNDING: GROUNDING_PROMPT, CONSISTENCY: CONSISTENCY_PROMPT},
    "continuous": {
        LOGIC: "score_logic.v1",
        GROUNDING: "score_grounding.v1",
        CONSISTENCY: "score_think_consistency.v1",
    },
}
"""The names of the judge's prompts: for each value of ``ThinkingSettings.signal``, the prompt of each aspect."""
FIELDS = {LOGIC: "sound", GROUNDING: "true_to_sources", CONSISTENCY: "supported"}
"""Maps each aspect to the field of the judge's reply that holds true or false, for the signal ``discrete``.

For the signal ``continuous``, the reply holds a number from 0 to 1 instead, in the field ``score``.
"""


@settings
class ThinkingSettings:
    """Holds the settings of R_think, the reward of the thinking (SAIL-RL §3.1).

    R_think is the weighted mean of d1 (logic), d2 (grounding) and d3 (consistency), so only the ratios of the weights
    matter.
    """

    logic: Annotated[Weight, "the weight of d1, logical coherence (Table 8: w_L); 0: it is not judged"] = 1.0
    grounding: Annotated[Weight, "the weight of d2, factual grounding (Table 8: w_H); 0: it is not judged"] = 1.0
    consistency: Annotated[Weight, "the weight of d3, answer consistency (Table 8: w_C); 0: it is not judged"] = 1.0
    signal: Annotated[
        Literal["discrete", "continuous"], "the judge answers yes or no, or gives a number from 0 to 1 (Table 7)"
    ] = "discrete"

    def __post_init__(self) -> None:
        if not self.weights:
            raise ValueError(
                "at least one of the weights 'logic', 'grounding' and 'consistency' must be greater than 0"
            )

    @classmethod
    def only(cls, aspect: str) -> "ThinkingSettings":
        """Return settings in which only one aspect has a weight, so that the judge is asked only about this aspect.

        ``aspect`` is one of :data:`ASPECTS`: logical coherence (d1), factual grounding (d2) or answer consistency (d3).
        """
        logic, grounding, consistency = (float(name == aspect) for name in (LOGIC, GROUNDING, CONSISTENCY))
        return cls(logic, grounding, consistency)

    @property
    def weights(self) -> dict[str, float]:
        """Return the weights above 0, as a dict from the name of the aspect (one of :data:`ASPECTS`) to its weight."""
        weights = {LOGIC: self.logic, GROUNDING: self.grounding, CONSISTENCY: self.consistency}
        return {name: weight for name, weight in weights.items() if weight > 0}


EQUAL = ThinkingSettings()
"""The settings of SAIL-RL §3.1: d1, d2 and d3 have equal weights, and the judge answers yes or no."""


async def score_thinking(
    question: Question,
    response: Response,
    caller: Caller,
    complexity: str | None = None,
    correct: bool | None = None,
    settings: ThinkingSettings = EQUAL,
) -> Verdict:
    """Return a verdict whose value is R_think in [0, 1] (SAIL-RL §3.1): with the paper's settings, (d1 + d2 + d3) / 3.

    The judge decides whether the reasoning is coherent (d1) and true (d2), and whether the reasoning leads to the
    answer (d3). The verdict has failed (value None) if the judge fails on d1, d2 or d3.

    If the response has no reasoning, the judge is not called. The value is then 1 if the answer is right and the
    question is simple, and 0 otherwise, so that leaving out the reasoning brings no gain for a complex question. This
    is our rule: the paper gives 0 to a response that decides to think and has no reasoning (§3.3), and does not define
    the value of a response that decides to answer directly.

    Args:
        question: the question.
        response: the parsed response.
        caller: the object with which the judge is called.
        complexity: the label of the question, ``simple`` or ``complex``; None if it has no label.
        correct: whether the final answer is right; None if this is unknown.
        settings: the weights of d1, d2 and d3, and the kind of reply that the judge gives.

    Raises:
        BudgetUsedUp: if the run's budget for model calls is used up.
    """
    if (response.think or "").strip():
        return thinking_of(await score_aspects(question, response, caller, settings), settings)
    if complexity == SIMPLE and correct:
        return Verdict(NAME, 1.0, "a correct direct answer to a simple question")
    return Verdict(NAME, 0.0, "no reasoning, and no correct direct answer to a simple question")


def thinking_of(aspects: Sequence[Verdict], settings: ThinkingSettings = EQUAL) -> Verdict:
    """Return a verdict whose value is the weighted mean of d1 (logic), d2 (grounding) and d3 (consistency).

    ``aspects`` holds the verdicts on d1, d2 and d3 (:func:`score_aspects`), and ``settings`` holds the weights. The
    reason of the result contains the reason of each of these verdicts. The result has failed (value None) if one of
    these verdicts has no value.
    """
    weights = settings.weights
    values = [(weights[aspect.name], aspect.value) for aspect in aspects if aspect.value is not None]
    failed = len(values) < len(aspects)
    reason = "; ".join(
        f"{aspect.name.removeprefix('thinking_')} {'unscored' if aspect.value is None else f'{aspect.value:g}'}: "
        f"{aspect.reason}"
        for aspect in aspects
    )
    if failed:
        return Verdict(NAME, None, reason, failed=True)
    mean = sum(weight * value for weight, value in values) / sum(weight for weight, _ in values)
    return Verdict(NAME, mean, reason)


async def score_aspects(
    question: Question, response: Response, caller: Caller, settings: ThinkingSettings = EQUAL
) -> tuple[Verdict, ...]:
    """Return the judge's verdicts (results) on d1 (logic), d2 (grounding) and d3 (consistency), in this order.

    An aspect whose weight is 0 in ``settings`` is left out. The value of a verdict is 1 or 0. If ``settings.signal`` is
    ``continuous``, the value is a number from 0 to 1 instead. The value is None if the judge failed. If the response
    has no answer, the value of d3 is 0.

    The response must have reasoning. ``caller`` is the object with which the judge is called. Raises BudgetUsedUp if
    the run's budget for model calls is used up, but only after all calls have ended.
    """
    texts, asked = {"reasoning": response.think or ""}, {"question": question_text(question)}
    media = {"original": shown(question.media)}
    prompts, signal = PROMPTS[settings.signal], settings.signal
    logical = JudgeTask(prompts[LOGIC], texts, _reader(LOGIC, signal), asked, media)
    grounded = JudgeTask(prompts[GROUNDING], texts, _reader(GROUNDING, signal), asked, media)
    judging = {
        LOGIC: lambda: judge(LOGIC, logical, caller),
        GROUNDING: lambda: judge(GROUNDING, grounded, caller),
        CONSISTENCY: lambda: _consistency(asked, response, caller, signal),
    }
    answers = await asyncio.gather(*(judging[name]() for name in settings.weights), return_exceptions=True)
    verdicts = list[Verdict]()
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        verdicts.append(answer)
    return tuple(verdicts)


async def _consistency(asked: dict[str, str], response: Response, caller: Caller, signal: str) -> Verdict:
    if response.answer is None or not response.answer.strip():
        return Verdict(CONSISTENCY, 0.0, "there is no answer that the reasoning could lead to")
    texts = {"reasoning": response.think or "", "predicted": response.answer}
    task = JudgeTask(PROMPTS[signal][CONSISTENCY], texts, _reader(CONSISTENCY, signal), asked)
    return await judge(CONSISTENCY, task, caller)


def _reader(aspect: str, signal: str) -> Callable[[CallResult], Reading]:
    field = FIELDS[aspect]
    return true_or_false(field) if signal == "discrete" else from_0_to_1("score", f"{aspect}: ")


def thinking_scorer(settings: ThinkingSettings = EQUAL) -> Scorer:
    """Return the scorer (check) of the thinking (SAIL-RL §3.1) with these settings; it calls :func:`score_thinking`."""

    async def score(case: Case) -> Verdict:
        correct = None if case.outcome is None or case.outcome.value is None else case.outcome.value == 1
        complexity = case.context.added(COMPLEXITY)
        return await score_thinking(case.question, case.response, case.caller, complexity, correct, settings)

    prompts = tuple(PROMPTS[settings.signal][name] for name in settings.weights)
    return Scorer(NAME, "the response chooses whether to think", score, asks=(Asks(ROLE, prompts),))


SCORER = thinking_scorer()
