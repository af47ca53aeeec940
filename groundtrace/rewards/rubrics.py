"""Measures rubrics on judged responses, filters them, and divides them into easy and hard rubrics (RuCL §3.2).

A rubric is one criterion of grading, which a judge applies to a response.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import PositiveInt

from groundtrace.config.settings import Share, settings
from groundtrace.inference.grounding import BadReply, check_readable, json_object
from groundtrace.rewards.outcome_rubrics import asks_for_right_answer
from groundtrace.rewards.rubric_pool import default_pool
from groundtrace.schemas.coding import record
from groundtrace.schemas.columns import Column
from groundtrace.schemas.records import Rubric

EASY, HARD = "easy", "hard"
TEACHER, DEFAULT = "teacher", "default"
PLACE = Rubric(
    "required_place",
    "The attempt states where in the picture it sees what the question is about.",
    "1 when it gives the place of at least one thing that the question is about, by a point, by a box or in words such "
    "as 'in the lower left', and every place that it gives is right. Where nothing of the kind is in the picture, 1 "
    "when it states this, and every place that it gives is right. 0 when it gives no place, or a wrong one. A number, "
    "a colour or the answer alone does not count as a place. Applies to every attempt.",
    0.0,
    None,
    "",
)
"""The rubric that the response must state where in the image it sees what the question is about.

