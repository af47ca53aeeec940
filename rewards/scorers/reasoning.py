"""The reasoning reward: does the reasoning support the answer (Argos §3.1, Eq. 5)?

The paper takes the probability P(answer | question, reasoning, image) of a larger model, and so does
:func:`score_reasoning` where the judge's endpoint gives the log-probabilities of a text that it did not write. Where it
does not, a yes/no question stands for it, and the verdict says so.
"""

import math

from inference.asking import ask_for
from inference.errors import CallError
from inference.grounding import BadReply, json_object
from inference.models import Answered, Caller
from inference.request import Continuation, Sampling
from prompts.loader import load_prompt
from rewards.judge_guard import MAX_CHARS, question_text, quote
from schemas.messages import shown
from schemas.records import Question, Verdict

NAME = "reasoning"
JUDGE_PROMPT, PROBABILITY_PROMPT = "judge_reasoning.v2", "answer_after_reasoning.v1"
VALUES = {"yes": 1.0, "no": 0.0, "cannot_judge": None}
ANSWER_END = "</answer>"


async def score_reasoning(
    question: Question, reasoning: str | None, predicted: str | None, caller: Caller, role: str = "judge"
) -> Verdict:
    """P(answer | question, reasoning, image) in [0, 1], or the judge's yes (1) or no (0); else unscored.

    ``role`` is the judge that is asked. Reasoning beyond what a judge is shown is left to the yes/no question, which
    says where it was cut. Raises BudgetUsedUp.
    """
    if not reasoning or not reasoning.strip() or predicted is None:
        return Verdict(NAME, None, "no reasoning or no answer to judge")
    if caller.gives_logprobs(role) and len(reasoning) <= MAX_CHARS:
        return await _probability(question, reasoning, predicted, caller, role)
    return await _judgement(question, reasoning, predicted, caller, role)


async def _probability(question: Question, reasoning: str, predicted: str, caller: Caller, role: str) -> Verdict:
    """Eq. 5. Deviation: the closing tag is part of the answer, so that "2" does not stand for "25" too."""
    prompt = load_prompt(PROBABILITY_PROMPT).render(
        {"original": shown(question.media)}, question=question_text(question)
    )
    continuation = Continuation(f"<think>{reasoning}</think> <answer>", predicted + ANSWER_END)
    try:
        answered = await caller.generate(role, prompt, Sampling(), continuation=continuation)
    except CallError as error:
        return Verdict(NAME, None, f"{role}: {error}")
    logprobs = answered.completions[0].logprobs
    if not logprobs:
        return Verdict(NAME, None, f"{role}: no log-probabilities came back")
    probability = min(1.0, math.exp(sum(logprobs)))
    return Verdict(NAME, probability, f"P(answer | question, reasoning, media) over {len(logprobs)} tokens, Eq. 5")


async def _judgement(question: Question, reasoning: str, predicted: str, caller: Caller, role: str) -> Verdict:
    quoted = quote(reasoning, predicted)
    prompt = load_prompt(JUDGE_PROMPT).render(
        {"original": shown(question.media)},
        question=question_text(question),
        reasoning=quoted.texts[0],
        predicted=quoted.texts[1],
        mark=quoted.mark,
    )
    try:
        (value, reason), _ = await ask_for(caller, role, prompt, Sampling(max_tokens=1024), _judged)
    except (CallError, BadReply) as error:
        return Verdict(NAME, None, f"{role}: {error}")
    return Verdict(NAME, value, f"judge yes/no for Eq. 5: {reason}")


def _judged(reply: Answered) -> tuple[float | None, str]:
    fields = json_object(reply.text)
    supports = str(fields.get("supports"))
    if supports not in VALUES:
        raise BadReply(f"expected yes, no or cannot_judge, got {supports!r:.80}")
    return VALUES[supports], str(fields.get("reason", ""))[:200]
