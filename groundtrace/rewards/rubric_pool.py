"""Reads the default pool of rubrics (criteria of grading), which is used by a run without a teacher.

In other runs, the teacher proposes the rubrics. The pool has RuCL's twenty dimensions of grading, in our own words.
"""

import functools
from importlib import resources

from groundtrace.schemas.records import Rubric
from groundtrace.schemas.yaml_text import read_yaml

POOL_FILE = "rubric_pool.yaml"


@functools.cache
def default_pool() -> tuple[Rubric, ...]:
    """Return the rubrics of the file ``groundtrace/rewards/rubric_pool.yaml``, in the order of the file.

    A rubric is one criterion of grading. The rubrics are not measured: they have no applicability and no pass rate yet.
    Their dimensions are those of RuCL App. D.1. The last rubric requires a right answer. The pool contains this rubric
    because Table 6 of the paper contains it. But no run measures a rubric that requires a right answer
    (:func:`groundtrace.rewards.outcome_rubrics.asks_for_right_answer`).
    """
    rows = read_yaml(resources.files("groundtrace.rewards").joinpath(POOL_FILE).read_text("utf-8"))
    return tuple(Rubric(row["id"], row["description"], row["criteria"], 0.0, None, "") for row in rows)
