"""Scores of one response on given rubrics (RuCL §3.2 and App. F): applicability, rationale, then score, per rubric.

App. F's prompt for the reward signal gives each rubric a rationale and a score, App. E's for mining an applicability
and a score; deviation: both are asked for at once, so that a rubric that does not fit the question is never a 0.
"""

import json
from dataclasses import dataclass

from inference.asking import ask_for
from inference.errors import CallError
from inference.grounding import BadReply, json_object
from inference.models import Answered, Caller
from inference.request import Sampling
from prompts.loader import load_prompt
from rewards.judge_guard import question_text, quote
from rewards.rubrics import RubricScore, scores_of_reply
from schemas.messages import shown
from schemas.records import Question, Rubric, Verdict

PROMPT = "rubric_judge.v2"
MAX_RATIONALE_CHARS = 300


@dataclass(frozen=True)
class JudgedRubric:
    """The pair (a, s) of one rubric, and why."""

    score: RubricScore
    rationale: str


async def score_rubrics(
    question: Question, attempt: str, rubrics: tuple[Rubric, ...], caller: Caller
) -> tuple[Verdict, ...]:
    """One verdict ``rubric:<id>`` for each rubric, in their order: 1 met, 0 not met, unscored where it does not apply
    or where the judge failed. Raises BudgetUsedUp.
    """
    try:
        judged = await judge_rubrics(question, attempt, rubrics, caller)
    except (CallError, BadReply) as error:
        return tuple(Verdict(_name(rubric.id), None, f"judge: {error}") for rubric in rubrics)
    return tuple(_verdict(each) for each in judged)


async def judge_rubrics(
    question: Question, attempt: str, rubrics: tuple[Rubric, ...], caller: Caller
) -> tuple[JudgedRubric, ...]:
    """What the judge says of the attempt (its whole text): one for each rubric, in order; no call without rubrics.

    Raises CallError, BadReply and BudgetUsedUp.
    """
    if not rubrics:
        return ()
    listed = [{"id": r.id, "description": r.description, "criteria": r.criteria} for r in rubrics]
    quoted = quote(attempt)
    prompt = load_prompt(PROMPT).render(
        {"original": shown(question.media)},
        question=question_text(question),
        answer=question.answer,
        attempt=quoted.texts[0],
        mark=quoted.mark,
        rubrics=json.dumps(listed, ensure_ascii=False),
    )

    def read(reply: Answered) -> tuple[JudgedRubric, ...]:
        return judged_of_reply(reply.text, rubrics)

    judged, _ = await ask_for(caller, "judge", prompt, Sampling(max_tokens=4096), read)
    return judged


def judged_of_reply(text: str, rubrics: tuple[Rubric, ...]) -> tuple[JudgedRubric, ...]:
    """The reply as pairs (a, s) with their rationales, in the order of the rubrics.

    Raises BadReply as :func:`rewards.rubrics.scores_of_reply` does, and when the rationale of an applicable rubric is
    missing or stands behind its score, which it could then not have led to (App. F).
    """
    scores = scores_of_reply(text, rubrics)
    rows = json_object(text)["scores"]
    assert isinstance(rows, list)  # scores_of_reply has read it
    by_id = {row["id"]: row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)}
    return tuple(JudgedRubric(score, _rationale(by_id[score.rubric_id], score)) for score in scores)


def _rationale(row: dict[str, object], score: RubricScore) -> str:
    rationale = row.get("rationale")
    written = rationale.strip() if isinstance(rationale, str) else ""
    if score.applicable and not written:
        raise BadReply(f"{score.rubric_id!r} is scored without a rationale")
    names = list(row)
    if score.applicable and names.index("rationale") > names.index("score"):
        raise BadReply(f"the rationale of {score.rubric_id!r} stands behind its score")
    return written[:MAX_RATIONALE_CHARS]


def _verdict(judged: JudgedRubric) -> Verdict:
    score = judged.score
    if score.score is None:
        return Verdict(_name(score.rubric_id), None, f"not applicable: {judged.rationale}")
    return Verdict(_name(score.rubric_id), float(score.score), judged.rationale)


def _name(rubric_id: str) -> str:
    return f"rubric:{rubric_id}"
