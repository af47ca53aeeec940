"""Checks the points at the top or the base of a tower: a point must be on the block that the reasoning names."""

import re
from collections.abc import Iterator

from groundtrace.embedded.marked_text import MARK, Marked, MarkedText, assertions, is_negated
from groundtrace.embedded.scenes import Scene
from groundtrace.embedded.sight.layout import find_towers
from groundtrace.embedded.sight.shapes import FoundShape

_END = r"(?:(?P<top>top|(?:topmost|top|uppermost|highest) block)|base|bottom|(?:lowest|bottommost|bottom|base) block)"
_TOWER = r"of (?:the|this|its) (?:[a-z]+ )?tower"
_TAG_IS_END = re.compile(rf"(?P<mark>{MARK}) (?:is|forms) (?:also )?the {_END} {_TOWER}\b")
_END_IS_TAG = re.compile(rf"\bthe {_END} {_TOWER}(?: is|,|:)? (?:a |the )?(?P<mark>{MARK})")
_INSIDE = re.compile(
    rf"(?:the |its |this )?(?P<top>(?:topmost|top|uppermost|highest) block)(?: {_TOWER})?"
    rf"|(?:the |its |this )?(?:lowest|bottommost|bottom) block(?: {_TOWER})?"
)


def wrong_end_of_tower(marked: MarkedText, scene: Scene | None) -> str | None:
    """Return a message if a tag is called the top or base of a tower, but points at another block; else None.

    ``marked`` is the reasoning; its tags are XML elements that point at objects. The words for the top or the base can
    be inside the tag ("its lowest block") or in a sentence ("the base of the left tower is [blue block]"). ``scene``
    holds the image; None if there is no image. An image is checked only if its shapes form towers (stacks of blocks).
    """
    claims = [*_claims(marked)] if scene is not None else []
    if scene is None or not claims:
        return None
    towers = find_towers(scene.shapes or [], scene.panels) or []
    for tag, is_top, stated in claims:
        tower = next((each for each in towers if _index(tag, each) is not None), None)
        if tower is not None and _index(tag, tower) != (0 if is_top else len(tower) - 1):
            return f"it points at another block than the end of the tower: {re.sub(MARK, '…', stated).strip()}"
    return None


def _claims(marked: MarkedText) -> Iterator[tuple[Marked, bool, str]]:
    """Yield each tag that the reasoning calls an end of a tower (its top or its base), as a tuple of three values.

    The values are the tag; True for the top or False for the base; and the text that names this end. The text is the
    text inside the tag, or a sentence.
    """
    for tag in marked.marks.values():
        found = _INSIDE.fullmatch(tag.inside)
        if found is not None:
            yield tag, found["top"] is not None, tag.inside
    for sentence in assertions(marked):
        for pattern in () if is_negated(sentence.text) else (_TAG_IS_END, _END_IS_TAG):
            for found in pattern.finditer(sentence.text):
                for tag in marked.among(found["mark"]):
                    if not (tag.is_beside and pattern is _TAG_IS_END):
                        yield tag, found["top"] is not None, sentence.text


def _index(tag: Marked, tower: list[FoundShape]) -> int | None:
    """Return the index (from the top) of the tower's block at which the tag points.

    Returns None if the tag points at no block of the tower, or if it does not have exactly one point.
    """
    if len(tag.centres) != 1:
        return None
    x, y = tag.centres[0]
    boxes = (shape.box_px for shape in tower)
    return next((n for n, (x1, y1, x2, y2) in enumerate(boxes) if x1 <= x < x2 and y1 <= y < y2), None)
