"""Splits a trace that is right by the gold boxes into parts, from which faulty or other right traces are written."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from groundtrace.schemas.geometry import Box, Point

_FORM = re.compile(
    r"<think>(?:(?P<opening>I find|I look at) (?P<tags><points .*</points>)\. )?(?P<reason>[^<]*)</think>\s*"
    r"<answer>(?P<answer>[^<]*)</answer>",
    re.DOTALL,
)
_TAG = re.compile(r'<points x1="(?P<x>[\d.]+)" y1="(?P<y>[\d.]+)" alt="(?P<label>[^"]*)">[^<]*</points>')
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class QuestionWithTruth:
    """A question with the truth about its image, which the verifier does not see.

    ``objects`` are all objects of the image, ``counted`` those that a counting question asks for (None for other
    questions). All boxes are in pixels of the original image, and so are ``width`` and ``height``.
    """

    id: str
    question: str
    answer: str
    width: int
    height: int
    objects: tuple[Box, ...]
    counted: tuple[Box, ...] | None

    @property
    def labels(self) -> list[str]:
        """The classes of objects in the image."""
        return sorted({box.label for box in self.objects})

    def under(self, x: float, y: float) -> list[Box]:
        """Return the objects whose boxes contain this place."""
        return [box for box in self.objects if box.x1 <= x < box.x2 and box.y1 <= y < box.y2]

    def is_on(self, point: Point) -> bool:
        """Whether the point is on an object of its label, by the gold boxes."""
        return any(box.label == point.label for box in self.under(point.x, point.y))

    def are_right(self, points: Sequence[Point]) -> bool:
        """Whether every point is on its object; for a count, also whether exactly the counted objects have points."""
        if not all(self.is_on(point) for point in points):
            return False
        if self.counted is None:
            return bool(points)
        hit = [box for point in points for box in self.under(point.x, point.y) if box.label == point.label]
        return set(hit) == set(self.counted)


@dataclass(frozen=True)
class Right:
    """A right trace of the embedded engine: a few words, the points, a sentence or two of reasoning, the answer."""

    asked: QuestionWithTruth
    opening: str
    points: tuple[Point, ...]
    reason: str

    @property
    def count(self) -> int | None:
        """The right number of a counting question; None for other questions."""
        return int(self.asked.answer) if self.asked.counted is not None else None

    def write(
        self,
        points: Sequence[Point] | None = None,
        *,
        tags: Sequence[str] | None = None,
        before: str = "",
        reason: str | None = None,
        after: str = "",
        answer: str | None = None,
    ) -> str:
        """Return the response with these points, or with tags as text, and with text before them or after the
        reasoning.
        """
        answer = self.asked.answer if answer is None else answer
        return f"<think>{before}{self.thought(points, tags, reason)}{after}</think>\n<answer>{answer}</answer>"

    def thought(
        self, points: Sequence[Point] | None = None, tags: Sequence[str] | None = None, reason: str | None = None
    ) -> str:
        """Return the text between the think tags."""
        tags = [tag(point) for point in (self.points if points is None else points)] if tags is None else tags
        found = f"{self.opening} {', '.join(tags)}. " if tags else ""
        return found + (self.reason if reason is None else reason)


Plant = Callable[[Right, random.Random], str | None]
"""Return the text of the response; None if the trace does not allow this change, or would stay the same."""


def tag(point: Point) -> str:
    """Return a point in the canonical form."""
    return written(point.label, {"x1": number(point.x), "y1": number(point.y)})


def number(value: float) -> str:
    """Return a coordinate as text with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def written(label: str, attributes: dict[str, str]) -> str:
    """Return a tag with a label and these attributes, which are not changed."""
    named = " ".join(f'{name}="{value}"' for name, value in attributes.items())
    return f'<points {named} alt="{label}">{label}</points>'


def right_trace(asked: QuestionWithTruth, text: str) -> Right | None:
    """Return the parts of a trace; None if it has another form, or is wrong by the gold answer and boxes."""
    form = _FORM.fullmatch(text.strip())
    if form is None or form["answer"] != asked.answer or form["tags"] is None:
        return None
    points = tuple(Point(t["label"], float(t["x"]), float(t["y"])) for t in _TAG.finditer(form["tags"]))
    if ", ".join(map(tag, points)) != form["tags"] or not asked.are_right(points):
        return None
    if asked.counted is not None and len(points) != len(asked.counted):
        return None
    return Right(asked, form["opening"], points, form["reason"])


def moved(right: Right, number: int, x: float, y: float) -> list[Point]:
    """Return the points of the trace, of which the point ``number`` is moved to ``x`` and ``y``."""
    points = list(right.points)
    points[number] = replace(points[number], x=x, y=y)
    return points


def box_of(right: Right, point: Point) -> Box:
    """Return the object on which a point of a right trace is."""
    return next(box for box in right.asked.under(point.x, point.y) if box.label == point.label)


def wrong_count(right: Right, rng: random.Random) -> int | None:
    """Return a wrong number for a counting question; None for other questions."""
    if right.count is None:
        return None
    return rng.choice([n for n in range(max(0, right.count - 2), right.count + 4) if n != right.count])


def in_words(number: int) -> str:
    """Return a number as a word."""
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)


def opposite(answer: str) -> str | None:
    """Return no for yes and yes for no; None for any other answer."""
    return {"yes": "no", "no": "yes"}.get(answer)
