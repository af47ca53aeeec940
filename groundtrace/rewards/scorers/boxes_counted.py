"""Counting by boxes: :mod:`groundtrace.rewards.scorers.counting` for a response that boxes what it counts, box centres
for points.

Not in the papers: iVGR Eq. 2 gives 2/3 to the box of one of three things that a question counts. Its verdict bears the
name ``counting`` too, since it says the same of a response in the other form; a recipe takes one of the two.
"""

from dataclasses import replace

from groundtrace.rewards.case import Case
from groundtrace.rewards.scorer import ASKED_FOR_BOXES
from groundtrace.rewards.scorers import counting
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.records import Verdict


def centre_point(box: Box) -> Point:
    """Returns the middle of a box as a point of its label."""
    return Point(box.label, *box.centre, box.media_index)


async def score_counted(case: Case) -> Verdict:
    """See :func:`groundtrace.rewards.scorers.counting.score_counting`."""
    return await counting.score_counting(replace(case, points=tuple(map(centre_point, case.boxes))))


SCORER = replace(
    counting.SCORER,
    score=score_counted,
    needs=(ASKED_FOR_BOXES, *counting.ABOUT_A_COUNT, (lambda case: bool(case.boxes), "no box")),
)
