"""Computes how often the rubrics of a run apply and are satisfied, for ``rubrics.json`` (RuCL §3.2, App. D.2).

A rubric is one criterion of grading, and a run is one execution of a pipeline. The applicability of a rubric is the
share of judged responses to which it applies. Its pass rate is the share of these responses that satisfy it. A rubric
is kept if its applicability is at least a threshold. A kept rubric is easy if its pass rate is at least another
threshold, else hard.

Each value has a 95 % interval (Wilson's score interval). If the interval contains the threshold, the value itself still
decides, but ``rubrics.json`` mentions that the decision is uncertain. More judged responses can make the decision
certain.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from groundtrace.rewards.curriculum import CurriculumSettings
from groundtrace.rewards.rubrics import RubricSettings, empty_stratum
from groundtrace.schemas.intervals import CONFIDENCE, wilson
from groundtrace.schemas.records import Call, Rubric

Interval = tuple[float, float]

LOW_APPLICABILITY, NEVER_APPLICABLE, ASKS_FOR_ANSWER = (
    "low_applicability",
    "never_applicable",
    "asks_for_right_answer",
)
"""The reasons for which a candidate, i.e. a proposed rubric (a criterion of grading), is not kept."""
FILTER, STRATUM = "filter", "stratum"
"""The names of the two decisions on a rubric: whether the rubric is kept, and which stratum it has (easy or hard).

