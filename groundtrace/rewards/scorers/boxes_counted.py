"""Scores counting by boxes, for a question that asks how many: the centres of the boxes are scored like points.

The papers do not have this scorer. It is needed because iVGR Eq. 2 is too high for an incomplete count. For example, a
response marks only one of three counted objects, with a perfect box. Then Eq. 2 gives 2/3, the mean of the recall 1/3
and the precision 1. This scorer gives 1/3.

The scorer :mod:`groundtrace.rewards.scorers.counting` scores points. Its verdicts have the same meaning as those of
this scorer, so both scorers are named ``counting``. A recipe uses only one of the two scorers.
"""

from dataclasses import replace

from groundtrace.rewards.case import Case
from groundtrace.rewards.scorer import ASKED_FOR_BOXES
from groundtrace.rewards.scorers import counting
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.records import Verdict


def centre_point(box: Box) -> Point:
    """Return the centre of a box as a point with the same label."""
    return Point(box.label, *box.centre, box.media_index)


async def score_counted(case: Case) -> Verdict:
    """Return the verdict on the boxes of a response to a question that asks how many; 1 means a perfect match.

    ``case`` holds the response. Each box is replaced by a point at its centre, and the points are compared with the
    detected objects (:func:`groundtrace.rewards.scorers.counting.score_counting`).
    """
    return await counting.score_counting(replace(case, points=tuple(map(centre_point, case.boxes))))


SCORER = replace(
    counting.SCORER,
    score=score_counted,
    needs=(ASKED_FOR_BOXES, *counting.ABOUT_A_COUNT, (lambda case: bool(case.boxes), "no box")),
)