It is a rubric of this project: no model proposed it. The reward of RuCL uses it only if the setting ``require_place``
is True (:class:`groundtrace.rewards.recipes.rucl.Rucl`)."""


def _read(plain: Sequence[Mapping[str, Any]]) -> tuple[Rubric, ...]:
    return tuple(Rubric(**rubric) for rubric in plain)


RUBRICS = Column[tuple[Rubric, ...]](
    "rubrics",
    pa.list_(
        pa.struct(
            [
                ("id", pa.string()),
                ("description", pa.string()),
                ("criteria", pa.string()),
                ("applicability", pa.float64()),
                ("pass_rate", pa.float64()),
                ("stratum", pa.string()),
            ]
        )
    ),
    "the criteria mined for the run, with applicability, pass rate and stratum",
    read=_read,
)


@settings
class RubricSettings:
    """Holds the settings with which rubrics are mined: a model proposes them, and a judge measures them (RuCL).

    The paper's τ_app (``min_applicability``) is 0.99. The paper does not state the pass rate that separates easy from
    hard rubrics (``easy_pass_rate``); 0.8 reproduces the paper's Table 1.
    """

    pool: Annotated[
        Literal["teacher", "default"],
        "the source of the candidates: the teacher, or the default rubrics (groundtrace/rewards/rubric_pool.yaml), "
        "which are also used if roles.teacher is empty",
    ] = "teacher"
    max_rubrics: Annotated[PositiveInt, "the maximum number of candidates"] = 20
    examples: Annotated[PositiveInt, "the number of questions that the teacher sees"] = 4
    sample: Annotated[PositiveInt, "the number of questions on which the rubrics are judged"] = 200
    min_applicability: Annotated[
        Share, "a rubric that applies to a smaller share of the sample's questions is dropped"
    ] = 0.99
    easy_pass_rate: Annotated[Share, "a rubric is easy at this pass rate or above, else hard"] = 0.8


@dataclass(frozen=True)
class RubricScore:
    """Holds the score that a judge gave to one response by one rubric, which is a criterion of grading.

    ``applicable`` is whether the rubric applies to the response. ``score`` is 1 if the response satisfies the rubric,
    else 0; None if the rubric does not apply.
    """

    rubric_id: str
    applicable: bool
    score: int | None


@record
class Candidates:
    """Holds the rubrics that were proposed for a run of a pipeline; a rubric is one criterion of grading.

    ``rubrics`` are the rubrics that will be measured. ``apart`` holds the rubrics that require a right answer; they are
    not measured. ``pool`` is the origin of the rubrics: ``teacher`` or ``default``.
    """

    rubrics: tuple[Rubric, ...]
    apart: tuple[Rubric, ...]
    pool: str


def default_candidates(max_rubrics: int) -> Candidates:
    """Return the first ``max_rubrics`` rubrics (criteria of grading) of the default pool as candidates.

    The default pool is the file ``groundtrace/rewards/rubric_pool.yaml``.
    """
    return _sorted_out(default_pool()[:max_rubrics], DEFAULT)


def _sorted_out(rubrics: tuple[Rubric, ...], pool: str) -> Candidates:
    apart = tuple(rubric for rubric in rubrics if asks_for_right_answer(rubric))
    return Candidates(tuple(rubric for rubric in rubrics if rubric not in apart), apart, pool)


def candidates_of_reply(text: str, max_rubrics: int) -> Candidates:
    """Return the rubrics (criteria of grading) that the teacher proposes in its reply.

    ``text`` is the reply, which is JSON. Only its first ``max_rubrics`` rubrics are used. In the result, the field
    ``apart`` holds the rubrics that require a right answer. Raises BadReply in these cases:

    - The reply has the wrong form, or has no rubric to measure.
    - A rubric has a special token or a control character. The rubric would be shown to judges and published.
    - Two rubrics have the same id or the same wording. A repeated rubric would be rewarded twice.
    - A rubric has the id of :data:`PLACE`, our own rubric that requires a place in the image. The judge may get
      :data:`PLACE` together with the teacher's rubrics, and each id must be unique.
    """
    rows = json_object(text).get("rubrics")
    if not isinstance(rows, list) or not rows:
        raise BadReply("the reply's field 'rubrics' must be a list with at least one rubric")
    names = ("id", "description", "criteria")
    for row in rows:
        if not isinstance(row, dict) or not all(isinstance(row.get(name), str) and row[name].strip() for name in names):
            raise BadReply(f"each rubric must have texts in the fields id, description and criteria, got {row!r:.120}")
    for row in rows[:max_rubrics]:
        for name in names:
            check_readable(row[name], name)
    written = [{name: " ".join(row[name].split()) for name in names} for row in rows[:max_rubrics]]
    rubrics = tuple(Rubric(**each, applicability=0.0, pass_rate=None, stratum="") for each in written)
    if len({rubric.id.lower() for rubric in rubrics}) < len(rubrics):
        raise BadReply("two rubrics of the reply have the same id: give each rubric its own id")
    if any(rubric.id.lower() == PLACE.id for rubric in rubrics):
        raise BadReply(f"a rubric has the reserved id {PLACE.id!r}: give it another id")
    if len({(rubric.description.lower(), rubric.criteria.lower()) for rubric in rubrics}) < len(rubrics):
        raise BadReply("two rubrics of the reply have the same text: remove one of them")
    candidates = _sorted_out(rubrics, TEACHER)
    if not candidates.rubrics:
        raise BadReply("every rubric is about whether the final answer is right: write rubrics about the reasoning")
    return candidates


def scores_of_reply(text: str, rubrics: tuple[Rubric, ...]) -> tuple[RubricScore, ...]:
    """Return the judge's score for each rubric (criterion of grading), in the order of ``rubrics``.

    ``text`` is the judge's reply, which is JSON. Raises BadReply if a score is missing, repeated or invalid, or if two
    rubrics have the same id, since one score could be for either of them.
    """
    if len({rubric.id for rubric in rubrics}) < len(rubrics):
        raise BadReply(
            "two of the given rubrics have the same id, so a score could be for either of them: give each rubric its "
            "own id"
        )
    rows = json_object(text).get("scores")
    if not isinstance(rows, list):
        raise BadReply("the reply's field 'scores' must be a list of scores")
    named = [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]
    by_id = {row["id"]: row for row in named}
    if len(by_id) < len(named):
        raise BadReply("the reply has two scores for the same rubric: write one score for each rubric")
    scores = []
    for rubric in rubrics:
        row = by_id.get(rubric.id)
        if row is None or not isinstance(row.get("applicable"), bool):
            raise BadReply(
                f"the reply has no score for the rubric {rubric.id!r}: write one, with true or false in its field "
                "'applicable'"
            )
        score = row.get("score") if row["applicable"] else None
        if row["applicable"] and (isinstance(score, bool) or score not in (0, 1)):
            raise BadReply(f"the rubric {rubric.id!r} is applicable, so its score must be 0 or 1, not {score!r}")
        scores.append(RubricScore(rubric.id, row["applicable"], score))
    return tuple(scores)


def measure(rubrics: tuple[Rubric, ...], judged: Iterable[tuple[RubricScore, ...]]) -> tuple[Rubric, ...]:
    """Return the rubrics with their measured applicability η_j and pass rate p_j (RuCL §3.2).

    A rubric is one criterion of grading. η_j is the share of judged responses to which the rubric applies. Among the
    responses to which it applies, p_j is the share that satisfies it. p_j is None if it applies to no response.

    ``judged`` holds one tuple for each judged response: the judge's scores of this response, one for each rubric.
    """
    rows = list(judged)
    measured = []
    for rubric in rubrics:
        scores = [score for row in rows for score in row if score.rubric_id == rubric.id]
        passed = [score.score for score in scores if score.applicable and score.score is not None]
        applicability = len(passed) / len(scores) if scores else 0.0
        pass_rate = math.fsum(passed) / len(passed) if passed else None  # independent of the order
        measured.append(replace(rubric, applicability=applicability, pass_rate=pass_rate))
    return tuple(measured)


def stratify(rubrics: tuple[Rubric, ...], settings: RubricSettings) -> tuple[Rubric, ...]:
    """Return the rubrics that are kept, each with its stratum, easy or hard (RuCL §3.2, Table 1).

    A rubric is one criterion of grading. It is kept if its applicability is at least ``settings.min_applicability``. A
    kept rubric is easy if its pass rate is at least ``settings.easy_pass_rate``, else hard.
    """
    return tuple(
        replace(rubric, stratum=EASY if rubric.pass_rate >= settings.easy_pass_rate else HARD)
        for rubric in rubrics
        if rubric.pass_rate is not None and rubric.applicability >= settings.min_applicability
    )


def empty_stratum(strata: Collection[str]) -> str:
    """Return a sentence for the user if the rubrics (criteria of grading) are only easy or only hard; else "".

    A curriculum needs easy and hard rubrics. ``strata`` holds the strata of the kept rubrics, ``easy`` and ``hard``;
    repeated entries have no effect.
    """
    if len({*strata}) != 1:
        return ""
    if EASY in strata:
        return "No hard rubric was kept, so in a curriculum (RuCL) the easy rubrics have the whole weight in all steps."
    return "No easy rubric was kept, so in a curriculum (RuCL) the hard rubrics have the whole weight in all steps."