:func:`uncertain_about` returns these names for the decisions that are uncertain.
"""


@dataclass(frozen=True)
class MinedRubrics:
    """Holds the result of mining the rubrics of a run; a rubric is one criterion of grading.

    In mining, rubrics are proposed (the candidates), and a judge applies them to sample responses. The rubrics that
    apply often enough are kept.

    Attributes:
        kept: the rubrics with which the run grades responses, each with its stratum (easy or hard).
        candidates: all rubrics that were measured, including those that are not kept.
        judged: the number of responses on which the rubrics were judged.
        problems: the messages of the errors that occurred.
        calls: the calls to the teacher, which proposed the candidates.
        apart: proposed rubrics that require a right answer. They are not measured
            (:mod:`groundtrace.rewards.outcome_rubrics`).
        pool: the origin of the candidates, ``teacher`` or ``default``; "" if there are no candidates.
        graded: the number of judged responses whose final answer was graded, as right or as wrong.
        right: the number of judged responses whose answer is right.
    """

    kept: tuple[Rubric, ...] = ()
    candidates: tuple[Rubric, ...] = ()
    judged: int = 0
    problems: tuple[str, ...] = ()
    calls: tuple[Call, ...] = field(default=())
    apart: tuple[Rubric, ...] = ()
    pool: str = ""
    graded: int = 0
    right: int = 0


@dataclass(frozen=True)
class RubricFigures:
    """Holds the measurements of one rubric (a criterion of grading), with their 95 % intervals.

    ``applicability`` is η, the share of judged responses to which the rubric applies. ``pass_rate`` is p, the share of
    these responses that satisfy it. ``pass_rate`` and its interval are None if the rubric applied to no response.
    """

    applicability: float
    applicability_interval: Interval
    pass_rate: float | None
    pass_rate_interval: Interval | None


def figures_of(rubric: Rubric, judged: int) -> RubricFigures:
    """Return the measurements of a rubric (a criterion of grading) with their 95 % intervals.

    ``rubric`` holds its measured applicability and pass rate. ``judged`` is the number of responses on which they were
    measured, at least 1.
    """
    applicable = round(rubric.applicability * judged)
    passed = None if rubric.pass_rate is None else round(rubric.pass_rate * applicable)
    return RubricFigures(
        rubric.applicability,
        wilson(applicable, judged),
        rubric.pass_rate,
        None if passed is None else wilson(passed, applicable),
    )


def uncertain_about(figures: RubricFigures, is_kept: bool, settings: RubricSettings) -> tuple[str, ...]:
    """Return the names of the decisions on a rubric that are uncertain: :data:`FILTER`, :data:`STRATUM`, both or none.

    A rubric is one criterion of grading. A decision is uncertain if the 95 % interval of the measured value contains
    the threshold. :data:`FILTER` is the decision whether to keep the rubric, with the threshold
    ``settings.min_applicability``. :data:`STRATUM` is the decision between easy and hard, with the threshold
    ``settings.easy_pass_rate``; it exists only for a kept rubric.

    ``figures`` holds the measurements of the rubric, and ``is_kept`` is whether the rubric is kept.
    """
    found = [FILTER] if _spans(figures.applicability_interval, settings.min_applicability) else []
    if is_kept and figures.pass_rate_interval and _spans(figures.pass_rate_interval, settings.easy_pass_rate):
        found.append(STRATUM)
    return tuple(found)


def _spans(interval: Interval, threshold: float) -> bool:
    """Return whether the interval has values below the threshold, and values equal to or above the threshold."""
    low, high = interval
    return low < threshold <= high


def curriculum_defaults() -> dict[str, object]:
    """Return the default of each setting of the curriculum (RuCL Table 5), by the name of the setting.

    A setting without a default has the value None.
    """
    return {each.name: None if each.default is MISSING else each.default for each in fields(CurriculumSettings)}


def rubrics_json(mined: MinedRubrics, settings: RubricSettings) -> str:
    """Return the content of the file ``rubrics.json`` as JSON text.

    ``mined`` holds the rubrics (criteria of grading) that were proposed and measured for a run, and ``settings`` holds
    the thresholds. The content lists every proposed rubric with its measurements. For a rubric that is not kept, it
    also states the reason. A proposed rubric that asks whether the answer is right has no measurements, because the
    answer is graded in another way. The field ``problems`` holds the messages of the errors that occurred.

    The field ``curriculum`` holds the defaults of RuCL's training settings (:func:`curriculum_defaults`), for
    information only. A training run reads these settings only from its own config: from ``options`` in the section
    ``reward``, with the recipe ``rucl``. A good value of the setting ``ramp_steps`` is the number of steps of one
    epoch.
    """
    content = {
        "judged": mined.judged,
        "pool": mined.pool or None,
        "sample": settings.sample,
        "min_applicability": settings.min_applicability,
        "easy_pass_rate": settings.easy_pass_rate,
        "confidence": CONFIDENCE,
        "right_answers": _right_answers(mined),
        "curriculum": curriculum_defaults(),
        "rubrics": [*_measured(mined, settings), *map(_apart, mined.apart)],
        "problems": mined.problems,
    }
    return json.dumps(content, indent=1, ensure_ascii=False)


def missing_stratum(rubrics: Mapping[str, Any]) -> str:
    """Return a sentence for the user if the kept rubrics (criteria of grading) are all easy or all hard; otherwise "".

    ``rubrics`` is the parsed content of ``rubrics.json``. The result is also "" if no rubric is kept.
    """
    return empty_stratum({rubric["stratum"] for rubric in rubrics["rubrics"] if rubric["kept"]})


def _written(interval: Interval | None) -> Interval | None:
    return None if interval is None else (round(interval[0], 4), round(interval[1], 4))


def _right_answers(mined: MinedRubrics) -> Mapping[str, object]:
    """Return the number of judged responses whose answer was graded, and the share of right answers among these.

    The result also has the confidence interval of the share. Share and interval are None if no answer was graded. In
    Table 6 of RuCL's paper, this share is the pass rate of candidate 20. This candidate is a proposed rubric (criterion
    of grading) that requires a right answer.
    """
    rate = mined.right / mined.graded if mined.graded else None
    interval = wilson(mined.right, mined.graded) if mined.graded else None
    return {"graded": mined.graded, "pass_rate": rate, "pass_rate_interval": _written(interval)}


def _measured(mined: MinedRubrics, settings: RubricSettings) -> Sequence[Mapping[str, object]]:
    kept = {rubric.id: rubric.stratum for rubric in mined.kept}
    rows = []
    for rubric in mined.candidates:
        figures = figures_of(rubric, mined.judged)
        open_questions = uncertain_about(figures, rubric.id in kept, settings)
        never = NEVER_APPLICABLE if rubric.pass_rate is None else LOW_APPLICABILITY
        rows.append(
            {
                **_columns_of(rubric),
                "applicability": figures.applicability,
                "applicability_interval": _written(figures.applicability_interval),
                "pass_rate": figures.pass_rate,
                "pass_rate_interval": _written(figures.pass_rate_interval),
                "kept": rubric.id in kept,
                "stratum": kept.get(rubric.id),
                "reason": None if rubric.id in kept else never,
                "uncertain": bool(open_questions),
                "uncertain_about": open_questions,
            }
        )
    return rows


def _apart(rubric: Rubric) -> Mapping[str, object]:
    """Return the row in ``rubrics.json`` for a proposed rubric (a criterion of grading) that requires a right answer.

    Such a rubric is not measured and not kept, so the row has no measurements.
    """
    unknown = dict.fromkeys(each.name for each in fields(RubricFigures))
    decided = {"kept": False, "stratum": None, "reason": ASKS_FOR_ANSWER, "uncertain": False, "uncertain_about": ()}
    return {**_columns_of(rubric), **unknown, **decided}


def _columns_of(rubric: Rubric) -> Mapping[str, object]:
    return {"id": rubric.id, "description": rubric.description, "criteria": rubric.criteria}
