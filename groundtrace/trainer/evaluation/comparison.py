"""Compares models by their answers to the same questions, with 95 % intervals.

A question may be answered several times. Its answers are not independent of each other, so the value of a question is
the mean over its answers. Questions that show the same image form a media group. They are not independent either.

The interval of an accuracy is Wilson's, computed as if each question had one answer. All other intervals, such as those
of the difference between two models, are percentiles of a bootstrap. The bootstrap draws whole media groups, because
the questions of a group are not independent. If all groups have the same mean, every draw of the bootstrap is the same,
and its interval would have the width zero. The interval of a difference of accuracies is then Newcombe's for paired
shares, and other estimates have no interval.
"""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from groundtrace.schemas.intervals import paired_difference, wilson
from groundtrace.schemas.safe_files import opened_regular

DRAWS, SEED = 4000, 0
"""The number of bootstrap draws, and the seed of the draws. So the same answers always give the same intervals."""
PIECE = 500
SAME = 1e-12
"""Means of media groups that differ by less than this are the same: the difference is by rounding."""
ACCURACY, POINT_F1, REWARD = "accuracy", "point_f1", "reward"


@dataclass(frozen=True)
class Estimate:
    """Holds an estimated mean, or the estimated difference of two means, with its 95 % interval.

    ``value`` is the estimate. ``low`` and ``high`` are the bounds of the interval. Both are None if the bootstrap has
    fewer than two media groups (sets of questions with common images) to draw from, or if all groups have the same
    mean. ``questions`` is the number of questions from which the estimate is made.
    """

    value: float
    low: float | None
    high: float | None
    questions: int


@dataclass(frozen=True)
class Answered:
    """Holds what one model answered to the questions of an evaluation.

    Attributes:
        figures: three mappings, ``accuracy``, ``point_f1`` and ``reward``, from the id of a question to its value,
            which is the mean over its answers. A question without a value is left out, such as a question without gold
            boxes in ``point_f1``.
        first: maps the id of a question to three facts about the first of the model's answers to it: how right it is
            (0–1; None if unscored), its text, and its reward (None if unscored).
        golds: maps the id of a question to its gold answers. There are several only if several questions have this id.
        groups: maps the id of a question to its media group (the questions with common images). A question is left out
            if its group is unknown, because an earlier version of the trainer wrote the file of the answers.
    """

    figures: Mapping[str, Mapping[str, float]]
    first: Mapping[str, tuple[float | None, str, float | None]]
    golds: Mapping[str, frozenset[str]]
    groups: Mapping[str, str]


def read_answers(path: Path) -> Answered:
    """Return the answers of one model, read from a file ``responses.jsonl`` that ``trainer eval`` has written.

    ``path`` is the path of the file. In an evaluation with crops (cut-out image regions), the answers without crops are
    left out. Raises OSError if the file cannot be read, UnsafeFile if it is a pipe or a device, and ValueError or
    KeyError if a line is damaged.
    """
    values: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in (ACCURACY, POINT_F1, REWARD)}
    first: dict[str, tuple[float | None, str, float | None]] = {}
    golds: dict[str, frozenset[str]] = {}
    with opened_regular(path) as stream:
        lines = [json.loads(line.decode("utf-8")) for line in stream]
    with_crops = [line for line in lines if "crops" in line]
    for line in with_crops or lines:
        key, outcome = line["id"], line["verdicts"].get("outcome", {}).get("value")
        first.setdefault(key, (outcome, line["text"], line["reward"]))
        golds[key] = golds.get(key, frozenset()) | {line["gold"]}
        for name, value in ((ACCURACY, outcome), (POINT_F1, line.get("point_f1")), (REWARD, line["reward"])):
            if value is not None:
                values[name][key].append(value)
    means = {name: {key: sum(found) / len(found) for key, found in each.items()} for name, each in values.items()}
    groups = {line["id"]: line["media_group"] for line in lines if "media_group" in line}
    return Answered(means, first, golds, groups)


