"""Plants one fault into a right trace of a rendered scene: a fault that a right answer hides, or a wrong answer.

Every fault is a fault by the gold boxes: a point that is moved lies off all objects of its label, and so on. About half
of the faults are wrong answers; the other half is drawn evenly from the kinds that the trace allows. The draw depends
on the id alone, so that the rows that are faulty at one share are so at a higher one.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from groundtrace.grading.responses.response import format_point, parse_points
from groundtrace.grading.responses.tags import scan_tags
from groundtrace.schemas.geometry import Box, Point

WRONG_ANSWER = "wrong answer"
WRONG_ANSWER_SHARE = 0.5
TRIES = 200
OFFSET_PX = 3.0

_AMOUNT = re.compile(r"(?P<before>\b(?:shows|there is|there are) )(?P<amount>\d+)(?= )")
_AGREES = re.compile(r"That (?:does not agree|agrees) with")
_SO = re.compile(r"So the answer is (?:yes|no)\.")
_ANSWER = re.compile(r"<answer>.*</answer>")


@dataclass(frozen=True)
class RightTrace:
    """A right trace and the data of its question; the gold boxes are those of all objects that it is about."""

    id: str
    text: str
    answer: str
    gold: tuple[Box, ...]
    entities: tuple[str, ...]
    width_px: int
    height_px: int

    @property
    def points(self) -> tuple[Point, ...]:
        """The points of the trace."""
        return parse_points(self.text)

    def is_on(self, point: Point) -> bool:
        """Whether the point lies on an object of its label."""
        return any(
            box.label == point.label and box.x1 <= point.x < box.x2 and box.y1 <= point.y < box.y2 for box in self.gold
        )


@dataclass(frozen=True)
class FaultyTrace:
    """A trace with one fault; ``rank`` is uniform in [0, 1). If the share of faults is s, the trace is used if rank <
    s.
    """

    kind: str
    text: str
    rank: float


Fault = Callable[[RightTrace, random.Random], str | None]
"""Return the text with the fault; None if the trace does not allow it."""


def plant(right: RightTrace, seed: int) -> FaultyTrace:
    """Return the faulty form of this trace; the same id and seed give the same fault."""
    rng = random.Random(f"{seed}/{right.id}")
    rank = rng.random()
    hidden = {kind: text for kind, fault in HIDDEN.items() if (text := fault(right, rng)) is not None}
    if not hidden or rng.random() < WRONG_ANSWER_SHARE:
        return FaultyTrace(WRONG_ANSWER, wrong_answer(right, rng), rank)
    kind = rng.choice(sorted(hidden))
    return FaultyTrace(kind, hidden[kind], rank)


def moved(right: RightTrace, rng: random.Random) -> str | None:
    """Move one point off all objects of its label."""
    points = list(right.points)
    if not points:
        return None
    index = rng.randrange(len(points))
    points[index] = _off(right, points[index], rng)
    return with_points(right.text, points)


def swapped(right: RightTrace, rng: random.Random) -> str | None:
    """Exchange the labels of two points."""
    points = list(right.points)
    pairs = [(i, j) for i in range(len(points)) for j in range(i) if points[i].label != points[j].label]
    if not pairs:
        return None
    i, j = rng.choice(pairs)
    points[i], points[j] = replace(points[i], label=points[j].label), replace(points[j], label=points[i].label)
    return with_points(right.text, points)


def missed(right: RightTrace, rng: random.Random) -> str | None:
    """Remove the point of one of several objects; their stated number is unchanged."""
    points = list(right.points)
    if len(points) < 2:
        return None
    points.pop(rng.randrange(len(points)))
    return with_points(right.text, points)


def doubled(right: RightTrace, rng: random.Random) -> str | None:
    """Move a point from one object to another one, which then has two, so that the number of points stays right."""
    points = list(right.points)
    if len(points) < 2:
        return None
    kept, lost = rng.sample(range(len(points)), 2)
    points[lost] = replace(points[kept], x=points[kept].x + rng.choice((-OFFSET_PX, OFFSET_PX)))
    return with_points(right.text, points) if right.is_on(points[lost]) else None


def invented(right: RightTrace, rng: random.Random) -> str | None:
    """Add a point that is on no object of its label."""
    points = right.points
    label = rng.choice(points).label if points else right.entities[0]
    return with_points(right.text, [*points, _off(right, Point(label, 0.0, 0.0), rng)])


def wrong_conclusion(right: RightTrace, rng: random.Random) -> str | None:
    """Let the reasoning end with a wrong number, or the wrong one of yes and no, although the answer is right."""
    return _concluding(right, rng)[0]


def wrong_answer(right: RightTrace, rng: random.Random) -> str:
    """Let the reasoning and the answer end with the same wrong number, or the same wrong one of yes and no."""
    text, answer = _concluding(right, rng)
    return _ANSWER.sub(f"<answer>{answer}</answer>", text)


HIDDEN: dict[str, Fault] = {
    "point moved off its object": moved,
    "labels swapped": swapped,
    "object missed": missed,
    "object doubled for another": doubled,
    "point invented": invented,
    "wrong conclusion": wrong_conclusion,
}


def with_points(text: str, points: Sequence[Point]) -> str:
    """Return the trace with these points in place of its own."""
    written = ", ".join(format_point(point) for point in points)
    tags = scan_tags(text)
    if not tags:
        return text.replace("<think>", f"<think>I find {written}. ", 1)
    return text[: tags[0].start] + written + text[tags[-1].end :]


def _concluding(right: RightTrace, rng: random.Random) -> tuple[str, str]:
    """Return the text with another conclusion in its reasoning, and the answer that this conclusion leads to."""
    if right.answer in ("yes", "no"):
        other, agrees = ("no", "does not agree") if right.answer == "yes" else ("yes", "agrees")
        text = _AGREES.sub(f"That {agrees} with", right.text)
        return _SO.sub(f"So the answer is {other}.", text), other
    amount = int(right.answer)
    other = str(amount + rng.choice((-1, 1) if amount else (1,)))
    return _AMOUNT.sub(lambda found: found["before"] + other, right.text, count=1), other


def _off(right: RightTrace, point: Point, rng: random.Random) -> Point:
    """Return the point at a random place that is on no object of its label."""
    for _ in range(TRIES):
        x, y = rng.uniform(2, right.width_px - 2), rng.uniform(2, right.height_px - 2)
        found = replace(point, x=round(x, 1), y=round(y, 1))
        if not right.is_on(found):
            return found
    raise ValueError(f"{right.id}: objects labelled {point.label!r} fill the image")
