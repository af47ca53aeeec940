"""Reads the default pool of rubrics, which has RuCL's twenty dimensions in our own words. Runs without a teacher use
it.
"""

import functools
from importlib import resources

import yaml

from groundtrace.schemas.records import Rubric

POOL_FILE = "rubric_pool.yaml"


@functools.cache
def default_pool() -> tuple[Rubric, ...]:
    """Return the unmeasured rubrics of the file ``groundtrace/rewards/rubric_pool.yaml``, in its order.

    The dimensions are those of RuCL App. D.1. The last rubric requires a right answer. The pool contains it because the
    paper's Table 6 does. But no rubric that requires a right answer is measured
    (:func:`groundtrace.rewards.outcome_rubrics.asks_for_right_answer`).
    """
    rows = yaml.safe_load(resources.files("groundtrace.rewards").joinpath(POOL_FILE).read_text("utf-8"))
    return tuple(Rubric(row["id"], row["description"], row["criteria"], 0.0, None, "") for row in rows)
