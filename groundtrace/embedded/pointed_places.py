"""Compares the places that a reasoning states with its points: parts of the image, and relations such as "above".

For example, "[black square] lies in the left box" is wrong if the point is in the right box. A place counts as wrong
only if this is certain. In a relation such as "above", the two points must differ by more than 3 pixels. "In the left
half of the image" is wrong only for a point in the right third. If the image has no boxes, "in the left box" is also
wrong only for a point in the right third.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from groundtrace.embedded.marked_text import MARK, RUN, Marked, MarkedText, assertions, is_negated
from groundtrace.embedded.scenes import Scene
from groundtrace.embedded.sight.labels import Noun, read_label
from groundtrace.embedded.sight.names import PANELS
from groundtrace.embedded.sight.shapes import Box

_MARGIN_PX = 3.0
"""Two points are left, right, above or below each other only if they differ by more than this."""
_SIDE = "|".join(side for side in PANELS if side.isalpha())
_HOLDER = r"(?:box|panel|container|compartment|tower)"
_PANEL = rf"the (?P<panel>{_SIDE})(?:most)?(?: hand)?(?: gr[ea]y)? {_HOLDER}"
_THIRD = (
    r"the (?P<third>left|right|top|bottom|upper|lower)(?:most)? (?:third|part|half|side|area) of the (?:image|picture)"
)
_PLACE = rf"(?:{_PANEL}|{_THIRD})\b(?! (?:of|and|or)\b)"
_IN = r"(?:in|inside|within|of)"
_LIES = (
    r"(?:is|are|lies?|sits?|stands?|appears?|was|were)"
    r"(?: (?:all|both|located|found|placed|visible|seen|shown|situated))*"
)
_TAG_IN = re.compile(rf"(?P<run>{MARK})(?:[,)]? ?(?:(?:which|that) )?{_LIES})? {_IN} {_PLACE}")
_ALL_IN = re.compile(
    rf"\b(?:all|both)(?: of)?(?: the| these| those)?(?: \w+)? (?P<things>(?:[a-z]+ ){{0,2}}[a-z]+s|them)"
    rf" (?:are|lie|sit|stand)(?: \w+)? {_IN} {_PLACE}"
)
_RUN_HERE = (
    rf"(?: (?:an?|the|one|two|three|four|five|\d))? ?(?P<run>{RUN})"
    r"(?P<end>\s*(?:$|[.;!)]|,? (?:so|which|hence|while|but)\b))?"
)
_PLACE_HAS = tuple(
    re.compile(before + _RUN_HERE)
    for before in (
        rf"\b{_PLACE}(?: (?:only|also|just))? (?:has|contains|holds|shows|includes):?",
        rf"\b{_IN} {_PLACE},?(?: (?:there (?:is|are)|(?:i|we|you) (?:can )?(?:see|find|count|spot)|is|are|lies?))?:?",
        rf"(?:^|\W)(?:the )?(?P<panel>{_SIDE}) {_HOLDER}:",
    )
)
"""Matches a place with the tags that directly follow, as in "the left box has [circle], [square]".

The group ``end`` matches the end of the statement after the last tag: punctuation, or a word such as "so". The group is
None if other words follow, since these words may state another place for the last tag.
"""
_RELATION = re.compile(
    rf"(?:(?P<mark>{MARK})[,)]? ?(?:(?:which|that) )?|(?:^|[,:;(–—]|\b(?:and|so|since|because|as|while|but)\b)\W{{0,4}}"
    rf"(?P<first>the (?:[a-z]+ )?[a-z]+) )"
    r"(?:is|lies|sits|stands|rests)(?: (?:directly|also|clearly|located|placed|just|right))*"
    r" (?P<relation>(?:to the |on the )?(?:left|right) of|above|over|below|under|beneath|underneath|on top of|on)"
    rf" (?:the )?(?P<second>{MARK}|[a-z]+(?: [a-z]+)?)"
)
_AXES: dict[str, tuple[int, int]] = {"left": (0, -1), "right": (0, 1), "above": (1, -1), "below": (1, 1)}
"""Maps each relation of two objects to an axis (0 is x, 1 is y) and a sign (-1 or 1).

