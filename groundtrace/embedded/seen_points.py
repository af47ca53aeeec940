"""Checks in the image whether the points and boxes of a reasoning show objects that the question is about."""

from collections.abc import Iterable
from dataclasses import dataclass

from groundtrace.embedded.scenes import Scene
from groundtrace.embedded.sight.language import read_question
from groundtrace.embedded.sight.names import read_name
from groundtrace.embedded.sight.query import nouns_of
from groundtrace.schemas.records import Question

ANY = "object"
"""The label of a place that has none: it names every object."""
Place = tuple[str, float, float]
"""A label in English, and the x and y coordinates of a point or of a box's centre, in pixels of the original image."""


@dataclass(frozen=True)
class SeenPoints:
    """Holds the result of the check. ``shown`` is True if the places show objects of the question, False if not, and
    None if this cannot be decided. ``reason`` explains the result.
    """

    shown: bool | None
    reason: str


def seen_points(places: Iterable[Place], question: Question, scene: Scene) -> SeenPoints:
    """Return whether the places at which a reasoning points show objects that the question is about.

    A place is right if it is in an object that its label names, and the question is about this object. It is wrong if
    it is in no object that its label names, or if the label is unreadable. A place without a label can be in any
    object. The result is True if at least one place is right, and not more are wrong than right. It is None if there is
    not exactly one image, or if the embedded engine (OpenCV, no model) cannot read the question.
    """
    query = read_question(question.question, question.choices)
    if scene.size == (0, 0) or query is None:
        return SeenPoints(None, "what it points at cannot be compared with the image and the question")
    labels, boxes_px, nouns = [d.label for d in scene.detections], [d.box_px for d in scene.detections], nouns_of(query)
    right = wrong = 0
    for label, x, y in places:
        name = read_name(label or ANY)
        indices = [] if name is None else name.among(labels, boxes_px, scene.panels)
        named = [(labels[index], boxes_px[index]) for index in indices]
        on = [each for each, (x1, y1, x2, y2) in named if x1 <= x < x2 and y1 <= y < y2]
        wrong += not on
        right += any(any(noun.allows(*each.split(" ", 1)) for noun in nouns) for each in on)
    if right and right >= wrong:
        return SeenPoints(True, "it answers by what it points at")
    return SeenPoints(False, "what it points at is not there, or the question is not about it")
