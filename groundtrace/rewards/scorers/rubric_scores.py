"""Scores one response by the rubrics of its question; a rubric is one criterion of grading (RuCL §3.2 and App. F).

For each rubric, the judge first states whether the rubric is applicable. Then it gives a rationale, and then a score of
0 or 1.

Deviation: one prompt replaces two prompts of the paper. The paper's reward prompt (App. F) requests a rationale and a
score, and its mining prompt (App. E) requests an applicability and a score. In a reward, a rubric that is not
applicable has the value 0 (Eq. 5).
"""

import json
from dataclasses import dataclass

from groundtrace.grading.messages import shown
from groundtrace.inference.caller import Caller, CallResult
from groundtrace.inference.errors import CallError
from groundtrace.inference.grounding import BadReply, json_object
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks
from groundtrace.rewards.case import Case
from groundtrace.rewards.judge import ROLE, JudgeTask, ask_judge
from groundtrace.rewards.judge_guard import question_text
from groundtrace.rewards.rubrics import RUBRICS, RubricScore, scores_of_reply
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.records import Question, Rubric, Verdict

NAME = "rubrics"
PROMPT = "rubric_judge.v3"
MAX_RATIONALE_CHARS = 300


@dataclass(frozen=True)
class JudgedRubric:
    """Holds what a judge decided about one rubric (a criterion of grading) for one response.

    ``score`` holds two things: whether the rubric is applicable, and the score. ``rationale`` is the judge's reason for
    the score, cut to :data:`MAX_RATIONALE_CHARS`.
    """

    score: RubricScore
    rationale: str


async def score_rubrics(question: Question, attempt: str, rubrics: tuple[Rubric, ...], caller: Caller) -> Verdict:
    """Return a verdict whose value is the share of rubrics that a response satisfies, from 0 to 1 (RuCL Eq. 5).

    A rubric is one criterion of grading. Easy and hard rubrics are counted together. A rubric that is not applicable
    counts as not satisfied. The evidence is one JSON object for each rubric, in the order of ``rubrics``;
    :func:`scores_of_verdict` reads the scores from it. Without rubrics, the value is None and the verdict is not
    applicable. If the judge fails, the value is None and the verdict has failed.

    ``attempt`` is the whole text of the response, and ``caller`` is the object with which the judge is called. Raises
    BudgetUsedUp if the run's budget for model calls is used up.
    """
    try:
        judged = await judge_rubrics(question, attempt, rubrics, caller)
    except (CallError, BadReply) as error:
        return Verdict(NAME, None, f"judge: {error}", failed=True)
    met, apply = sum(each.score.score == 1 for each in judged), sum(each.score.applicable for each in judged)
    evidence = tuple(
        json.dumps(vars(each.score) | {"rationale": each.rationale}, ensure_ascii=False) for each in judged
    )
    reason = f"{met} of {len(judged)} rubrics, of which {apply} apply"
    return Verdict(NAME, met / len(judged) if judged else None, reason, evidence)


def scores_of_verdict(verdict: Verdict) -> tuple[RubricScore, ...]:
    """Return the score of each rubric, read from a verdict (a result) that :func:`score_rubrics` returned.

    A rubric is one criterion of grading. The scores are in the field ``evidence`` of the verdict. The result is empty
    if the judge failed, or if there were no rubrics.
    """
    rows = [row for row in map(json.loads, verdict.evidence) if "rubric_id" in row]
    return tuple(RubricScore(row["rubric_id"], row["applicable"], row["score"]) for row in rows)


async def judge_rubrics(
    question: Question, attempt: str, rubrics: tuple[Rubric, ...], caller: Caller
) -> tuple[JudgedRubric, ...]:
    """Return what the judge decides about each rubric for one response, in the order of ``rubrics``.

    A rubric is one criterion of grading. The judge sees the images and the whole text of the response (``attempt``). If
    there are no rubrics, the judge is not called, and the result is (). ``caller`` is the object with which the judge
    is called.

    Raises CallError if the call fails, BadReply if the reply cannot be parsed, and BudgetUsedUp if the run's budget for
    model calls is used up.
    """
    if not rubrics:
        return ()
    listed = [{"id": r.id, "description": r.description, "criteria": r.criteria} for r in rubrics]
    fields = {"question": question_text(question), "answer": question.answer}

    def read(reply: CallResult) -> tuple[JudgedRubric, ...]:
        return judged_of_reply(reply.text, rubrics)

    task = JudgeTask(
        PROMPT,
        {"attempt": attempt},
        read,
        fields=fields | {"rubrics": json.dumps(listed, ensure_ascii=False)},
        media={"original": shown(question.media)},
        sampling=Sampling(max_tokens=4096),
    )
    return await ask_judge(task, caller)


def judged_of_reply(text: str, rubrics: tuple[Rubric, ...]) -> tuple[JudgedRubric, ...]:
    """Return the applicability, score and rationale of each rubric in a judge's reply, in the order of ``rubrics``.

    A rubric is one criterion of grading. ``text`` is the reply, which is JSON. Raises BadReply if the reply has a wrong
    form (:func:`groundtrace.rewards.rubrics.scores_of_reply`), if an applicable rubric has no rationale, or if the
    score is written before the rationale: such a score cannot be based on the rationale (RuCL App. F).
    """
    scores = scores_of_reply(text, rubrics)
    rows = json_object(text)["scores"]
    assert isinstance(rows, list)  # scores_of_reply has checked it
    by_id = {row["id"]: row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)}
    return tuple(JudgedRubric(score, _rationale(by_id[score.rubric_id], score)) for score in scores)


def _rationale(row: dict[str, object], score: RubricScore) -> str:
    rationale = row.get("rationale")
    written = rationale.strip() if isinstance(rationale, str) else ""
    if score.applicable and not written:
        raise BadReply(
            f"the rubric {score.rubric_id!r} has a score but no rationale: write the rationale before the score"
        )
    names = list(row)
    if score.applicable and names.index("rationale") > names.index("score"):
        raise BadReply(f"the rationale of {score.rubric_id!r} must be before its score, not after it")
    return written[:MAX_RATIONALE_CHARS]


async def _score(case: Case) -> Verdict:
    return await score_rubrics(case.question, case.text, case.context.added(RUBRICS) or (), case.caller)


SCORER = Scorer(
    NAME,
    "there are rubrics to judge it by",
    _score,
    needs=((lambda case: bool(case.context.added(RUBRICS)), "the question has no rubrics"),),
    asks=(Asks(ROLE, (PROMPT,)),),
)
