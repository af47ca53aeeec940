"""Scores the consistency of the paper iVGR (§3.3): whether a reasoning in words has the content of a good reasoning
with boxes.

A judge compares two texts, the candidate and the reference, without seeing the image. It rates the candidate with one
of four levels. The candidate is the textual reasoning, which is only in words. The reference is the best grounded
reasoning (with boxes) that training has found for the question. The trainer stores these references (the archive of
Eq. 4).

Deviation: a candidate that has none of the reference's content gets the lowest level, 0. By the wording of the paper, a
candidate without this content only leaves out details, so it would get the level 0.7.
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
"""The levels α of iVGR §3.3: how well the candidate (a textual reasoning) agrees with the reference.

- ``identical``: the candidate has the same content as the reference.
- ``one_kind``: the candidate leaves out details *or* adds details.
- ``both_kinds``: the candidate leaves out details *and* adds details.
- ``contradicts``: the candidate contradicts the reference, or has none of the reference's content.
"""
MIN_BOX_SCORE = 0.3
"""τ in the paper of iVGR: by default, a response can be a reference only if its box score is above this value."""
SEVERAL_TEMPERATURE = 0.5
"""The temperature of the judge if it makes several judgements (iVGR, Table 9).

For a single judgement, the paper of iVGR uses the temperature 0.01. Here a single judgement is decoded greedily.
"""


def is_reference(
    response: Response,
    outcome: float | None,
    box_score: float | None,
    threshold: float = MIN_BOX_SCORE,
    band: tuple[float, float] | None = None,
) -> bool:
    """Return whether a grounded response may become the reference of its question (iVGR §3.3).

    The result is True if the response has a valid format, its answer is right, and its box score is high enough. By
    default, "high enough" means above ``threshold``.

    Args:
        response: the parsed response.
        outcome: the value of the verdict on the answer, 1 for a right answer; None if the answer is unscored.
        box_score: R_box, the value of the verdict on the boxes; None if the boxes are unscored. The result is then
            False.
        threshold: the limit for the box score.
        band: None, or (low, high). If it is given, it replaces ``threshold``: low ≤ R_box < high (Table 8). If high is
            1, R_box may be 1.
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
    """Return a verdict whose value is R_consistency = α: how well a reasoning agrees with a reference.

    For one judgement, α is one of the four values of :data:`LEVELS`, from 0 to 1 (iVGR §3.3). For several judgements, α
    is their mean (§5, Table 9: four judgements).

    Args:
        reference_text: the reference, which is the best reasoning with boxes that training has found for the question.
            None means that the question has no reference yet; the value is then 0. Do not call this function for a
            question without gold boxes: such a question never has a reference, and gets no consistency reward (App. B).
        reasoning: the textual reasoning (only in words) that is rated. If it is None or empty, the value is 0.
        question: the question that both texts answer.
        caller: the object with which the judge is called.
        judgements: the number of replies of the judge whose levels are averaged; all of them answer the same request.
            Replies in a wrong form are left out. If fewer than half of the replies remain, the verdict has failed.
        max_apart: None, or a number. If it is None, the judge is called once, with the reference first. If it is a
            number, the judge is also called with the candidate (the rated reasoning) first. If the values of the two
            calls differ by more than this number, the verdict has failed
            (:func:`groundtrace.rewards.judge_guard.agreed`). Otherwise the value is their mean.

    Raises:
        BudgetUsedUp: if the run's budget for model calls is used up.
        ValueError: if ``judgements`` is below 1.
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
    """Return the judge's verdict on a reference and a candidate: how well the candidate agrees with the reference.

    ``texts`` are the two texts as pairs (name, text), in the order in which the judge reads them; the name is
    "REFERENCE" or "CANDIDATE". ``question`` is the question that both texts answer, and ``caller`` is the object with
    which the judge is called. ``judgements`` is the number of the judge's replies, whose levels are averaged.
    """
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
    """Return the mean α of the judgements in a judge's reply, and a text with the level and reason of each judgement.

    α states how well the rated reasoning agrees with the reference, which is the best reasoning with boxes for the
    question. The reply holds one or more samples, and each sample is a judgement. A judgement names a level, and α is
    the value of this level in :data:`LEVELS`, from 0 to 1. Samples that cannot be parsed are left out. Raises BadReply
    if fewer than half of the samples can be parsed, or if there are no samples.
    """
    levels, faults = [], []
    for completion in reply.completions:
        try:
            levels.append(_level(completion.text))
        except BadReply as error:
            faults.append(error)
    if not reply.completions:
        raise BadReply("the reply of the judge has no judgement")
    if 2 * len(levels) < len(reply.completions):
        raise BadReply(f"{len(faults)} of {len(reply.completions)} judgements have a wrong form: {faults[0]}")
    value = sum(LEVELS[level] for level, _ in levels) / len(levels)
    reasons = "; ".join(f"{level}: {reason}" for level, reason in levels)
    return value, f"{len(levels)} of {len(reply.completions)} judgements: {reasons}"


def _level(text: str) -> tuple[str, str]:
    fields = json_object(text)
    level = fields.get("verdict")
    if not isinstance(level, str) or level not in LEVELS:
        raise BadReply(f"the reply's field 'verdict' must be one of {', '.join(LEVELS)}, got {level!r:.80}")
    return level, reason_of(fields)


def consistency_scorer(judgements: int = 1, max_apart: float | None = None) -> Scorer:
    """Return the scorer of iVGR's consistency reward with these settings, which calls :func:`score_consistency`.

    ``judgements`` is the number of the judge's replies whose levels are averaged. If ``max_apart`` is a number, the
    judge compares the reference and the candidate in both orders, and ``max_apart`` is the largest allowed difference
    between the two values. None means that the judge sees only one order.
    """

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
