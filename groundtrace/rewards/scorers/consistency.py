"""Scores the consistency of iVGR (§3.3): whether a textual reasoning has the content of a good grounded reasoning.

A judge compares two texts without seeing the image, and assigns one of four levels to the candidate. The candidate is
the textual reasoning. The reference is the best grounded reasoning found so far for the question. The trainer keeps
these references (the archive, Eq. 4).

Deviation: a candidate without any content of the reference gets the lowest level. By the paper's wording, such a
candidate only leaves out details, and would get 0.7.
"""

from groundtrace.grading.responses.response import Response
from groundtrace.inference.caller import Caller, CallResult
from groundtrace.inference.grounding import BadReply, json_object
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks
from groundtrace.rewards.case import Case
from groundtrace.rewards.judge import BRIEFLY, ROLE, JudgeTask, Reading, judge, reason_of
from groundtrace.rewards.judge_guard import agreed, question_text
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.records import Question, Verdict

NAME = "consistency"
PROMPT = "judge_reference.v2"
LEVELS = {"identical": 1.0, "one_kind": 0.7, "both_kinds": 0.3, "contradicts": 0.0}
"""The levels α of §3.3: the same content; details left out *or* added; left out *and* added; a contradiction, or
no content of the reference."""
MIN_BOX_SCORE = 0.3
"""The paper's τ."""
SEVERAL_TEMPERATURE = 0.5
"""The temperature for several judgements (Table 9). A single judgement is decoded greedily; the paper uses 0.01."""


def is_reference(
    response: Response,
    outcome: float | None,
    box_score: float | None,
    threshold: float = MIN_BOX_SCORE,
    band: tuple[float, float] | None = None,
) -> bool:
    """Return whether a grounded response may be a reference (§3.3).

    The format must be valid, the answer right, and R_box (``box_score``) above ``threshold``. If ``band`` = (low, high)
    is given, it replaces the threshold: low ≤ R_box < high (Table 8). If high is 1, R_box can also be 1. The result is
    False if the outcome or the box score is None (unscored).
    """
    if not response.has_format or outcome != 1.0 or box_score is None:
        return False
    if band is None:
        return box_score > threshold
    low, high = band
    return low <= box_score and (box_score < high or high == 1)


async def score_consistency(
    reference_text: str | None,
    reasoning: str | None,
    question: Question,
    caller: Caller,
    judgements: int = 1,
    max_apart: float | None = None,
) -> Verdict:
    """Return R_consistency = α in [0, 1] (iVGR §3.3), or the mean of several judgements of α (§5, Table 9: four).

    Args:
        reference_text: the reasoning of the reference. It is None while the archive has no reference for the question;
            the score is then 0. Do not call this function for a question without gold boxes: such a question has no
            reference and no consistency reward (App. B).
        reasoning: the textual reasoning; a missing or empty reasoning scores 0.
        question: the question that both texts answer.
        caller: the caller of the judge.
        judgements: the number of samples (replies of the judge to one request) that are averaged. Samples of the wrong
            form are left out; if fewer than half remain, the verdict has failed.
        max_apart: None if the judge sees the texts only in one order. If it is a number, a second call shows the texts
            in the reverse order. The verdict has failed if the values of the two calls differ by more than this number
            (:func:`groundtrace.rewards.judge_guard.agreed`).

    Raises BudgetUsedUp, and ValueError for ``judgements`` below 1.
    """
    if reference_text is None or not reference_text.strip():
        return Verdict(NAME, 0.0, "there is no grounded reference yet")
    if reasoning is None or not reasoning.strip():
        return Verdict(NAME, 0.0, "there is no reasoning that could describe what the reference does")
    texts = (("REFERENCE", reference_text), ("CANDIDATE", reasoning))
    straight = await _judged(texts, question, caller, judgements)
    if max_apart is None or straight.value is None:
        return straight
    return agreed(straight, await _judged(texts[::-1], question, caller, judgements), max_apart)


async def _judged(texts: tuple[tuple[str, str], ...], question: Question, caller: Caller, judgements: int) -> Verdict:
    """Return the judge's verdict with the texts in this order."""
    (first_name, first), (second_name, second) = texts
    task = JudgeTask(
        PROMPT,
        {"first": first, "second": second},
        mean_of_reply,
        fields={"question": question_text(question), "first_name": first_name, "second_name": second_name},
        sampling=Sampling(judgements, SEVERAL_TEMPERATURE if judgements > 1 else 0.0, max_tokens=BRIEFLY.max_tokens),
    )
    return await judge(NAME, task, caller)


def mean_of_reply(reply: CallResult) -> Reading:
    """Return the mean level of the samples that can be parsed, and the judge's reasons.

    Raises BadReply if fewer than half of the samples can be parsed.
    """
    levels, faults = [], []
    for completion in reply.completions:
        try:
            levels.append(_level(completion.text))
        except BadReply as error:
            faults.append(error)
    if 2 * len(levels) < len(reply.completions):
        raise BadReply(f"{len(faults)} of {len(reply.completions)} judgements have a wrong form: {faults[0]}")
    value = sum(LEVELS[level] for level, _ in levels) / len(levels)
    reasons = "; ".join(f"{level}: {reason}" for level, reason in levels)
    return value, f"{len(levels)} of {len(reply.completions)} judgements: {reasons}"


def _level(text: str) -> tuple[str, str]:
    fields = json_object(text)
    level = fields.get("verdict")
    if not isinstance(level, str) or level not in LEVELS:
        raise BadReply(f"verdict: expected one of {', '.join(LEVELS)}, got {level!r:.80}")
    return level, reason_of(fields)


def consistency_scorer(judgements: int = 1, max_apart: float | None = None) -> Scorer:
    """Return a scorer that passes these arguments to :func:`score_consistency`."""

    async def score(case: Case) -> Verdict:
        texts = (case.context.reference, case.response.think)
        return await score_consistency(*texts, case.question, case.caller, judgements, max_apart)

    return Scorer(
        NAME,
        "there can be a grounded reference to agree with",
        score,
        needs=((lambda case: bool(case.question.gold_boxes), "without gold boxes there is no grounded reference"),),
        asks=(Asks(ROLE, (PROMPT,), all_media=False),),
    )


SCORER = consistency_scorer()
