"""Traces that are right by the gold boxes, and faults planted in them one by one."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from inference.request import Completion
from schemas.answers.grading import grade_answer
from schemas.answers.registry import answer_type_named
from schemas.geometry import Box, Point
from schemas.records import Draft, Question, Trace
from schemas.responses.response import format_point
from schemas.responses.tags import scan_tags
from stages.generate_traces import as_trace

TRIES = 40
Boxes = Sequence[Box]


def inside(point: Point, box: Box) -> bool:
    """Whether the point is in the box."""
    return box.x1 <= point.x < box.x2 and box.y1 <= point.y < box.y2


def is_on(point: Point, gold: Boxes) -> bool:
    """The truth: the point lies on an object of its label."""
    return any(box.label == point.label and inside(point, box) for box in gold)


@dataclass(frozen=True)
class Case:
    """A trace with the objects of its image, and whether the question counts those of its own gold boxes."""

    draft: Draft
    trace: Trace
    gold: tuple[Box, ...]

    @property
    def question(self) -> Question:
        """The draft's."""
        return self.draft.question

    @property
    def counts(self) -> bool:
        """Whether the question counts the objects of its gold boxes."""
        is_number = answer_type_named(self.question.answer_type).is_number
        return is_number and self.question.question.lower().startswith("how many")

    def is_right(self) -> bool:
        """By the gold answer and boxes: right answer, points on their objects, one for each object counted."""
        question, points = self.question, self.trace.points
        grade = grade_answer(self.trace.answer, question.answer, question.answer_type, question.choices)
        if grade.value != 1.0 or not all(is_on(point, self.gold) for point in points):
            return False
        counted = question.gold_boxes or ()
        one_each = all(sum(inside(p, box) and p.label == box.label for p in points) == 1 for box in counted)
        return not self.counts or (one_each and len(points) == len(counted))


Fault = Callable[[Case, random.Random], tuple[list[Point], str] | None]
"""The points and the answer of the faulty trace; None where the fault cannot be planted, or would leave it right."""


def _off(point: Point, case: Case, rng: random.Random, anywhere: bool) -> Point | None:
    """The point moved off all objects of its label: 1 to 2 widths of its object, or anywhere."""
    home = next(box for box in case.gold if box.label == point.label and inside(point, box))
    medium = case.question.media[0]
    for _ in range(TRIES):
        angle, reach = rng.uniform(0, 2 * math.pi), rng.uniform(1, 2) * home.width
        x, y = point.x + reach * math.cos(angle), point.y + reach * math.sin(angle)
        if anywhere:
            x, y = rng.uniform(0, medium.width), rng.uniform(0, medium.height)
        moved = replace(point, x=round(x, 1), y=round(y, 1))
        if 0 <= moved.x < medium.width and 0 <= moved.y < medium.height and not is_on(moved, case.gold):
            return moved
    return None


def shifted(case: Case, rng: random.Random) -> tuple[list[Point], str] | None:
    """One point lies 1 to 2 object widths off."""
    points = list(case.trace.points)
    if not points:
        return None
    index = rng.randrange(len(points))
    moved = _off(points[index], case, rng, anywhere=False)
    return None if moved is None else ([*points[:index], moved, *points[index + 1 :]], case.question.answer)


def swapped(case: Case, rng: random.Random) -> tuple[list[Point], str] | None:
    """Two objects that are both there have each other's label."""
    points = list(case.trace.points)
    pairs = [(i, j) for i in range(len(points)) for j in range(i) if points[i].label != points[j].label]
    if not pairs:
        return None
    i, j = rng.choice(pairs)
    points[i], points[j] = replace(points[i], label=points[j].label), replace(points[j], label=points[i].label)
    return None if is_on(points[i], case.gold) or is_on(points[j], case.gold) else (points, case.question.answer)


def dropped(case: Case, rng: random.Random) -> tuple[list[Point], str] | None:
    """One of the objects counted has no point."""
    points = list(case.trace.points)
    if not case.counts or not points:
        return None
    points.pop(rng.randrange(len(points)))
    return points, case.question.answer


def doubled(case: Case, rng: random.Random) -> tuple[list[Point], str] | None:
    """One of the objects counted has two points and another none, so that their number is right."""
    points = list(case.trace.points)
    if not case.counts or len(points) < 2:
        return None
    kept, lost = rng.sample(range(len(points)), 2)
    points[lost] = replace(points[kept], x=points[kept].x + rng.choice((-1.0, 1.0)))
    return (points, case.question.answer) if is_on(points[lost], case.gold) else None


def invented(case: Case, rng: random.Random) -> tuple[list[Point], str] | None:
    """A further point, on no object."""
    points = list(case.trace.points)
    if not points:
        return None
    extra = _off(rng.choice(points), case, rng, anywhere=True)
    if extra is None or any(inside(extra, box) for box in case.gold):
        return None
    return [*points, extra], case.question.answer


def wrong_points(case: Case, rng: random.Random) -> tuple[list[Point], str] | None:
    """The right answer, and every point off its object."""
    moved = [_off(point, case, rng, anywhere=True) for point in case.trace.points]
    found = [point for point in moved if point is not None]
    return (found, case.question.answer) if found and len(found) == len(moved) else None


def wrong_answer(case: Case, rng: random.Random) -> tuple[list[Point], str] | None:
    """The right points, and another answer."""
    gold = case.question.answer
    if gold in ("yes", "no"):
        return list(case.trace.points), "no" if gold == "yes" else "yes"
    return (list(case.trace.points), str(int(gold) + rng.choice((-1, 1)))) if gold.isdecimal() else None


FAULTS: dict[str, Fault] = {
    "point shifted off its object": shifted,
    "labels swapped": swapped,
    "object dropped": dropped,
    "object doubled for another": doubled,
    "object invented": invented,
    "right answer, wrong points": wrong_points,
    "right points, wrong answer": wrong_answer,
}


def rewritten(text: str, points: Iterable[Point], answer: str) -> str:
    """The response with these points in the place of its own, and this answer."""
    tags = scan_tags(text)
    written = ", ".join(format_point(point) for point in points)
    if tags:
        text = text[: tags[0].start] + written + text[tags[-1].end :]
    return text[: text.rindex("<answer>")] + f"<answer>{answer}</answer>"


def planted(cases: Sequence[Case], count: int, rng: random.Random) -> Iterator[tuple[str, Case]]:
    """The same number of each kind, at least ``count`` in all where the cases allow it, spread over the cases."""
    wanted = math.ceil(count / len(FAULTS))
    for name, fault in FAULTS.items():
        made = 0
        for case in (case for _ in range(TRIES) for case in rng.sample(list(cases), len(cases))):
            changed = fault(case, rng) if made < wanted else None
            if changed is not None:
                made += 1
                faulty = as_trace(0, Completion(rewritten(case.trace.text, *changed)), case.question.media)
                yield name, replace(case, trace=faulty)
            if made == wanted:
                break
