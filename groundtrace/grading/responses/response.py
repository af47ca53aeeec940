"""Reads the response of a policy or a teacher: its sections, final answer, points and boxes.

It reads these forms: ``<think>…</think><answer>…</answer>`` (papers Argos, iVGR and CodeDance), the judge-think-answer
form of the paper SAIL-RL (``<judge>`` first, then a boxed answer), GLM's ``<|begin_of_box|>…<|end_of_box|>``, and the
last line ``Answer: X`` of base models. No function that reads a text ever raises. Each takes time linear in the length
of the text.

The final answer is searched for outside ``<think>`` only, in this order:

1. the content of the last complete ``<answer>`` section. There is one exception: if the section contains a boxed
   answer (:mod:`groundtrace.grading.responses.boxed`), the content of the box is the answer. GLM's tokens are searched
   for first, then ``\\boxed{…}`` (with nested braces), then ``<boxed>``. The last box of the first form found is used;
2. the last boxed answer outside ``<think>``, found in the same way. For example, the response in Argos figure 13 never
   closes its ``<answer>``;
3. the last line that is not blank, if it is ``Answer: X`` or ``Final answer: X``.

This module never searches other prose for an answer. :mod:`groundtrace.grading.responses.prose` does this for attempts
(responses of a model that gets only the question). If a response has several boxed answers, only the last one counts.
So a response gains nothing if it boxes several candidates.

A text of more than ``MAX_RESPONSE_CHARS`` characters is not read: its parts are empty or None. No prompt requests such
a long response, and scoring it would take too long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from groundtrace.grading.responses.boxed import last_boxed
from groundtrace.grading.responses.tags import Tag, format_box_tag, format_points_tag, parse_number, scan_tags
from groundtrace.schemas.control_text import find_control
from groundtrace.schemas.geometry import Box, Point

MAX_RESPONSE_CHARS = 200_000
"""The length of the longest response that is read; 32,000 tokens of English are about 130,000 characters."""
_SECTION = re.compile(r"<(/?)(think|judge|answer)\s*>", re.IGNORECASE)
_ANSWER_LINE = re.compile(r"(?:final\s+)?answer\s*[:：]\s*(\S.*)", re.IGNORECASE)
_MAX_ANSWER_LINE_CHARS = 2000
_AXIS = re.compile(r"([xy])([0-9]{0,4})")
_BOX_INNER = re.compile(r"[\[(]([^\[\]()]{1,200})[\])]")


@dataclass(frozen=True)
class Response:
    """Holds the parts of a response.

    Attributes:
        think: the trimmed text of the think blocks. Several blocks are joined by an empty line. The text is "" if the
            blocks are blank, and None if the response has no think block. An unclosed block extends to the end of the
            text. If the first think tag is a closing tag, the first block begins at the start of the text, because
            some chat templates write the opening tag into the prompt.
        judge: the trimmed text of the first complete ``<judge>`` section outside the think blocks; None if there is no
            such section.
        answer: the trimmed final answer; None if there is no answer. It is searched for outside the think blocks: in
            the last answer section, then in the last boxed answer, then in a last line such as ``Answer: X``.
        points: all points in the text, with coordinates as written, in order.
        boxes: all boxes in the text, with coordinates as written, in order.
        has_format: whether the text has the right form. This is one optional judge block, one think block, and one
            answer block that is not blank, in this order and with only white space around them. After a judge block, a
            boxed answer may replace the answer block.
    """

    think: str | None
    judge: str | None
    answer: str | None
    points: tuple[Point, ...]
    boxes: tuple[Box, ...]
    has_format: bool


@dataclass(frozen=True)
class _Span:
    """Holds the offsets of a section in the text.

    ``start`` and ``end`` are the offsets of the section with its tags. ``inner_start`` and ``inner_end`` are the
    offsets of the content between the tags.
    """

    start: int
    inner_start: int
    inner_end: int
    end: int


def parse_response(text: str) -> Response:
    """Split a response into its parts: thinking, judgement, final answer, points and boxes.

    A text of more than ``MAX_RESPONSE_CHARS`` characters is not read: its parts are empty or None. Never raises; takes
    time linear in ``len(text)``.
    """
    if len(text) > MAX_RESPONSE_CHARS:
        return Response(think=None, judge=None, answer=None, points=(), boxes=(), has_format=False)
    marks = list(_SECTION.finditer(text))
    thinks = _think_spans(text, marks)
    outside = _marks_outside(marks, thinks)
    judges, answers = _pairs(outside, "judge"), _pairs(outside, "answer")
    tags = scan_tags(text)
    return Response(
        think=_thought(text, thinks) if thinks else None,
        judge=text[judges[0].inner_start : judges[0].inner_end].strip() if judges else None,
        answer=_final_answer(text, thinks, answers),
        points=tuple(point for tag in tags for point in _points_of(tag)),
        boxes=tuple(box for tag in tags for box in _boxes_of(tag)),
        has_format=_has_format(text, marks),
    )


def closed_answer(text: str) -> str | None:
    """Return the final answer of a response that was cut off, if its last ``<answer>`` section is complete.

    Returns None if no answer section is closed, or if another section tag follows the last closed answer section. Boxed
    answers and ``Answer:`` lines outside this section are ignored, because the missing end of the text might have
    corrected them. Never raises; takes time linear in ``len(text)``.
    """
    if len(text) > MAX_RESPONSE_CHARS:
        return None
    marks = list(_SECTION.finditer(text))
    thinks = _think_spans(text, marks)
    answers = _pairs(_marks_outside(marks, thinks), "answer")
    if not answers or marks[-1].end() > answers[-1].end:
        return None
    return _final_answer(text, thinks, answers)


def outside_think(text: str) -> str:
    """Return the text of a response without its ``<think>`` blocks. A line break replaces each block.

    Never raises; takes time linear in ``len(text)``.
    """
    return _outside(text, _think_spans(text, list(_SECTION.finditer(text))))


def _outside(text: str, thinks: list[_Span]) -> str:
    starts = [0, *(span.end for span in thinks)]
    ends = [*(span.start for span in thinks), len(text)]
    return "\n".join(text[start:end] for start, end in zip(starts, ends, strict=True))


def _thought(text: str, thinks: list[_Span]) -> str:
    return "\n\n".join(text[span.inner_start : span.inner_end].strip() for span in thinks).strip()


def parse_points(text: str) -> tuple[Point, ...]:
    """Return all points in the point tags of a text, in order, with coordinates as written. Never raises.

    A tag has one point for each pair of attributes ``xN`` and ``yN`` with the same number N, or ``x`` and ``y``. The
    values must be plain numbers. Molmo 2's attribute ``coords`` occurs only in the replies of pointers (models that
    point at objects); :mod:`groundtrace.grading.responses.pointing` reads it.
    """
    return tuple(point for tag in scan_tags(text) for point in _points_of(tag))


def parse_boxes(text: str) -> tuple[Box, ...]:
    """Return all boxes in tags ``<box>[x1,y1,x2,y2]</box>`` of a text, in order. Never raises.

    A box's label is the attribute ``alt`` or, without it, ``label``; it is "" if the tag has neither attribute. Values
    are as written. But the corners are sorted so that x1 <= x2 and y1 <= y2, because a model may write any two opposite
    corners.
    """
    return tuple(box for tag in scan_tags(text) for box in _boxes_of(tag))


def format_point(point: Point) -> str:
    """Return the tag of a point in the canonical form, such as ``<points x1="61.5" y1="40" alt="dog">dog</points>``.

    Coordinates have at most one decimal. The tag does not contain the image, frame or time of the point. The prose
    around the tag must name them.

    Raises:
        ValueError: a coordinate is not finite or not below 1e9.
    """
    return format_points_tag(point.label, [(point.x, point.y)])


def format_box(box: Box) -> str:
    """Return the tag of a box in the canonical form, such as ``<box alt="dog">[1,2,30,40]</box>``.

    Coordinates have at most one decimal.

    Raises:
        ValueError: a coordinate is not finite or not below 1e9.
    """
    return format_box_tag(box.label, (box.x1, box.y1, box.x2, box.y2))


def normalise(text: str) -> str:
    """Return the text with every readable point tag in the form that this project always writes.

    This form is, for example, ``<points x1="61.5" y1="40" alt="dog">dog</points>`` (:func:`format_point`).

    A tag with a part that cannot be read is not changed. So the later check of the response's form finds this part.

    A tag of several points stays one tag, so that its label is not repeated in the prose. Its points are numbered from
    1. The text inside a tag stays, so that the prose around it can be read as before. The function is idempotent.
    """
    pieces: list[str] = []
    done = 0
    for tag in scan_tags(text):
        points = _points_of(tag)
        if points and not has_unread_parts(tag):
            positions = [(point.x, point.y) for point in points]
            pieces += text[done : tag.start], format_points_tag(tag.label, positions, tag.is_open, tag.inner)
            done = tag.end
    return "".join(pieces) + text[done:]


def has_unread_parts(tag: Tag) -> bool:
    """Return whether a tag has a part that the parsers of points and boxes ignore, or that must not be read.

    If the result is True, a function that rewrites tags must not change the tag. Otherwise the part would be lost, and
    the later check of the response's form could not find it. The result is True in these cases:

    - A coordinate has no partner (``x2`` without ``y2``), or is not a number.
    - An attribute is written twice with different values.
    - An unknown attribute has a digit in its name or value (``x_2="5"``, ``bbox="1 2 3 4"``).
    - The value of an unknown attribute has several words (``title="accept this"``).
    - The value of an attribute has a special token.
    """
    names = [name for name, _ in tag.attributes]
    if len(set(names)) < len(names) or any(find_control(value) for _, value in tag.attributes):
        return True
    axes = 0
    for name, value in tag.attributes:
        if tag.name != "box" and _AXIS.fullmatch(name):
            axes += 1
        elif name not in ("alt", "label") and (len(value.split()) > 1 or _has_digit(name + value)):
            return True
    return axes != 2 * len(_points_of(tag))


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _points_of(tag: Tag) -> tuple[Point, ...]:
    """Return the points of one tag; empty for a box tag."""
    if tag.name == "box":
        return ()
    axes: dict[str, dict[str, float]] = {"x": {}, "y": {}}
    for name, written in tag.attributes:
        axis, value = _AXIS.fullmatch(name), parse_number(written)
        if axis is not None and value is not None:
            axes[axis.group(1)].setdefault(axis.group(2), value)
    label = tag.label
    return tuple(Point(label, x, axes["y"][n]) for n, x in axes["x"].items() if n in axes["y"])


def _boxes_of(tag: Tag) -> tuple[Box, ...]:
    """Return the box of one tag; empty if the tag is not a box tag with exactly four numbers."""
    inner = _BOX_INNER.fullmatch((tag.inner or "").strip()) if tag.name == "box" else None
    if inner is None:
        return ()
    values = [value for value in map(parse_number, inner.group(1).split(",")) if value is not None]
    if len(values) != 4 or inner.group(1).count(",") != 3:
        return ()
    named = dict(reversed(tag.attributes))
    x1, y1, x2, y2 = values
    label = named.get("alt") or named.get("label") or ""
    return (Box(label, min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)),)


def _think_spans(text: str, marks: list[re.Match[str]]) -> list[_Span]:
    """Return the think blocks in order. ``marks`` are the matches of all section tags in the text.

    A block extends from an opening think tag to the next closing one. If the first think tag is a closing tag, the
    first block begins at the start of the text. If the last opening tag is not closed, its block extends to the end of
    the text.
    """
    spans: list[_Span] = []
    opened: tuple[int, int] | None = None
    for mark in marks:
        if mark.group(2).lower() != "think":
            continue
        if not mark.group(1):
            opened = opened or (mark.start(), mark.end())
        elif opened is not None or not spans:
            start, inner_start = opened or (0, 0)
            spans.append(_Span(start, inner_start, mark.start(), mark.end()))
            opened = None
    if opened is not None:
        spans.append(_Span(*opened, len(text), len(text)))
    return spans


def _marks_outside(marks: list[re.Match[str]], spans: list[_Span]) -> list[re.Match[str]]:
    """Return the section tags (``marks``) that are outside all ``spans``. The spans must be in order."""
    kept: list[re.Match[str]] = []
    index = 0
    for mark in marks:
        while index < len(spans) and spans[index].end <= mark.start():
            index += 1
        if index == len(spans) or mark.start() < spans[index].start:
            kept.append(mark)
    return kept


def _pairs(marks: list[re.Match[str]], name: str) -> list[_Span]:
    """Return the complete sections with the tag name ``name``, such as "answer".

    ``marks`` are the matches of section tags in the text, in order. Each closing tag belongs to the nearest opening tag
    before it.
    """
    spans: list[_Span] = []
    opened: re.Match[str] | None = None
    for mark in marks:
        if mark.group(2).lower() != name:
            continue
        if not mark.group(1):
            opened = mark
        elif opened is not None:
            spans.append(_Span(opened.start(), opened.end(), mark.start(), mark.end()))
            opened = None
    return spans


def _final_answer(text: str, thinks: list[_Span], answers: list[_Span]) -> str | None:
    """Return the final answer of ``text``, or None if there is no answer.

    ``thinks`` are the think blocks, and ``answers`` are the complete answer sections outside of them. The final answer
    is the first of the following that exists:

    1. the content of the last answer section, or of the box in it;
    2. the last boxed answer outside the think blocks;
    3. the answer on the last line, if this line has the form ``Answer: X``.
    """
    if answers:
        content = text[answers[-1].inner_start : answers[-1].inner_end]
        boxed = last_boxed(content)
        return content.strip() if boxed is None else boxed
    outside = _outside(text, thinks)
    boxed = last_boxed(outside)
    if boxed is not None:
        return boxed
    lines = outside.rstrip().rsplit("\n", 1)
    last = lines[-1].strip()[:_MAX_ANSWER_LINE_CHARS].replace("**", "")
    stated = _ANSWER_LINE.fullmatch(last.lstrip("#*> ").rstrip("* "))
    return stated.group(1).strip() if stated is not None else None


def _has_format(text: str, marks: list[re.Match[str]]) -> bool:
    """Return whether the text has the right form: one think section, and then one answer section that is not blank.

    A judge section may precede the two. In this case, a boxed answer may replace the answer section. Only white space
    may be around the sections. ``marks`` are the matches of all section tags in the text.
    """
    order = [mark.group(1) + mark.group(2).lower() for mark in marks]
    judged = order[:2] == ["judge", "/judge"]
    sections = order[2:] if judged else order
    boxed_tail = judged and sections == ["think", "/think"]
    if not boxed_tail and sections != ["think", "/think", "answer", "/answer"]:
        return False
    # Only blanks may be between one section's end and the next one's beginning, and before the first section.
    edges = [0, *(mark.end() for mark in marks[1::2])]
    starts = [mark.start() for mark in marks[::2]]
    if any(text[end:start].strip() for end, start in zip(edges, starts, strict=False)):
        return False
    if boxed_tail:
        return bool(last_boxed(text[edges[-1] :]))
    return not text[edges[-1] :].strip() and bool(text[marks[-2].end() : marks[-1].start()].strip())
