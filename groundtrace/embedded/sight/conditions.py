"""Checks whether a tower (a stack of blocks) or a box (an area of the image) meets a condition of the question.

Both are groups of shapes. The result is yes, no, or undecided (None).
"""

from dataclasses import dataclass

from groundtrace.embedded.sight.layout import as_tower, touches
from groundtrace.embedded.sight.query import Amount, AtEnd, ColourCount, Condition, Has, OnlyOf, Over
from groundtrace.embedded.sight.shapes import Box, FoundShape


@dataclass(frozen=True, slots=True)
class Outcome:
    """Holds whether a group of shapes meets a condition, and the shapes on which this result is based.

    The group is a tower (a stack of blocks) or a box (an area of the image). `holds` is True if the group meets the
    condition. `evidence` are the shapes on which the result is based.
    """

    holds: bool
    evidence: tuple[FoundShape, ...]


def check(condition: Condition, group: list[FoundShape], walls: tuple[Box, ...]) -> Outcome | None:
    """Check whether a group of shapes meets a condition, such as "with exactly 3 blocks".

    `group` holds the shapes of a tower (a stack of blocks) or of a box (an area of the image). `walls` are the boxes,
    in pixels, whose sides a shape can touch. Returns None if the image does not determine the result, or if people
    understand the condition in different ways that lead to different results.
    """
    match condition:
        case Has():
            return _has(condition, group, walls)
        case OnlyOf():
            return _only(condition, group)
        case ColourCount():
            return Outcome(len({shape.colour for shape in group}) == condition.n, tuple(group)) if group else _NO
        case AtEnd():
            return _at_end(condition, group)
        case Over():
            return _over(condition, group)


_NO = Outcome(False, ())


def _has(condition: Has, group: list[FoundShape], walls: tuple[Box, ...]) -> Outcome | None:
    found = [shape for shape in group if condition.noun.matches(shape)]
    if condition.touch is not None:
        verdicts = [touches(shape, condition.touch, walls) for shape in found]
        if None in verdicts:
            return None
        found = [shape for shape, ok in zip(found, verdicts, strict=True) if ok]
    amount = condition.amount
    if amount.op == "bare" and condition.noun.is_general and condition.touch is None:
        # "A tower with four blocks" gives the tower's height, so the number is exact.
        amount = Amount("exactly", amount.n)
    holds = amount.holds(len(found), len(found))
    return None if holds is None else Outcome(holds, tuple(found))


def _only(condition: OnlyOf, group: list[FoundShape]) -> Outcome | None:
    """Return whether the condition's noun describes all objects of a group, as in "only black and yellow items".

    Return None if the noun describes them all, but the group lacks one of the noun's colours. For example, readers
    disagree whether a group of only black items has "only black and yellow items".
    """
    if not group or not all(condition.noun.matches(shape) for shape in group):
        return _NO
    complete = {shape.colour for shape in group} == set(condition.noun.colours)
    return Outcome(True, tuple(group)) if complete else None


def _at_end(condition: AtEnd, group: list[FoundShape]) -> Outcome | None:
    """Return whether the top or bottom object of a group of shapes matches the condition's noun.

    Return None if the shapes do not form a tower (a straight stack of blocks).
    """
    if not group:
        return _NO
    tower = as_tower(group)
    if tower is None:
        return None
    shape = tower[0] if condition.end == "top" else tower[-1]
    return Outcome(condition.noun.matches(shape), (shape,))


def _over(condition: Over, group: list[FoundShape]) -> Outcome | None:
    tower = as_tower(group)
    if tower is None:
        return None
    anywhere: list[FoundShape] = []
    for place, lower in enumerate(tower):
        for upper in tower[:place]:
            if condition.upper.matches(upper) and condition.lower.matches(lower):
                anywhere = anywhere or [upper, lower]
        if place and condition.upper.matches(tower[place - 1]) and condition.lower.matches(lower):
            return Outcome(True, (tower[place - 1], lower))
    if not anywhere:
        return _NO
    return _NO if condition.adjacent else None
