"""What pointing earns, from how many targets are pointed at and how many points are wrong.

Argos Eq. 3 is a mean over the points that are there: the first factor below, r / (r + w). It says nothing of targets
that were passed over, of wrong points alone, nor of no points at all, so that silence can earn more than looking. The
rest is ours. :func:`pointing_score` keeps these laws, whatever the other terms of a reward are:

- a point on one more target never lowers it, and a wrong point lowers it;
- without any points it is never higher than with at least one target pointed at;
- all targets and nothing wrong earn 1;
- the order of the points, and repeats, change nothing.
"""

from dataclasses import dataclass
from typing import Annotated

from groundtrace.schemas.config import Share, settings


@settings
class PointingSettings:
    """How :func:`pointing_score` weighs what is found, what is missed, and what is wrong."""

    first_share: Annotated[Share, "what one target of many earns of the whole; 1 is Argos Eq. 3, 0 counts targets"] = (
        0.5
    )
    wrong_cost: Annotated[Share, "what wrong points alone cost at most, where silence earns 0"] = 0.1


DEFAULT_POINTING = PointingSettings()


@dataclass(frozen=True)
class Pointed:
    """What the points of a response come to.

    Attributes:
        right: distinct targets that are pointed at.
        wrong: points off their objects, and targets pointed at beyond their ``number``.
        number: how many targets the question has; None where nobody knows.
    """

    right: int
    wrong: int
    number: int | None = None

    @classmethod
    def within(cls, right: int, wrong: int, number: int | None) -> "Pointed":
        """Targets beyond their number are wrong: an answer of three has no four objects."""
        surplus = 0 if number is None else max(0, right - number)
        return cls(right - surplus, wrong + surplus, number)


def pointing_score(pointed: Pointed, settings: PointingSettings = DEFAULT_POINTING) -> float:
    """Returns r / (r + w) · (s + (1 - s) · r / n), or -ε · w / (w + 1) where no target is pointed at.

    r is ``right``, w ``wrong``, n ``number`` (unknown: the second factor is 1), s ``first_share`` and ε ``wrong_cost``.
    The first factor is Argos Eq. 3. The value is in [-ε, 1], and 0 for no points at all.
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
