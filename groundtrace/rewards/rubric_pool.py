"""Reads the default pool of rubrics: RuCL's twenty dimensions in our own words, for runs without a teacher."""

import functools
from importlib import resources

import yaml

from groundtrace.schemas.records import Rubric

POOL_FILE = "rubric_pool.yaml"


@functools.cache
def default_pool() -> tuple[Rubric, ...]:
    """Return the unmeasured rubrics of the file ``groundtrace/rewards/rubric_pool.yaml``, in its order.

    The dimensions are those of RuCL App. D.1. The last rubric requires a right answer. It is listed, as in the paper's
    Table 6, but like all such rubrics it is not measured
    (:func:`groundtrace.rewards.outcome_rubrics.asks_for_right_answer`).
    """
    rows = yaml.safe_load(resources.files("groundtrace.rewards").joinpath(POOL_FILE).read_text("utf-8"))
    return tuple(Rubric(row["id"], row["description"], row["criteria"], 0.0, None, "") for row in rows)
