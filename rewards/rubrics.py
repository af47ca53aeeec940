"""Rubrics (RuCL §3.2): judged with applicability apart from score, then filtered and stratified by the figures."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import PositiveInt

from inference.grounding import BadReply, json_object
from schemas.config import Share, settings
from schemas.records import Rubric

EASY, HARD = "easy", "hard"


@settings
class RubricSettings:
    """How rubrics are mined (RuCL).

    The paper's τ_app is 0.99. Its Table 1 splits easy from hard at a pass rate that it does not name; 0.8 reproduces
    the table.
    """

    max_rubrics: Annotated[PositiveInt, "rubrics that the teacher may propose"] = 20
    examples: Annotated[PositiveInt, "questions that the teacher sees"] = 4
    sample: Annotated[PositiveInt, "questions on which the rubrics are judged"] = 200
    min_applicability: Annotated[Share, "a rubric that applies to fewer of them is dropped"] = 0.99
    easy_pass_rate: Annotated[Share, "a rubric is easy at this pass rate or above, else hard"] = 0.8


@dataclass(frozen=True)
class RubricScore:
    """A judge's word on one rubric and one attempt: ``score`` is None exactly when it is not applicable."""

    rubric_id: str
    applicable: bool
    score: int | None


def candidates_of_reply(text: str, max_rubrics: int) -> tuple[Rubric, ...]:
    """Returns the teacher's candidates, unmeasured, without those that ask for the right answer.

    Raises BadReply when the form is wrong, none is given or left, or ids repeat.
    """
    rows = json_object(text).get("rubrics")
    if not isinstance(rows, list) or not rows:
        raise BadReply("no rubrics")
    names = ("id", "description", "criteria")
    for row in rows:
        if not isinstance(row, dict) or not all(isinstance(row.get(name), str) and row[name] for name in names):
            raise BadReply(f"rubric without id, description or criteria: {row!r:.120}")
    rubrics = tuple(Rubric(row["id"], row["description"], row["criteria"], 0.0, None, "") for row in rows[:max_rubrics])
    if len({rubric.id for rubric in rubrics}) < len(rubrics):
        raise BadReply("two rubrics have the same id")
    kept = tuple(rubric for rubric in rubrics if not asks_for_right_answer(rubric))
    if not kept:
        raise BadReply("each rubric asks whether the final answer is right, which is graded elsewhere")
    return kept


_ANSWER = r"(?:final )?(?:answers?|responses?|solutions?|conclusions?|choices?|options?|predictions?)"
_RIGHT = r"(?:correct|right|true|accurate|wrong|incorrect|inaccurate)"
_ABOUT_ANSWER = re.compile(
    r"\bground[ -]?truths?\b|\banswer key\b|\bgold(?:en)?[ -](?:standard|label)s?\b"
    # "the correct answer", "the reference solution", but not "the correct form of answer" or "the right answer type"
    rf"|\b(?:{_RIGHT}|gold(?:en)?|reference|expected|actual|target|provided|given|known|official) {_ANSWER}\b"
    r"(?! (?:form|format|type|unit|kind|style|tags?)\b)"
    r"|\b(?:correct|right|true|expected) final (?:number|value|result|count)\b"
    # "the final answer is right", "correctness of the answer", "answer accuracy", "answers the question correctly"
    rf"|\b{_ANSWER} (?:(?:is|are|was|be|being|must be|should be) )?(?:fully |factually |objectively )?{_RIGHT}\b"
    rf"|\b(?:correctness|accuracy|rightness) of (?:the |its )?{_ANSWER}\b|\b{_ANSWER} (?:correctness|accuracy)\b"
    r"|\b(?:answer(?:s|ed)?|solve[sd]?) the (?:question|problem|task) (?:correctly|accurately|right)\b"
    r"|\b(?:correctly|accurately) (?:answer(?:s|ed)?|solve[sd]?) the (?:question|problem|task)\b"
    r"|标准答案|参考答案|正确答案",
    re.IGNORECASE,
)
_LEFT_ASIDE = re.compile(
    r"\b(?:regardless of|no matter|irrespective of|independent(?:ly)? of|whether or not|even (?:if|when|where)|"
    r"leav(?:e|ing) aside|not (?:about|on) whether|rather than)\b[^.;:,]*",
    re.IGNORECASE,
)


def asks_for_right_answer(rubric: Rubric) -> bool:
    """Returns whether the rubric asks if the final answer is right, by what it says of gold, correct or reference ones.

    The outcome is rewarded apart (RuCL Eq. 4; Table 6 keeps its candidate 20, the gold-answer check, apart too), and a
    rubric that repeats it would pay for the answer in place of the reasoning. That the conclusion follows from the
    reasoning, or has the form that was asked for, is not meant; nor is what a rubric says to leave aside.
    """
    said = ". ".join((rubric.id, rubric.description, rubric.criteria)).replace("_", " ").replace("-", " ")
    return _ABOUT_ANSWER.search(_LEFT_ASIDE.sub(" ", " ".join(said.split()))) is not None


def scores_of_reply(text: str, rubrics: tuple[Rubric, ...]) -> tuple[RubricScore, ...]:
    """One score per rubric, in their order. Raises BadReply when a rubric is missing or a score contradicts (a, s)."""
    rows = json_object(text).get("scores")
    if not isinstance(rows, list):
        raise BadReply("no scores")
    named = [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]
    by_id = {row["id"]: row for row in named}
    if len(by_id) < len(named):
        raise BadReply("two scores for the same rubric")
    scores = []
    for rubric in rubrics:
        row = by_id.get(rubric.id)
        if row is None or not isinstance(row.get("applicable"), bool):
            raise BadReply(f"no verdict on {rubric.id!r}")
        score = row.get("score") if row["applicable"] else None
        if row["applicable"] and (isinstance(score, bool) or score not in (0, 1)):
            raise BadReply(f"{rubric.id!r} is applicable with score {score!r}")
        scores.append(RubricScore(rubric.id, row["applicable"], score))
    return tuple(scores)


def measure(rubrics: tuple[Rubric, ...], judged: Iterable[tuple[RubricScore, ...]]) -> tuple[Rubric, ...]:
    """The rubrics with applicability η_j and pass rate p_j over the judged attempts (RuCL §3.2); p is None at η = 0."""
    rows = list(judged)
    measured = []
    for rubric in rubrics:
        scores = [score for row in rows for score in row if score.rubric_id == rubric.id]
        passed = [score.score for score in scores if score.applicable and score.score is not None]
        applicability = len(passed) / len(scores) if scores else 0.0
        pass_rate = sum(passed) / len(passed) if passed else None
        measured.append(replace(rubric, applicability=applicability, pass_rate=pass_rate))
    return tuple(measured)


def stratify(rubrics: tuple[Rubric, ...], settings: RubricSettings) -> tuple[Rubric, ...]:
    """The rubrics with enough coverage, each with its stratum (RuCL §3.2, Table 1)."""
    return tuple(
        replace(rubric, stratum=EASY if rubric.pass_rate >= settings.easy_pass_rate else HARD)
        for rubric in rubrics
        if rubric.pass_rate is not None and rubric.applicability >= settings.min_applicability
    )
