"""Scores whether the reasoning supports the answer (Argos §3.1, Eq. 5).

The paper uses the probability P(answer | question, reasoning, image) of a larger model. :func:`score_reasoning` also
uses this probability if the judge's endpoint can return the log-probabilities of a given text. Otherwise a yes/no
question to the judge replaces the probability, and the reason of the verdict (the result) mentions this.
"""

import math

from groundtrace.grading.messages import shown
from groundtrace.inference.caller import Caller
from groundtrace.inference.errors import CallError
from groundtrace.inference.request import Continuation, Sampling
from groundtrace.inference.role_calls import Asks
from groundtrace.prompts.loader import load_prompt
from groundtrace.rewards import second_judge
from groundtrace.rewards.case import Case
from groundtrace.rewards.judge import ROLE, JudgeTask, judge, yes_or_no
from groundtrace.rewards.judge_guard import question_text
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.quoting import MAX_CHARS
from groundtrace.schemas.records import Question, Verdict

NAME = "reasoning"
JUDGE_PROMPT, PROBABILITY_PROMPT = "judge_reasoning.v3", "answer_after_reasoning.v1"
ANSWER_END = "</answer>"


async def score_reasoning(
    question: Question, reasoning: str | None, predicted: str | None, caller: Caller, role: str = ROLE
) -> Verdict:
    """Return a verdict on whether the reasoning of a response supports its answer; the value is in [0, 1].

    If the judge's endpoint can return log-probabilities, the value is P(answer | question, reasoning, image). Otherwise
    the judge is asked a yes/no question, and the value is 1 for yes and 0 for no. For a reasoning with more than
    :data:`groundtrace.schemas.quoting.MAX_CHARS` characters, the judge is always asked the yes/no question. The
    reasoning is then cut, and a mark in the prompt shows where it was cut.

    The value is 0 if there is no reasoning or no answer. The verdict has failed (value None) if the judge's call fails,
    or if the judge answers neither yes nor no.

    Args:
        question: the question.
        reasoning: the text of the think section; None if there is none.
        predicted: the final answer of the response; None if there is none.
        caller: the object with which the judge is called.
        role: the model role that judges.

    Raises:
        BudgetUsedUp: if the run's budget for model calls is used up.
    """
    if not reasoning or not reasoning.strip() or predicted is None:
        return Verdict(NAME, 0.0, "there is no reasoning, or no answer")
    if caller.gives_logprobs(role) and len(reasoning) <= MAX_CHARS:
        return await _probability(question, reasoning, predicted, caller, role)
    return await _judgement(question, reasoning, predicted, caller, role)


async def _probability(question: Question, reasoning: str, predicted: str, caller: Caller, role: str) -> Verdict:
    """Return a verdict whose value is P(answer | question, reasoning, image), as a model computes it (Argos Eq. 5).

    Deviation: the probability is that of the answer with its closing tag ``</answer>``. Otherwise the probability of
    the answer "2" would include the probability of all answers that begin with "2", such as "25".

    ``predicted`` is the answer. ``caller`` is the object with which the model is called, and ``role`` is the role of
    this model.
    """
    prompt = load_prompt(PROBABILITY_PROMPT).render(
        {"original": shown(question.media)}, question=question_text(question)
    )
    continuation = Continuation(f"<think>{reasoning}</think> <answer>", predicted + ANSWER_END)
    try:
        answered = await caller.generate(role, prompt, Sampling(), continuation=continuation)
    except CallError as error:
        return Verdict(NAME, None, f"{role}: {error}", failed=True)
    logprobs = answered.completions[0].logprobs
    if not logprobs:
        return Verdict(NAME, None, f"{role}: no log-probabilities came back", failed=True)
    probability = min(1.0, math.exp(sum(logprobs)))
    return Verdict(NAME, probability, f"P(answer | question, reasoning, media) over {len(logprobs)} tokens, Eq. 5")


async def _judgement(question: Question, reasoning: str, predicted: str, caller: Caller, role: str) -> Verdict:
    task = JudgeTask(
        JUDGE_PROMPT,
        {"reasoning": reasoning, "predicted": predicted},
        yes_or_no("supports"),
        fields={"question": question_text(question)},
        media={"original": shown(question.media)},
    )
    return await judge(NAME, task, caller, role, prefix="judge yes/no for Eq. 5: ")


async def _score(case: Case) -> Verdict:
    """Return the first judge's verdict on the reasoning of a response, which ``case`` holds.

    If the run has a second judge, its verdict is added to the evidence (the texts that are stored with the first
    verdict).
    """
    judged = (case.question, case.response.think, case.answer)
    verdict = await score_reasoning(*judged, case.caller)
    if second_judge.ROLE not in case.served.roles:
        return verdict
    return second_judge.with_second(verdict, await score_reasoning(*judged, case.caller, second_judge.ROLE))


_PROMPTS = (JUDGE_PROMPT, PROBABILITY_PROMPT)
SCORER = Scorer(
    NAME,
    "the response reasons before it answers",
    _score,
    needs=((lambda case: case.form.reasoning, "the answer was asked for without reasoning"),),
    asks=(Asks(ROLE, _PROMPTS), Asks(second_judge.ROLE, _PROMPTS, required=False)),
)