The sign is that of the first object's coordinate minus the second object's: -1 for "left", since x grows to the right.
"""
_RELATIONS = {"over": "above", "on top of": "above", "on": "above", "under": "below", "beneath": "below"}
_RELATIONS |= {"underneath": "below"}
_SIDES = {"upper": "top", "lower": "bottom"}


def misplaced(marked: MarkedText, scene: Scene | None) -> str | None:
    """Return a message if a sentence states a place that the points of the reasoning contradict; else None.

    ``marked`` is the reasoning, with its points at objects. ``scene`` holds the image. If it is None, only relations
    between two objects, such as "above", are compared.
    """
    if not any(tag.centres for tag in marked.marks.values()):
        return None
    for sentence in assertions(marked):
        if is_negated(sentence.text):
            continue
        claims = [_relations(marked, sentence.text)]
        claims += [] if scene is None else [_parts(marked, sentence.text, scene)]
        if any(wrong for each in claims for wrong in each):
            return f"its points contradict the place that it states: {re.sub(MARK, '…', sentence.text).strip()}"
    return None


def _parts(marked: MarkedText, sentence: str, scene: Scene) -> Iterator[bool]:
    """Check each statement of a sentence that places objects in a part of the image.

    Examples are "[circle] is in the left box" and "all squares are in the left box"; "[circle]" is a tag with points.
    Yields one bool for each statement: True if a point of one of its tags is certainly outside the part that the
    statement names. Unclear statements are skipped.
    """
    for pattern in (_TAG_IN, _ALL_IN, *_PLACE_HAS):
        for found in pattern.finditer(sentence):
            named = found.groupdict()
            tags = marked.among(named["run"]) if "run" in named else _all_of(marked, found["things"])
            if pattern is _TAG_IN and any(tag.is_beside for tag in tags):
                continue  # the place is that of another thing
            if pattern in _PLACE_HAS and re.search(MARK, sentence[: found.start()]):
                continue  # the place may belong to the tag before it: "… in the left box, …"
            if pattern in _PLACE_HAS and named["end"] is None:
                tags = tags[:-1]  # the words after the last tag may place its object elsewhere
            is_outside = _outside(scene, named["panel"], named.get("third"))
            yield any(map(is_outside, (centre for tag in tags for centre in tag.centres)))


def _all_of(marked: MarkedText, things: str) -> list[Marked]:
    """Return the tags for the objects that the words after "all" name, as in "all squares are in the left box".

    A tag is an XML element with a label, by which the reasoning points at objects. ``things`` are the words after
    "all". For "squares", the result has all tags with labels such as "black square". For "them", it has all tags.
    """
    tags = list(marked.marks.values())
    if things == "them":
        return tags
    noun = read_label(things)
    return [tag for tag in tags if noun is not None and tag.noun is not None and noun.covers(tag.noun)]


def _outside(scene: Scene, panel: str | None, third: str | None) -> Callable[[tuple[float, float]], bool]:
    """Return a function that tests a point: True if the point is certainly outside the named part of the image.

    The part is either a panel (one of the areas into which bars divide the image) or a side of the image. ``panel`` is
    the name of the panel ("left"), and ``third`` is the side ("top"); one of them is None. For a point that is on no
    shape of the image, the function returns False, because another check detects such points.
    """
    width, height = scene.size
    panels, shapes = scene.panels, scene.shapes or []

    def is_outside(point: tuple[float, float]) -> bool:
        x, y = point
        if not any(x1 <= x < x2 and y1 <= y < y2 for x1, y1, x2, y2 in (shape.box_px for shape in shapes)):
            return False
        if panel is not None and panels:
            return _in_another(x, panel, panels)
        side = _SIDES.get(third or "", third or panel or "")
        share = {"left": x / width, "right": 1 - x / width, "top": y / height, "bottom": 1 - y / height}.get(side, 0.0)
        return share > 2 / 3

    return is_outside


def _in_another(x: float, panel: str, panels: Sequence[Box]) -> bool:
    index = PANELS[panel]
    if index >= len(panels) or (len(panels) != 3 and panel in ("middle", "center", "centre", "central")):
        return False
    home = panels[index]
    return any(one[0] <= x <= one[2] for one in panels if one != home)


def _relations(marked: MarkedText, sentence: str) -> Iterator[bool]:
    """Check each statement of a sentence about the relation of two objects, as in "[circle] is above [square]".

    Yields one bool for each statement: True if the points of the two objects contradict the relation. A statement is
    skipped if one of its objects does not have exactly one point.
    """
    for found in _RELATION.finditer(sentence):
        if any(tag.is_beside for tag in marked.among(found["mark"] or "")):
            continue  # the place is that of another thing
        first, second = _place(marked, found["mark"] or found["first"]), _place(marked, found["second"])
        words = found["relation"].split()
        name = next((word for word in words if word in ("left", "right")), None)
        relation = name or _RELATIONS.get(found["relation"], found["relation"])
        if first is not None and second is not None:
            axis, sign = _AXES[relation]
            yield sign * (first[axis] - second[axis]) < -_MARGIN_PX


def _place(marked: MarkedText, thing: str) -> tuple[float, float] | None:
    """Return the point (x, y), in pixels, of the object that the reasoning calls ``thing``.

    ``thing`` is a tag, or a noun such as "the black square". For a noun, the tags with this noun are used. Return None
    if the tag or noun does not have exactly one point, or if it is uncertain which tags the noun means.
    """
    if re.fullmatch(MARK, thing):
        tags = marked.among(thing)
    else:
        noun = _noun_at(thing.removeprefix("the "))
        tags = list(marked.marks.values())
        if noun is None or any(tag.noun is None or tag.noun.overlaps(noun) != noun.covers(tag.noun) for tag in tags):
            return None
        tags = [tag for tag in tags if tag.noun is not None and noun.covers(tag.noun)]
    places = {centre for tag in tags for centre in tag.centres}
    return next(iter(places)) if len(places) == 1 else None


def _noun_at(text: str) -> Noun | None:
    """Return the noun of one or two words at the beginning of a text: "black square" or "square"."""
    words = text.split()
    return next((noun for n in (2, 1) if (noun := read_label(" ".join(words[:n]))) is not None and noun.kinds), None)
