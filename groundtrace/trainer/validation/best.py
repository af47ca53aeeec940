"""Finds the best validation of a training, and detects that the reward rises while the accuracy falls."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

LOWEST = ("loss",)
"""The metrics whose lowest value is the best."""


def is_known(value: float | None) -> bool:
    """Return whether a metric has a value that is a finite number."""
    return value is not None and math.isfinite(value)


def best_of(validations: Sequence[Mapping[str, Any]], metric: str) -> int | None:
    """Return the step of the best validation by a metric; None if no validation has this metric.

    If several validations are equally good, the first of them is returned. The lowest ``loss`` is the best. For every
    other metric, the highest value is the best.
    """
    sign = -1 if metric in LOWEST else 1
    known = [(sign * line[metric], -line["step"]) for line in validations if is_known(line.get(metric))]
    return -max(known)[1] if known else None


def overfitting(validations: Sequence[Mapping[str, Any]], count: int) -> str | None:
    """Return a sentence if the reward rose and the accuracy fell in each of the last ``count`` validations, else None.

    The sentence contains both metrics. The result is also None if ``count`` is 0, or if there are not more than
    ``count`` validations with both metrics.
    """
    known = [line for line in validations if is_known(line.get("reward")) and is_known(line.get("accuracy"))]
    last = known[-count - 1 :]
    if not count or len(last) <= count:
        return None
    pairs = list(itertools.pairwise(last))
    if not all(b["reward"] > a["reward"] and b["accuracy"] < a["accuracy"] for a, b in pairs):
        return None
    first, now = last[0], last[-1]
    return (
        f"the reward rose and the accuracy fell in {count} validations in a row: from step {first['step']} to "
        f"{now['step']}, the reward rose from {first['reward']:.3f} to {now['reward']:.3f}, and the accuracy fell from "
        f"{first['accuracy']:.3f} to {now['accuracy']:.3f}"
    )
