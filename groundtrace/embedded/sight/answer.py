"""Answers a parsed question from the shapes found in an image. It also returns the reason and the supporting shapes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from groundtrace.embedded.sight.conditions import check
from groundtrace.embedded.sight.labels import Noun
from groundtrace.embedded.sight.layout import find_towers, shapes_by_panel, touches
from groundtrace.embedded.sight.query import (
    Amount,
    AttributeQuery,
    CountQuery,
    GroupStatement,
    ObjectStatement,
    Query,
    Touch,
    nouns_of,
)
from groundtrace.embedded.sight.shapes import Box, FoundShape

MAX_LABELS = 10
_MARGIN = 1.08


@dataclass(frozen=True, slots=True)
class SightAnswer:
    """Holds an answer ("3", "yes", "no", or the text of a choice), the objects that support it, and the reason.

    `evidence` holds each counted or selected object once, and no other objects. `reason` is one or two sentences
    without coordinates.
    """

    answer: str
    evidence: tuple[FoundShape, ...]
    reason: str


def answer(
    query: Query, shapes: Sequence[FoundShape], image_size: tuple[int, int], panels: tuple[Box, ...] = ()
) -> SightAnswer | None:
    """Answer a parsed question from the shapes found in an image.

    `query` is the question, `shapes` are the shapes, and `image_size` is the (width, height) of the image in pixels.
    `panels` are the boxes from `layout.find_panels`: areas of the image that are separated by bars. Without panels,
    objects can touch only the walls (sides) of the whole image.

    Returns None ("cannot read") if the shapes do not determine the answer. Examples: the question can be understood in
    two ways with different answers; the question is about towers, but no shapes are stacked; the answer is not one of
    the choices.
    """
    seen = list(shapes)
    walls = walls_of(image_size, panels)
    match query:
        case CountQuery():
            reading = _count(query.noun, query.touch, seen, walls)
        case ObjectStatement():
            reading = _objects(query, seen, walls)
        case GroupStatement():
            reading = _groups(query, seen, panels, walls)
        case AttributeQuery():
            reading = _attribute(query, seen)
    return None if reading is None else _as_choice(reading, query.choices)


def walls_of(image_size: tuple[int, int], panels: tuple[Box, ...]) -> tuple[Box, ...]:
    """Return the boxes whose walls (sides) an object can touch: the panels or, without panels, the whole image.

    `image_size` is the (width, height) of the image in pixels. `panels` are the boxes of areas that are separated by
    bars.
    """
    return panels or ((0.0, 0.0, float(image_size[0]), float(image_size[1])),)


def relevant_labels(query: Query, shapes: Sequence[FoundShape]) -> tuple[str, ...]:
    """Return the classes of objects that a parsed question is about, such as "red circle"; at most `MAX_LABELS` (10).

    The classes are those of the `shapes` in the image that match the question's nouns. For a noun that no shape
    matches, the result contains the noun's own phrase ("circle"), so that a detector can search for such objects.
    """
    labels: dict[str, None] = {}
    for noun in nouns_of(query):
        matching = [shape.label for shape in shapes if noun.matches(shape)]
        labels.update(dict.fromkeys(matching or [noun.phrase]))
    return tuple(labels)[:MAX_LABELS]


def _plural(count: int, noun: Noun) -> str:
    return f"{count} {noun.phrase}{'' if count == 1 else 's'}"


def _touching(touch: Touch | None) -> str:
    if touch is None:
        return ""
    where = "an edge" if touch.place == "edge" else "a corner" if touch.place == "corner" else f"the {touch.place}"
    return f" {'not ' if touch.negated else ''}touching {where}"


def matching(
    noun: Noun, touch: Touch | None, shapes: list[FoundShape], walls: tuple[Box, ...]
) -> tuple[FoundShape, ...] | None:
    """Return the shapes that match a noun and meet a condition such as "touching the edge".

    `touch` is this condition; None if there is no condition. `walls` are the boxes whose sides a shape can touch.
    Returns None ("cannot read") if there is a condition, and a matching shape is outside all boxes.
    """
    found = [shape for shape in shapes if noun.matches(shape)]
    if touch is None:
        return tuple(found)
    verdicts = [touches(shape, touch, walls) for shape in found]
    return None if None in verdicts else tuple(s for s, ok in zip(found, verdicts, strict=True) if ok)


def _count(noun: Noun, touch: Touch | None, shapes: list[FoundShape], walls: tuple[Box, ...]) -> SightAnswer | None:
    found = matching(noun, touch, shapes, walls)
    if found is None:
        return None
    verb = "is" if len(found) == 1 else "are"
    reason = f"Looking over the whole picture, there {verb} {_plural(len(found), noun)}{_touching(touch)}."
    return SightAnswer(str(len(found)), found, reason)


def _objects(query: ObjectStatement, shapes: list[FoundShape], walls: tuple[Box, ...]) -> SightAnswer | None:
    found = matching(query.noun, query.touch, shapes, walls)
    if found is None:
        return None
    holds = query.amount.holds(len(found), len(found))
    if holds is None:
        return None
    what = f"{_plural(len(found), query.noun)}{_touching(query.touch)}"
    verdict = "agrees with" if holds else "does not agree with"
    reason = f"The picture shows {what}. That {verdict} {_amount(query.amount)}. So the answer is {_yes(holds)}."
    return SightAnswer(_yes(holds), found, reason)


def _groups(
    query: GroupStatement, shapes: list[FoundShape], panels: tuple[Box, ...], walls: tuple[Box, ...]
) -> SightAnswer | None:
    """Answer a statement about towers (stacks of blocks) or boxes (areas of the image).

    The towers or boxes that meet all conditions are counted. If the shapes do not determine whether a tower or box
    meets a condition, the count is a range: from the count without this tower or box to the count with it. Returns None
    if the shapes do not determine the answer.
    """
    if query.group == "tower":
        groups = find_towers(shapes, panels)
    else:
        groups = shapes_by_panel(shapes, panels) if panels else None
    if groups is None or not groups:
        return None
    if query.of:
        chosen = [[check(condition, group, walls) for condition in query.of] for group in groups]
        if any(result is None for row in chosen for result in row):
            return None
        groups = [g for g, row in zip(groups, chosen, strict=True) if all(r is not None and r.holds for r in row)]
        if len(groups) != 1:
            return None
    sure = unsure = 0
    evidence: list[FoundShape] = []
    for group in groups:
        results = [check(condition, group, walls) for condition in query.conditions]
        if any(result is not None and not result.holds for result in results):
            continue
        if any(result is None for result in results):
            unsure += 1
            continue
        sure += 1
        for result in results:
            evidence += [] if result is None else result.evidence
        if not results:
            evidence += group
    amount = query.amount or Amount("exactly", len(groups))
    holds = amount.holds(sure, sure + unsure)
    if holds is None:
        return None
    number = f"{sure} of the {len(groups)} {query.group if query.group == 'tower' else 'boxe'}s"
    reason = f"Going through them one by one, {number} surely meet{'s' if sure == 1 else ''} the description."
    return SightAnswer(_yes(holds), tuple(dict.fromkeys(evidence)), f"{reason} {_verdict(holds)}")


def _attribute(query: AttributeQuery, shapes: list[FoundShape]) -> SightAnswer | None:
    """Answer a question such as "What colour is the tallest bar?" with the colour or the kind of shape of one object.

    Returns None if the question does not select exactly one of the objects.
    """
    found = [shape for shape in shapes if query.noun.matches(shape)]
    if query.superlative is not None and len(found) > 1:
        measure, sign = _MEASURES[query.superlative]
        found.sort(key=lambda shape: sign * measure(shape), reverse=True)
        first, second = (measure(shape) for shape in found[:2])
        clear = abs(first - second) > 2.0 and max(first, second) > _MARGIN * min(first, second)
        found = found[:1] if clear else found
    if len(found) != 1:
        return None
    value = found[0].colour if query.attribute == "colour" else found[0].kind
    which = f"{query.superlative or 'only'} {query.noun.phrase}"
    verb = f"is {value}" if query.attribute == "colour" else f"is a {value}"
    return SightAnswer(value, (found[0],), f"The {which} in the picture {verb}. So the answer is {value}.")


_MEASURES: dict[str, tuple[Callable[[FoundShape], float], int]] = {
    "largest": (lambda s: s.area_px, 1),
    "smallest": (lambda s: s.area_px, -1),
    "tallest": (lambda s: s.height_px, 1),
    "shortest": (lambda s: s.height_px, -1),
    "leftmost": (lambda s: s.box_px[0], -1),
    "rightmost": (lambda s: s.box_px[2], 1),
    "topmost": (lambda s: s.box_px[1], -1),
    "lowest": (lambda s: s.box_px[3], 1),
}


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _verdict(holds: bool) -> str:
    return "So the statement is true." if holds else "So the statement is false."


def _amount(amount: Amount) -> str:
    if amount == Amount("exactly", 0):
        return "there being none"
    return f"{'' if amount.op == 'bare' else amount.op + ' '}{amount.n}"


def _as_choice(reading: SightAnswer, choices: tuple[str, ...]) -> SightAnswer | None:
    """Return a copy of ``reading`` in which the answer is written as in the matching choice.

    ``reading`` is the engine's answer with its reason. For example, the answer "3" becomes "3.0" if one of the
    ``choices`` is "3.0". Returns None if no choice equals the answer. Without choices, returns ``reading`` unchanged.
    """
    if not choices:
        return reading
    for choice in choices:
        text = choice.strip().lower().rstrip(".").replace("gray", "grey")
        if text == reading.answer or text.removesuffix(".0") == reading.answer:
            return SightAnswer(choice, reading.evidence, reading.reason)
    return None