def estimate(figures: Mapping[str, float], groups: Mapping[str, str], is_share: bool) -> Estimate | None:
    """Return the mean over questions with its 95 % interval; None if there are no questions.

    ``figures`` maps the id of a question to its value. ``groups`` maps the id of a question to its media group (the
    questions with common images). If ``is_share`` is True, the mean is a share, such as an accuracy, and Wilson's
    interval is used. Otherwise the interval is from a bootstrap over the media groups.
    """
    if not figures:
        return None
    if not is_share:
        return _bootstrapped(figures, groups)
    n = len(figures)
    hits = min(math.fsum(figures.values()), n)
    return Estimate(hits / n, *wilson(hits, n), n)


def difference(
    first: Mapping[str, float], second: Mapping[str, float], groups: Mapping[str, str], is_share: bool
) -> Estimate | None:
    """Return the mean difference between two models over questions, with its 95 % interval from a bootstrap.

    ``first`` and ``second`` map the id of a question to the value of the first and of the second model. The difference
    is ``second`` − ``first``. Only questions with both values are used; the result is None if there is no such
    question. ``groups`` maps the id of a question to its media group (the questions with common images), from which the
    bootstrap draws. ``is_share`` is True if the values are shares from 0 to 1, such as accuracies. If the difference of
    shares is the same in all groups, the interval is Newcombe's, with the number of groups as the number of pairs.
    """
    both = {key: second[key] - value for key, value in first.items() if key in second}
    if not both:
        return None
    found = _bootstrapped(both, groups)
    groups_count = len({groups.get(key, key) for key in both})
    if not is_share or found.low is not None or groups_count < 2:
        return found
    weight = groups_count / len(both)
    pairs = [(first[key] * weight, second[key] * weight) for key in both]
    both_right, only_first, only_second = (
        math.fsum(min(pair) for pair in pairs),
        math.fsum(max(a - b, 0.0) for a, b in pairs),
        math.fsum(max(b - a, 0.0) for a, b in pairs),
    )
    neither = max(groups_count - both_right - only_first - only_second, 0.0)
    interval = paired_difference(both_right, only_first, only_second, neither)
    return Estimate(found.value, *interval, found.questions)


def estimate_text(found: Estimate | None, is_difference: bool = False) -> str:
    """Return an estimate with its 95 % interval as text, such as ``0.540 [0.450, 0.630]``.

    If ``is_difference`` is True, the numbers have a sign, such as ``+0.040``. If ``found`` is None, the result is a
    dash. The interval is left out if it is unknown.
    """
    if found is None:
        return "–"
    sign = "+" if is_difference else ""
    interval = "" if found.low is None or found.high is None else f" [{found.low:{sign}.3f}, {found.high:{sign}.3f}]"
    return f"{found.value:{sign}.3f}{interval}"


def _bootstrapped(values: Mapping[str, float], groups: Mapping[str, str]) -> Estimate:
    sums: dict[str, list[float]] = defaultdict(list)
    for key, value in values.items():
        sums[groups.get(key, key)].append(value)
    mean = sum(values.values()) / len(values)
    means = [sum(each) / len(each) for each in sums.values()]
    if len(sums) < 2 or max(means) - min(means) < SAME:
        return Estimate(mean, None, None, len(values))
    low, high = np.quantile(_draws([sums[name] for name in sorted(sums)]), (0.025, 0.975))
    return Estimate(mean, float(low), float(high), len(values))


def _draws(groups: Sequence[Sequence[float]]) -> np.ndarray:
    """Return the means of the bootstrap draws, (DRAWS,): for each draw, the mean of all values in the drawn groups.

    ``groups`` holds the values of each media group (the questions with common images). A draw takes ``len(groups)``
    groups, with replacement.
    """
    totals, sizes = np.array([sum(each) for each in groups]), np.array([len(each) for each in groups])
    generator, found = np.random.default_rng(SEED), list[np.ndarray]()
    for _ in range(DRAWS // PIECE):  # in pieces, because all indices of many groups would take much memory
        drawn = generator.integers(0, len(groups), (PIECE, len(groups)))
        found.append(totals[drawn].sum(axis=1) / sizes[drawn].sum(axis=1))
    return np.concatenate(found)
