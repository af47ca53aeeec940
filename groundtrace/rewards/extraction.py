"""Extracts from a response the statements that it makes about a video clip (Argos App. C.2, D, Fig. 10).

The statements are about single frames, spans of time, and points. The paper lets a language model extract three lists
from each video trace. The model may make up items, so each item is checked against the response. Each item has an
anchor, which is the words that state the time. The anchor and the description must be exact substrings of the response.
The item's numbers must be in the anchor. A point must be one of the points that the parser finds. Items that fail the
check are dropped and recorded.

There are two deviations. First, points that the model omits are added, so that an omission gains nothing;
:func:`groundtrace.grading.responses.times.anchor_points` assigns a moment to each of them. Second, the prompt also
requests the anchor of each item, because a time without an anchor cannot be checked. The paper has anchors in Fig. 9.
"""

import math
import re
from dataclasses import dataclass, replace
from typing import Any

from groundtrace.grading.responses.response import parse_points
from groundtrace.grading.responses.times import Moment, anchor_points, parse_times
from groundtrace.inference.caller import Caller, CallResult
from groundtrace.inference.grounding import BadReply, json_object
from groundtrace.inference.request import Sampling
from groundtrace.rewards.judge import JudgeTask, ask_judge
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.quoting import Quoted, quote

PROMPT = "extract_video.v1"
_NUMBER = re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,20})?")
_SAMPLING = Sampling(max_tokens=8192)
_Numbers = tuple[float | None, ...]


@dataclass(frozen=True)
class FrameStatement:
    """Holds a statement about one moment of a video clip.

    ``frame`` is the number of the frame, and ``t_s`` its time in seconds. At least one of them is given; the other can
    be None. ``description`` is an exact part of the response.
    """

    frame: int | None
    t_s: float | None
    description: str


@dataclass(frozen=True)
class SegmentStatement:
    """Holds a statement about a span of time in a video clip.

    ``first_frame`` and ``last_frame`` are frame numbers, and ``start_s`` and ``end_s`` are times in seconds. A value is
    None if the response does not state it. ``description`` is an exact part of the response.
    """

    first_frame: int | None
    last_frame: int | None
    start_s: float | None
    end_s: float | None
    description: str


@dataclass(frozen=True)
class Statements:
    """Holds the statements of a response about a video clip, in order and without duplicates.

    Attributes:
        points: the points that the parser finds in the response, with their frame and time if known.
        frames: the statements about one moment.
        segments: the statements about a span of time.
        dropped: one text for each item that the model extracted, but that failed the check. The text contains the item
            and the reason.
    """

    points: tuple[Point, ...] = ()
    frames: tuple[FrameStatement, ...] = ()
    segments: tuple[SegmentStatement, ...] = ()
    dropped: tuple[str, ...] = ()


async def extract_statements(response: str, caller: Caller) -> Statements:
    """Return the statements that the judge extracts from a response about a video clip.

    If the response has neither a time nor a point, the judge is not called, and the result is empty. ``caller`` is the
    object with which the judge is called.

    Raises CallError if the call fails, BadReply if the reply cannot be parsed, and BudgetUsedUp if the run's budget for
    model calls is used up.
    """
    if not parse_times(response) and not parse_points(response):
        return Statements()
    quoted = quote(response)  # the judge sees the quoted text
    task = JudgeTask(
        PROMPT, {"response": response}, lambda reply: _checked(reply, response, quoted), sampling=_SAMPLING
    )
    return await ask_judge(task, caller)


def _checked(reply: CallResult, response: str, quoted: Quoted) -> Statements:
    """Return all points of the response, and the judge's statements about frames and segments that pass the check.

    For each statement, the ``reply`` holds a description, an anchor (the words of the response that state the time),
    and this time as numbers. A statement passes the check (:class:`_Check`) if the response contains the description
    and the anchor, and the anchor contains the numbers. The result also lists the dropped statements. ``quoted`` is the
    response as the judge saw it. Raises BadReply if the reply has the wrong form.
    """
    fields = json_object(reply.text)
    check = _Check(quoted.texts[0], quoted.mark, [])
    frames: list[FrameStatement] = []
    segments: list[SegmentStatement] = []
    points = _points(_rows(fields, "points"), response, check)
    for row in _rows(fields, "frames"):
        frame, t_s, description = _whole(row, "frame"), _seconds(row, "t_s"), _text(row, "description")
        if check.holds(_text(row, "anchor"), description, (frame,), (t_s,)):
            frames.append(FrameStatement(frame, t_s, description))
    for row in _rows(fields, "segments"):
        spanned = (_whole(row, "first_frame"), _whole(row, "last_frame"))
        times, description = (_seconds(row, "start_s"), _seconds(row, "end_s")), _text(row, "description")
        if check.holds(_text(row, "anchor"), description, spanned, times):
            segments.append(SegmentStatement(*spanned, *times, description))
    return Statements(
        tuple(dict.fromkeys(points)),
        tuple(dict.fromkeys(frames)),
        tuple(dict.fromkeys(segments)),
        tuple(check.dropped),
    )


