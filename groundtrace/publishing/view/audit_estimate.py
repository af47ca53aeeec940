"""Estimates precision and recall of a run's verification from the judgements of a person.

The verification is the step that decides automatically which traces (reasoning with answer) a run keeps. The rows of a
run are divided into strata (groups): the kept rows, and for each reason of rejection the rows that the verification
rejected. The person judges a random sample of each stratum. Precision is the share of the kept rows that are right.
Recall is the share of all right rows that were kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from groundtrace.schemas.intervals import wilson

KEPT = "kept"
DRAWS = 4000
SEED = 0
"""The seed of the random draws: the same judgements always give the same intervals."""


@dataclass(frozen=True)
class Judged:
    """Holds how many rows of one stratum (group of rows) a person has judged as right, wrong or unclear.

    Attributes:
        stratum: the name of the stratum: :data:`KEPT` for kept rows, or the stage (pipeline step) and reason of a
            rejection.
        rows: the number of all rows of the stratum, judged or not.
        right, wrong, unclear: the numbers of rows of the sample with this judgement. Estimates use only right and
            wrong.
        open: the number of rows of the sample that were not judged yet.
    """

    stratum: str
    rows: int
    right: int
    wrong: int
    unclear: int = 0
    open: int = 0

    @property
    def decided(self) -> int:
        """Return the number of rows that were judged as right or wrong."""
        return self.right + self.wrong

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return Wilson's 95 % interval (low, high) of the share of right rows.

        The share is taken over the rows that were judged as right or wrong. The result is None if no row was judged as
        right or wrong.
        """
        return wilson(self.right, self.decided) if self.decided else None


@dataclass(frozen=True)
class Share:
    """Holds an estimated share (0 to 1) with its 95 % interval from ``low`` to ``high``."""

    value: float
    low: float
    high: float

    @property
    def is_exact(self) -> bool:
        """Return whether the interval has the width 0. This is the case if all, or nearly all, rows on which the share
        depends were judged.
        """
        return self.high - self.low < 1e-9


@dataclass(frozen=True)
class Estimate:
    """Holds the precision and the recall of a run's verification.

    Precision is the share of the kept rows that are right. Recall is the share of all right rows that were kept. Each
    of them is None if too few rows were judged to estimate it.
    """

    precision: Share | None
    recall: Share | None


def estimate(strata: Sequence[Judged]) -> Estimate:
    """Estimate precision and recall of a verification, with 95 % intervals, from the judgements in each stratum (group
    of rows).

    Precision is the share of the kept rows that are right. Recall is the share of all right rows that were kept. A row
    is decided if it was judged as right or wrong. Precision is None if no kept row was decided. Recall is None in three
    cases:

    - A stratum has no decided row.
    - No decided row is right.
    - The verification rejected no row. Recall would then be 1 for any judgements.

    The intervals are quantiles of random draws. A draw has two steps in each stratum. First, the share of right rows is
    drawn from its Beta posterior with the Jeffreys prior. Second, the number of right rows among the undecided rows is
    drawn from the binomial distribution with this share. A stratified bootstrap of the judgements is not used, because
    its intervals have the width zero if no judged row is wrong. Samples without a wrong row are common in a good run:
    with a true precision of .97, 22 % of the samples of 50 rows have no wrong row.
    """
    kept = next((each for each in strata if each.stratum == KEPT), None)
    if kept is None or not kept.decided:
        return Estimate(None, None)
    generator = np.random.default_rng(SEED)
    right = {each.stratum: _right_rows(each, generator) for each in strata if each.decided}
    precision = _share(kept.right / kept.decided, right[KEPT] / kept.rows)
    if len(strata) == 1 or any(not each.decided for each in strata):
        return Estimate(precision, None)
    expected = {each.stratum: each.rows * each.right / each.decided for each in strata}
    total, drawn = sum(expected.values()), np.sum(list(right.values()), axis=0)
    with np.errstate(invalid="ignore"):
        shares = np.where(drawn > 0, right[KEPT] / drawn, 1.0)
    return Estimate(precision, _share(expected[KEPT] / total, shares) if total else None)


def reasons_without_width(strata: Sequence[Judged], found: Estimate) -> dict[str, str]:
    """Return sentences on why an interval has the width 0. The keys of the result are the figures with such an
    interval: "precision", "recall" or both. The result is empty if both intervals have a width.

    ``strata`` holds the judgements of each stratum (group of rows), from which ``found`` was estimated. An interval
    without width does not mean that the figure is certain: the judgements themselves may be wrong.
    """
    kept = [each for each in strata if each.stratum == KEPT]
    rejected = [each for each in strata if each.stratum != KEPT]
    reasons = dict[str, str]()
    if found.precision and found.precision.is_exact:
        reasons["precision"] = _reason(kept, "kept rows")
    if found.recall and found.recall.is_exact:
        if _are_all_wrong(rejected):
            lost = "none is right: no right row was rejected."
            reasons["recall"] = (
                f"It has no width, because all {_counted(rejected, 'rejected rows')} were judged and {lost}"
            )
        elif _are_all_wrong(kept):
            named = _counted(kept, "kept rows")
            reasons["recall"] = f"It has no width, because all {named} were judged and none is right."
        else:
            reasons["recall"] = _reason(strata, "rows")
    return reasons


def _reason(strata: Sequence[Judged], named: str) -> str:
    """Return a sentence on why an interval has the width 0: all, or nearly all, rows of these strata were judged. A
    stratum is a group of rows. ``named`` is the word for these rows in the sentence, such as "kept rows".
    """
    nearly = "" if all(each.decided == each.rows for each in strata) else "nearly "
    return (
        f"It has no width, because {nearly}all {_counted(strata, named)} were judged: the figure does not depend on "
        "the sample."
    )


def _counted(strata: Sequence[Judged], named: str) -> str:
    return f"{named} ({sum(each.rows for each in strata):,})"


def _are_all_wrong(strata: Sequence[Judged]) -> bool:
    """Return whether all rows of these strata (groups of rows) were judged as wrong."""
    return all(each.wrong == each.rows for each in strata)


def _right_rows(judged: Judged, generator: np.random.Generator) -> np.ndarray:
    """Return random draws of the number of right rows in a stratum (group of rows), as :func:`estimate` describes.

    Only the number of right rows among the undecided rows (not judged as right or wrong) is random. If there are no
    undecided rows, each draw is the number of rows that were judged as right.
    """
    shares = generator.beta(judged.right + 0.5, judged.wrong + 0.5, DRAWS)
    return judged.right + generator.binomial(max(judged.rows - judged.decided, 0), shares)


def _share(value: float, draws: np.ndarray) -> Share:
    """Return the estimated share ``value`` with its interval, from the 2.5 % to the 97.5 % quantile of the random
    ``draws``.
    """
    low, high = np.quantile(draws, (0.025, 0.975))
    return Share(value, min(float(low), value), max(float(high), value))
