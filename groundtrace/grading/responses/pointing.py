"""Parses the replies of the pointing models Molmo 1 and Molmo 2.

Molmo 1 answers ``<point x="61.5" y="40.2" alt="dog">dog</point>`` for one point, and ``<points x1= y1= … alt=>`` for
several. Molmo 2 answers ``<points coords="F id x y id x y;F2 …">label</points>``; the tag may also be ``tracks``. Here,
F is an image index (from 1) or, for a video, a time in seconds, and id is the number of an object. Both models answer
in words if the image does not show the object.

Coordinates stay as written: from 0 to 100 (the coordinate frame ``molmo100``) or from 0 to 1000 (``molmo1000``).
:func:`groundtrace.schemas.coordinates.to_px` converts them to pixels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from groundtrace.grading.responses.response import has_unread_parts, parse_points
from groundtrace.grading.responses.tags import parse_number, scan_tags, unescape

_COORDS_TAG = re.compile(
    r"<(points|tracks)\b[^<>]{0,200}?\bcoords\s*=\s*[\"'“”]([^<>\"'“”]*)[\"'“”][^<>]*>([^<]*)", re.I
)
_CUT_TAG = re.compile(r"<(?:points?|tracks)\b[^<>]*\Z", re.I)
_GROUPS = re.compile(r"[;:,\t\n]")
_OPENED = re.compile(r"<(?:points?|tracks)(?=[\s/>])[^<>]*", re.I)
_ANY_TAG = re.compile("<(?:point|tracks)", re.I)
_ESCAPED_TAG = re.compile(
    r"(?:&(?:amp;)*(?:lt|#0*60|#x0*3c);|\\(?:u00|x)3c|[＜‹〈])\s{0,9}/?(?:points?|tracks)\b", re.I
)
_VALUE = re.compile(r"\"[^\"]*\"|'[^']*'|[“”][^“”]*[“”]")
_NAME = re.compile(r"([A-Za-z_][\w-]*)\s*=")
_COORDS_NAME, _XY_NAME = re.compile("coords|alt|label"), re.compile("[xy][0-9]{0,4}|alt|label")
_MAX_NONE_CHARS = 200
_NOWHERE = r"(?:image|picture|photo|video|frame|scene|clip)"
_REST = r"\b(?:(?!\b(?:but|except|only|than|besides|apart|however)\b)[^.!?\[({<])*"
_NONE = re.compile(
    rf"(?:there (?:is|are|were) (?:none|(?:no|nothing|not any|not an?|0|zero){_REST})"
    rf"|there (?:isn't|aren't) (?:any|an?){_REST}"
    rf"|the {_NOWHERE} (?:does not|doesn't) (?:contain|show|have|include) (?:any|an?){_REST}"
    r"|none(?: found| detected| visible)?|no points?|nothing"
    r"|no (?:[\w-]+ ){0,4}(?:detected|found|available|visible|present)(?: in the \w+)?"
    r"|(?:this|that|it|they)(?: is not|'s not| isn't| are not| aren't)(?: present| visible| shown)?"
    rf" in (?:the|this) {_NOWHERE}"
    rf"|(?:i )?(?:do not|don't|cannot|can't) see (?:any|an?){_REST}"
    r"|counting\b[^.!?<]* shows a total of 0|0|zero)[.!]?",
    re.IGNORECASE,
)


class UnparsablePointing(ValueError):
    """Raised if a reply has neither points that can be parsed nor a clear statement that the object is not visible."""


@dataclass(frozen=True)
class RawPoint:
    """Holds one point as a pointing model wrote it.

    Attributes:
        label: the object that the tag names.
        x: horizontal position in the model's own coordinate frame, such as 0 to 100.
        y: vertical position in the model's own coordinate frame.
        anchor: the number before the points of a Molmo 2 tag: the image index (from 1), or the time in seconds for a
            video. None for Molmo 1.
        object_id: Molmo 2's running id of the object; None for Molmo 1.
    """

    label: str
    x: float
    y: float
    anchor: float | None = None
    object_id: int | None = None


@dataclass(frozen=True)
class NoPoints:
    """Represents a reply which states that the requested object is not visible. ``statement`` is the reply's text."""

    statement: str


def states_none(text: str) -> bool:
    """Return whether a reply is only a short statement that the image does not show the requested object.

    Examples are "There are none." and "No points".
    """
    statement = text.strip()
    return len(statement) <= _MAX_NONE_CHARS and _NONE.fullmatch(statement.replace("’", "'")) is not None


def has_point_tags(text: str) -> bool:
    """Return whether a reply contains a point tag, such as ``<point …>``. An escaped or malformed tag counts too."""
    return _ANY_TAG.search(text) is not None or _ESCAPED_TAG.search(text) is not None


