"""Computes the score for pointing from the number of targets pointed at and the number of wrong points.

A target is an object that the question is about.

Argos Eq. 3 is the share of right points among the given points: r / (r + w) for r right and w wrong points. It is the
first factor in :func:`pointing_score`. It does not consider missed targets, responses with only wrong points, and
responses without points. So by Eq. 3 alone, a response could earn more without points than with points. The other terms
of the score are our own. :func:`pointing_score` has these properties:

- a point on a further target never lowers the score, and a wrong point lowers it;
- the score without points is never higher than with at least one target pointed at;
- the score is 1 if all targets are pointed at and no point is wrong;
- the order of the points, and repeated points, do not change the score.
"""

from dataclasses import dataclass
from typing import Annotated

from groundtrace.config.settings import Share, settings


@settings
class PointingSettings:
    """Holds the weights of :func:`pointing_score` for found targets, missed targets and wrong points."""

    first_share: Annotated[
        Share,
        "s: the score for one found target of many; 1 is Argos Eq. 3, 0 scores the share of targets found",
    ] = 0.5
    wrong_cost: Annotated[Share, "the maximum penalty for only wrong points; a response without points scores 0"] = 0.1


DEFAULT_POINTING = PointingSettings()


@dataclass(frozen=True)
class PointCounts:
    """Holds the counts of right and wrong points of a response.

    Attributes:
        right: the number of distinct targets (objects that the question is about) that are pointed at.
        wrong: the number of points that are not on the object that their label names. If more than ``number`` targets
            are pointed at, each further target is also one wrong point.
        number: the number of targets of the question; None if it is unknown.
    """

    right: int
    wrong: int
    number: int | None = None

    @classmethod
    def within(cls, right: int, wrong: int, number: int | None) -> "PointCounts":
        """Return the counts; if more than ``number`` targets are pointed at, each further one is counted as wrong.

        ``right`` is the number of targets that are pointed at, and ``wrong`` the number of wrong points before this
        correction. For example, if the answer is three, a point on a fourth object is wrong.
        """
        surplus = 0 if number is None else max(0, right - number)
        return cls(right - surplus, wrong + surplus, number)


def pointing_score(pointed: PointCounts, settings: PointingSettings = DEFAULT_POINTING) -> float:
    """Return r / (r + w) · (s + (1 - s) · r / n), or -ε · w / (w + 1) if no target is pointed at.

    The numbers r, w and n are the fields ``right``, ``wrong`` and ``number`` of ``pointed``. The numbers s and ε are
    the settings ``first_share`` and ``wrong_cost``. If n is unknown, the second factor is 1. The first factor is Argos
    Eq. 3. The value is in [-ε, 1], and 0 if there are no points.
    """
    if not pointed.right and not pointed.wrong:
        return 0.0
    if not pointed.right:
        return -settings.wrong_cost * pointed.wrong / (pointed.wrong + 1)
    precise = pointed.right / (pointed.right + pointed.wrong)
    if pointed.number is None:
        return precise
    found = pointed.right / pointed.number
    return precise * (settings.first_share + (1 - settings.first_share) * found)
