"""Finds the best validation of a training, and detects overfitting: the reward rises while the accuracy falls."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

LOWEST = ("loss",)
"""The names of the metrics that are better if they are lower."""


def is_known(value: float | None) -> bool:
    """Return whether a metric's value is a finite number, and not None or NaN."""
    return value is not None and math.isfinite(value)


def best_of(validations: Sequence[Mapping[str, Any]], metric: str) -> int | None:
    """Return the training step of the best validation; None if no validation has a value of the metric.

    ``validations`` holds the step and the metrics of each validation. ``metric`` is the name of the metric that is
    compared. For ``loss``, the lowest value is the best. For every other metric, the highest value is the best. If
    several validations are equally good, the one with the lowest ``loss`` is the best; a validation without a loss
    counts as the worst of them. If the losses are equal too, or if there are none, the first validation is the best.
    """
    sign = -1 if metric in LOWEST else 1

    def goodness(line: Mapping[str, Any]) -> tuple[float, float, int]:
        loss = line["loss"] if is_known(line.get("loss")) else math.inf
        return sign * line[metric], -loss, -line["step"]

    known = [line for line in validations if is_known(line.get(metric))]
    return max(known, key=goodness)["step"] if known else None


def overfitting(validations: Sequence[Mapping[str, Any]], count: int) -> str | None:
    """Return a sentence that describes the overfitting; None if there is no overfitting.

    There is overfitting if, in each of the last ``count`` validations, the reward is higher and the accuracy is lower
    than in the validation before it. Validations without one of the two metrics are ignored. The sentence contains the
    values of both metrics. ``validations`` holds the step and the metrics of each validation. The result is None if
    ``count`` is 0, or if at most ``count`` validations have both metrics.
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