def parse_pointer_reply(text: str) -> tuple[RawPoint, ...] | NoPoints:
    """Return the points of a pointing model's reply in order, or NoPoints if the reply states that there are none.

    ``text`` is the reply. The tuple of points is never empty. The function takes time linear in ``len(text)``. Raises
    UnparsablePointing in these cases:

    - The reply has neither points nor a clear statement that the object is not visible.
    - The reply ends within a tag.
    - A tag is malformed or escaped, or has an attribute twice.
    - A tag has an attribute other than x, y, coords, alt and label. (x and y may have a number, such as x1.)
    - A tag has an x or y without its partner, a coordinate that is not a number, or a special token.
    - Some tags have x and y, and other tags have Molmo 2's coords.
    - A group of Molmo 2 coordinates does not consist of an image index or time, followed by triples of id, x and y.
    """
    if cut := _CUT_TAG.search(text):
        raise UnparsablePointing(f"the reply ends within a tag: {cut[0][:80]!r}; complete each tag")
    _check_tags(text)
    with_coords = tuple(point for tag in _COORDS_TAG.finditer(text) for point in _read_coords(tag))
    points = with_coords or tuple(RawPoint(p.label, p.x, p.y) for p in parse_points(text))
    if points:
        return points
    statement = text.strip()
    if states_none(statement):
        return NoPoints(statement)
    raise UnparsablePointing(
        f"the reply has no points and no clear 'none' ({statement[:80]!r}): write point tags, or only 'none' if the "
        "object is not visible"
    )


def _check_tags(text: str) -> None:
    """Raise UnparsablePointing if the reply ``text`` has a point tag that the parser can read only in part.

    Such a tag may contain more points than the parser finds. The same error is raised if some tags of the reply have x
    and y, and others have Molmo 2's coords.
    """
    if escaped := _ESCAPED_TAG.search(text):
        raise UnparsablePointing(f"the reply has an escaped tag ({escaped[0]!r}): write each tag with < and >")
    tags = {tag.start: tag for tag in scan_tags(text) if tag.name != "box"}
    forms: set[bool] = set()
    for opened in _OPENED.finditer(text):
        names, shown, tag = _names_in(opened[0]), repr(opened[0][:80]), tags.get(opened.start())
        has_coords = "coords" in names
        if not _COORDS_TAG.match(text, opened.start()) if has_coords else tag is None:
            raise UnparsablePointing(
                f"the reply has a malformed tag ({shown}): write each attribute with a name and a quoted value"
            )
        if len(set(names)) < len(names):
            raise UnparsablePointing(f"the tag {shown} has an attribute twice: write each attribute once")
        if others := [name for name in names if not (_COORDS_NAME if has_coords else _XY_NAME).fullmatch(name)]:
            raise UnparsablePointing(
                f"the tag {shown} has the unknown attribute {others[0]!r:.40}, which may hold a position: leave it out"
            )
        if not has_coords and tag is not None and has_unread_parts(tag):
            raise UnparsablePointing(
                f"the tag {shown} has an x or y without its partner, a coordinate that is not a number, or a special "
                "token: write x and y of each point as plain numbers, and the label as plain text"
            )
        forms.add(has_coords)
    if len(forms) > 1:
        raise UnparsablePointing(
            "the reply has points in the attributes x and y, and others in the attribute coords: write all in one form"
        )


def _names_in(opening: str) -> list[str]:
    """Return the names of the attributes in an opening tag, in order and with repetitions."""
    return [name.lower() if name.lower() == "coords" else name for name in _NAME.findall(_VALUE.sub('""', opening))]


def _read_coords(tag: re.Match[str]) -> list[RawPoint]:
    """Return the points of one Molmo 2 tag, in the order of its attribute ``coords``.

    This attribute holds groups of numbers, such as "1 1 305 420 2 510 388". A group is an image index or a time,
    followed by three numbers for each point: the number of its object, x and y. Raises UnparsablePointing for a
    malformed group.
    """
    label = unescape(tag.group(3).strip())
    points: list[RawPoint] = []
    for group in _GROUPS.split(tag.group(2)):
        words = group.split()
        if not words:
            continue
        values = [parse_number(word) for word in words]
        if len(values) % 3 != 1 or len(values) == 1 or any(value is None for value in values):
            raise UnparsablePointing(
                f"the attribute coords has the malformed group {group.strip()[:80]!r}: write the image number or the "
                "time, then id, x and y of each point"
            )
        numbers = [value for value in values if value is not None]
        for object_id, x, y in zip(numbers[1::3], numbers[2::3], numbers[3::3], strict=True):
            points.append(RawPoint(label, x, y, numbers[0], int(object_id)))
    return points
