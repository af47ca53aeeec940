"""Computes the score for pointing from the number of targets pointed at and the number of wrong points.

A target is an object that the question is about.

Argos Eq. 3 is the share of right points among the given points: r / (r + w) for r right and w wrong points. It is the
first factor of :func:`pointing_score`. Eq. 3 does not consider missed targets, responses with only wrong points, and
responses without points. So by Eq. 3 alone, a response could earn more without points than with points. The other terms
of the score are our own. :func:`pointing_score` has these properties:

- A point on a further target never lowers the score, and a wrong point lowers it.
- The score without points is never higher than the score with at least one target pointed at.
- The score is 1 if all targets are pointed at and no point is wrong.
- The order of the points, and repeated points, do not change the score.
"""

from dataclasses import dataclass
from typing import Annotated

from groundtrace.config.settings import Share, settings


@settings
class PointingSettings:
    """Holds two weights of the pointing score: for missed targets, and for responses with only wrong points.

    A target is an object that the question is about. The function :func:`pointing_score` has the formula.
    """

    first_share: Annotated[
        Share,
        "s in the factor for missed targets, s + (1 - s) · share of targets found; 1: factor 1, as in Argos Eq. 3",
    ] = 0.5
    wrong_cost: Annotated[Share, "the maximum penalty for only wrong points; a response without points scores 0"] = 0.1


DEFAULT_POINTING = PointingSettings()


@dataclass(frozen=True)
class PointCounts:
    """Holds the numbers of right and wrong points of a response.

    Attributes:
        right: the number of distinct targets (objects that the question is about) that are pointed at, at most
            ``number``.
        wrong: the number of wrong points. A point is wrong if it is not on the object that its label names. If more
            than ``number`` objects are pointed at as targets, the surplus points are wrong, too. For example, if the
            question is about 3 objects, and the response points at 5 objects as targets, 2 of these points are wrong.
            Points with a general label, such as "object", are counted in two ways by the scorer ``spatial`` for images
            (:mod:`groundtrace.rewards.scorers.spatial`). In the first way, such a point is wrong if it is on an object
            that is not a target. In the second way, it is neutral. The scorer uses the way with the higher score.
        number: the number of targets of the question; None if it is unknown.
    """

    right: int
    wrong: int
    number: int | None = None

    @classmethod
    def within(cls, right: int, wrong: int, number: int | None) -> "PointCounts":
        """Return the counts, with at most ``number`` right points; further right points are counted as wrong.

        For example, if ``number`` is 3, a point on a fourth object is wrong: with ``right`` = 4 and ``wrong`` = 0, the
        result has 3 right points and 1 wrong point.

        Args:
            right: the number of distinct objects that are pointed at as targets.
            wrong: the number of wrong points before this correction.
            number: the number of targets of the question. None means that it is unknown; nothing is then corrected.
        """
        surplus = 0 if number is None else max(0, right - number)
        return cls(right - surplus, wrong + surplus, number)


def pointing_score(pointed: PointCounts, settings: PointingSettings = DEFAULT_POINTING) -> float:
    """Return the score for pointing, which is in [-ε, 1], and 0 if there are no points.

    If at least one target is pointed at, the score is r / (r + w) · (s + (1 - s) · r / n). Otherwise, it is
    -ε · w / (w + 1). So a response whose points are all wrong has a negative score.

    A target is an object that the question is about. r is the number of targets that are pointed at
    (``pointed.right``). w is the number of wrong points (``pointed.wrong``). n is the number of all targets
    (``pointed.number``). s and ε are the settings ``first_share`` and ``wrong_cost``. If n is unknown, the second
    factor is 1. The first factor is Argos Eq. 3.
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
