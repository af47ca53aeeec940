"""Compares the models of a loop on the held-out questions, with 95 % intervals.

A question may be answered several times, and several questions may show the same image. So the answers are not
independent, and neither are the questions. The figures of a question are the means over its answers. The interval of an
accuracy is Wilson's, as if each question had one answer. All other intervals, such as those of the difference between
two models, are percentiles of a bootstrap that draws whole media groups.
"""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from groundtrace.schemas.intervals import wilson

DRAWS, SEED = 4000, 0
"""The number of bootstrap draws, and their seed: the same answers give the same intervals."""
PIECE = 500
ACCURACY, POINT_F1 = "accuracy", "point_f1"


@dataclass(frozen=True)
class Estimate:
    """Holds a mean or a difference with the bounds of its 95 % interval, over ``questions`` questions.

    The bounds are None if there are fewer than two media groups.
    """

    value: float
    low: float | None
    high: float | None
    questions: int


@dataclass(frozen=True)
class Answered:
    """Holds the figures of one model.

    ``figures`` holds two mappings, ``accuracy`` and ``point_f1``, from the id of a question to its value.

    A question without a value, such as one without gold boxes, is left out. ``first`` is the first answer to each
    question: its outcome (None if unscored), its text and its reward.
    """

    figures: Mapping[str, Mapping[str, float]]
    first: Mapping[str, tuple[float | None, str, float | None]]


def read_answers(path: Path) -> Answered:
    """Return the answers in a ``responses.jsonl`` of ``trainer eval``. Raises the errors of reading the file."""
    values: dict[str, dict[str, list[float]]] = {ACCURACY: defaultdict(list), POINT_F1: defaultdict(list)}
    first: dict[str, tuple[float | None, str, float | None]] = {}
    with path.open(encoding="utf-8", newline="\n") as stream:
        for line in map(json.loads, stream):
            outcome = line["verdicts"].get("outcome", {}).get("value")
            first.setdefault(line["id"], (outcome, line["text"], line["reward"]))
            for name, value in ((ACCURACY, outcome), (POINT_F1, line.get("point_f1"))):
                if value is not None:
                    values[name][line["id"]].append(value)
    means = {name: {key: sum(found) / len(found) for key, found in each.items()} for name, each in values.items()}
    return Answered(means, first)


def estimate(figures: Mapping[str, float], groups: Mapping[str, str], is_share: bool) -> Estimate | None:
    """Return the mean over the questions with its interval: Wilson's if ``is_share``. None if there are no questions.

    ``figures`` holds a value for each question, and ``groups`` the media group of each question.
    """
    if not figures:
        return None
    if not is_share:
        return _bootstrapped(figures, groups)
    n = len(figures)
    hits = min(math.fsum(figures.values()), n)
    return Estimate(hits / n, *wilson(hits, n), n)


def difference(first: Mapping[str, float], second: Mapping[str, float], groups: Mapping[str, str]) -> Estimate | None:
    """Return the mean difference ``second`` − ``first`` over the questions with both values; None if there are none."""
    both = {key: second[key] - value for key, value in first.items() if key in second}
    return _bootstrapped(both, groups) if both else None


def _bootstrapped(values: Mapping[str, float], groups: Mapping[str, str]) -> Estimate:
    sums: dict[str, list[float]] = defaultdict(list)
    for key, value in values.items():
        sums[groups.get(key, key)].append(value)
    mean = sum(values.values()) / len(values)
    if len(sums) < 2:
        return Estimate(mean, None, None, len(values))
    low, high = np.quantile(_draws([sums[name] for name in sorted(sums)]), (0.025, 0.975))
    return Estimate(mean, float(low), float(high), len(values))


def _draws(groups: Sequence[Sequence[float]]) -> np.ndarray:
    """Return the mean of the values in each draw of the bootstrap.

    A draw takes as many groups as ``groups`` has, with replacement.
    """
    totals, sizes = np.array([sum(each) for each in groups]), np.array([len(each) for each in groups])
    generator, found = np.random.default_rng(SEED), list[np.ndarray]()
    for _ in range(DRAWS // PIECE):  # in pieces, because all indices of many groups would take much memory
        drawn = generator.integers(0, len(groups), (PIECE, len(groups)))
        found.append(totals[drawn].sum(axis=1) / sizes[drawn].sum(axis=1))
    return np.concatenate(found)