@dataclass(frozen=True)
class _Check:
    """Checks the items of a judge's reply against the response that the judge saw, and records the items that fail.

    ``shown`` is the response as the judge saw it. ``mark`` is the delimiter that encloses it in the prompt. ``dropped``
    holds one text for each item that failed.
    """

    shown: str
    mark: str
    dropped: list[str]

    def holds(self, anchor: str, description: str, frames: _Numbers, times: _Numbers) -> bool:
        """Return whether an item of the judge's reply passes the check. An item that fails is recorded as dropped.

        The text that the judge saw must contain the item's ``anchor`` (the words that state its time) and
        ``description``. The item must have at least one number: ``frames`` are its frame numbers, and ``times`` are its
        times in seconds. The anchor must contain all of these numbers.
        """
        problem = self.problem(anchor, frames, times)
        if not problem and not (description.strip() and self._has(description)):
            problem = "its words are not in the response"
        if problem:
            self.drop(f"{description:.60} ({anchor:.40})", problem)
        return not problem

    def problem(self, anchor: str, frames: _Numbers, times: _Numbers) -> str:
        """Return the reason why an item's anchor fails the check; "" if it passes.

        The anchor is the words of the response that state the time of the item. It must be in the response. It must
        contain all of the item's numbers (at least one): ``frames`` are the frame numbers, and ``times`` are the times
        in seconds.
        """
        if all(number is None for number in (*frames, *times)):
            return "no frame or time"
        if not anchor.strip() or not self._has(anchor):
            return "its anchor is not in the response"
        written = _written(anchor)
        absent = [f"frame {frame}" for frame in frames if frame is not None and frame not in written[0]]
        absent += [f"{t_s:g} s" for t_s in times if t_s is not None and round(t_s, 2) not in written[1]]
        return f"its anchor does not say {absent[0]}" if absent else ""

    def drop(self, what: str, problem: str) -> None:
        """Record that an item is dropped; ``what`` describes the item, and ``problem`` is the reason."""
        self.dropped.append(f"{what}: {problem}")

    def _has(self, piece: str) -> bool:
        return piece in self.shown and self.mark not in piece


def _written(anchor: str) -> tuple[set[float], set[float]]:
    """Return two sets: the frame numbers in an anchor, and the times in the anchor.

    The times are in seconds, rounded to two decimals. An anchor is the words that state the time of an item, such as
    "frame 24 at 18.71 seconds". If the parser finds neither a frame nor a time in the anchor, each set holds all
    numbers in the anchor.
    """
    frames: set[float | None] = set()
    times: set[float | None] = set()
    for time in parse_times(anchor) or parse_times(f"[{anchor}]"):
        if isinstance(time, Moment):
            frames.add(time.frame)
            times.add(time.t_s)
        else:
            frames |= {time.first_frame, time.last_frame}
            times |= {time.start_s, time.end_s}
    if not frames and not times:
        frames = times = {float(number) for number in _NUMBER.findall(anchor)}
    return {frame for frame in frames if frame is not None}, {round(t_s, 2) for t_s in times if t_s is not None}


def _points(rows: list[dict[str, Any]], response: str, check: _Check) -> list[Point]:
    """Return the points that the parser finds in the response, in order, each with its moment (frame and time).

    ``rows`` are the points in the judge's reply. A row can have a moment and an anchor, which is the words that state
    the moment. ``check`` tests each row: the response must contain the anchor, and the anchor must contain the numbers
    of the moment. If the row for a point passes the test, the point gets the moment of the row. Otherwise the point
    keeps the moment that the parser finds. A row is recorded as dropped if its point is not in the response, or if the
    row has a moment and fails the test.
    """
    parsed = anchor_points(response)
    placed: dict[int, Point] = {}
    for row in rows:
        label, x, y = _text(row, "object"), _coordinate(row, "x"), _coordinate(row, "y")
        frame, t_s, anchor = _whole(row, "frame"), _seconds(row, "t_s"), row.get("anchor") or ""
        same = [i for i, p in enumerate(parsed) if i not in placed and abs(p.x - x) < 0.05 and abs(p.y - y) < 0.05]
        what = f"{label:.60} at ({x:g}, {y:g})"
        if not same:
            check.drop(what, "no such point is in the response")
            continue
        named = [index for index in same if _folded(parsed[index].label) == _folded(label)]
        index = (named or same)[0]
        problem = check.problem(str(anchor), (frame,), (t_s,))
        if problem and (frame, t_s) != (None, None):
            check.drop(what, problem)
        placed[index] = parsed[index] if problem else replace(parsed[index], frame=frame, t_s=t_s)
    return [placed.get(index, point) for index, point in enumerate(parsed)]


def _folded(label: str) -> str:
    return " ".join(label.casefold().split())


def _rows(fields: dict[str, object], name: str) -> list[dict[str, Any]]:
    rows = fields.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadReply(f"the reply's field {name!r} must be a list of objects, got {rows!r:.80}")
    return rows


def _text(row: dict[str, Any], name: str) -> str:
    if not isinstance(row.get(name), str):
        raise BadReply(f"the reply's field {name!r} must be a text, got {row.get(name)!r:.80}")
    return row[name]


def _coordinate(row: dict[str, Any], name: str) -> float:
    value = _seconds(row, name)
    if value is None:
        raise BadReply(f"the reply's field {name!r} must be a number, got None")
    return value


def _whole(row: dict[str, Any], name: str) -> int | None:
    value = _seconds(row, name)
    if value is not None and not value.is_integer():
        raise BadReply(f"the reply's field {name!r} must be a whole number, got {value}")
    return None if value is None else int(value)


def _seconds(row: dict[str, Any], name: str) -> float | None:
    """Return the field ``name`` of an item of the judge's reply as a number; None if the field is missing or null.

    The field is a time in seconds, a frame number or a coordinate. The number may be written as a JSON string: the
    coordinates in the paper's prompt are written in this way. Raises BadReply if the field is not a finite number.
    """
    value = row.get(name)
    if value is None:
        return None
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BadReply(f"the reply's field {name!r} must be a number, got {value!r:.80}")
    return number
