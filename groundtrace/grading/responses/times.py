"""Reads and writes the moments and time spans of a video clip in a text, and finds the frames that they mean.

Many forms are read, but only one form is written.

These forms are read:

- the anchors of the paper Argos, i.e. frames with times in brackets: ``[F3 @ t=1.66s]``, ``[F2-F5 @ t=1.0s-4.0s]`` and
  lists of anchors (App. C.2, Fig. 9);
- the prose of the traces of Argos (section 4.1, Figs. 17-18) such as ``frame 24 at 18.71 seconds``, ``frame F (T s)``,
  ``frames 25-27``, ``from T1 s to T2 s`` and ``between T1 s and T2 s``;
- clock times (``at 0:18``), and ranges with one open side (``until 4 s``, ``frame 25 onwards``).

Each anchor of a list is read as a separate moment, so that no anchor is lost when the text is rewritten. This is a
deviation from Argos, where a list of anchors is one event.

A number is a time only with a unit, ``t=`` or a colon. A single time is a moment only with a marker (``at``, ``@``,
``t=``, ``mark``, square brackets), because "3 seconds" and "for 3 to 5 seconds" are durations. ``F3`` is a moment only
with a time or in square brackets. A number with a minus sign is not a time. Text inside point and box tags is not read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from groundtrace.grading.responses.anchors import anchor_tags
from groundtrace.grading.responses.response import parse_points
from groundtrace.grading.responses.tags import scan_tags
from groundtrace.grading.responses.time_words import read_statements
from groundtrace.schemas.geometry import Point

MAX_TIME_S, _MAX_FRAME = 1e7, 10**7
# Times are often written with one decimal.
_ROUNDING_S = 0.05
_LONE_FRAME_S = 0.5


@dataclass(frozen=True)
class Moment:
    """Holds one moment of a video clip that a text names, such as "frame 3 (1.66 s)".

    ``frame`` is the frame number, and ``t_s`` is the time in seconds; one of them may be None. ``text`` is the part of
    the text that names the moment. ``start`` and ``end`` are the offsets of this part in the whole text.
    """

    frame: int | None
    t_s: float | None
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Span:
    """Holds a time span of a video clip that a text names, such as "from 1 s to 4 s" or "frames 2-5".

    ``first_frame`` and ``last_frame`` are frame numbers. ``start_s`` and ``end_s`` are the first and the last moment of
    the span, in seconds. Each of these four values is None if the text does not state it. ``start`` and ``end`` are not
    times, but offsets in the text: ``text`` is the part of the text between them.
    """

    first_frame: int | None
    last_frame: int | None
    start_s: float | None
    end_s: float | None
    start: int
    end: int
    text: str


def parse_times(text: str) -> tuple[Moment | Span, ...]:
    """Find every moment and every time span that a text names, in order. The found parts of the text do not overlap.

    Examples of the forms are ``[F3 @ t=1.66s]``, "frame 24 at 18.71 seconds", "frames 25-27" and "between 1 s and 4 s".
    Never raises; takes time linear in ``len(text)``.
    """
    found: list[Moment | Span] = []
    for statement in read_statements(text):
        place = (statement.start, statement.end, text[statement.start : statement.end])
        if statement.is_span:
            found.append(Span(statement.first_frame, statement.last_frame, statement.start_s, statement.end_s, *place))
        else:
            found.append(Moment(statement.first_frame, statement.start_s, *place))
    return tuple(found)


def format_moment(frame: int, t_s: float) -> str:
    """Return the text for one frame and its time, such as ``frame 3 (1.66 s)``. The time has two decimals.

    ``frame`` is the frame number, and ``t_s`` is the time in seconds. Raises ValueError for a frame number that is
    negative or at least 10**7, and for a time that is negative, not finite or at least 1e7 s.
    """
    if not 0 <= frame < _MAX_FRAME:
        raise ValueError(f"a frame number must be from 0 to 9,999,999, got {frame}")
    return f"frame {frame} ({_seconds_written(t_s)} s)"


def format_span(start_s: float, end_s: float) -> str:
    """Return the text for a time span, such as ``from 1.00 s to 4.00 s``. The times have two decimals.

    Both arguments are times in seconds. Raises ValueError if a time is negative, not finite or at least 1e7 s, or if
    the end is before the start.
    """
    if end_s < start_s:
        raise ValueError(f"a span from {start_s} to {end_s} s ends before it starts")
    return f"from {_seconds_written(start_s)} s to {_seconds_written(end_s)} s"


def anchor_points(text: str) -> tuple[Point, ...]:
    """Return all points of a text about a video clip, each with the frame and time that the text names for it.

    Points are read from point tags, in order, with coordinates as written. The frame and the time of a point are those
    of its moment (:func:`groundtrace.grading.responses.anchors.anchor_tags`). If the text names no moment for a point,
    both are None. If the text has several moments that could belong to a point, the first in this list is used:

    1. the moment that introduces the point's tag, or directly follows the tag;
    2. the nearest moment before the tag in the same sentence;
    3. the moment directly after a list of tags, if the tag is in this list.

    The paper Argos (Fig. 10) uses only the closest moment in the same sentence. Never raises; takes time linear in
    ``len(text)``.
    """
    tags = [tag for tag in scan_tags(text) if tag.name != "box"]
    moments = anchor_tags(text, tags, [time for time in parse_times(text) if isinstance(time, Moment)])
    anchored: list[Point] = []
    for tag, moment in zip(tags, moments, strict=True):
        points = parse_points(text[tag.start : tag.end])
        anchored += points if moment is None else (replace(p, frame=moment.frame, t_s=moment.t_s) for p in points)
    return tuple(anchored)


def resolve_moment(frame: int | None, t_s: float | None, frames: Sequence[tuple[int, float]]) -> tuple[int | None, str]:
    """Find the frame of a clip that a moment means. Return its index in ``frames``, and a message about the result.

    ``frame`` is the frame number that a response states for the moment, and ``t_s`` is the time that it states, in
    seconds; each is None if it is not stated. ``frames`` are (number, seconds) of the shown frames in order of time.
    The frame with the number ``frame`` is chosen. If no frame has this number, the frame nearest to the time ``t_s`` is
    chosen. The message describes the chosen frame, or the reason why the index is None. The index is None in these
    cases:

    - The time ``t_s`` differs too much from the time of the chosen frame. The limit is half the gap between the chosen
      frame and its neighbour on the side of ``t_s``, plus 0.05 s. The 0.05 s are added because times are often written
      with one decimal.
    - The frame is chosen by the time ``t_s``, and the stated number ``frame`` is not between the numbers of the two
      neighbours of the chosen frame. If the chosen frame is the first or the last shown frame, it takes the place of
      the missing neighbour.
    - No frame has the number ``frame``, and ``t_s`` is None.
    - The clip has no frames, or ``frame`` and ``t_s`` are both None.
    """
    if not frames or (frame is None and t_s is None):
        return None, "the clip has no frames" if not frames else "it names neither frame nor time"
    by_number = next((index for index, (number, _) in enumerate(frames) if number == frame), None)
    if t_s is None:
        return by_number, f"frame {frame}" if by_number is not None else f"the clip has no frame {frame}"
    if by_number is not None:
        agrees = abs(t_s - frames[by_number][1]) <= _reach_s(frames, by_number, t_s)
        shown = f"frame {frame} is at {frames[by_number][1]:g} s"
        return (by_number, shown) if agrees else (None, f"{shown}, not at {t_s:g} s")
    nearest = _nearest([shown_s for _, shown_s in frames], t_s, t_s)
    if abs(t_s - frames[nearest][1]) > _reach_s(frames, nearest, t_s):
        return None, f"{t_s:g} s is outside of the clip"
    around = [number for number, _ in frames[max(0, nearest - 1) : nearest + 2]]
    if frame is not None and not min(around) < frame < max(around):
        return None, f"the clip has no frame {frame} near {t_s:g} s"
    return nearest, f"the frame at {frames[nearest][1]:g} s"


def resolve_span(
    first_frame: int | None,
    last_frame: int | None,
    start_s: float | None,
    end_s: float | None,
    frames: Sequence[tuple[int, float]],
) -> tuple[tuple[int, ...], str]:
    """Find the frames of a clip within a time span. Return their indices in ``frames``, and a text about the result.

    The first four arguments are the frame numbers and the times (in seconds) that a text states for the start and the
    end of the span; None for a value that is not stated. If the text states neither a number nor a time for the start,
    the span begins at the start of the clip. The same rule applies to the end. If the text states both, the number is
    used. ``frames`` are (number, seconds) of the shown frames in order of time. The first and the last frame of the
    span are included.

    A short span may lie between two neighbouring frames, so that it contains no frame. The result is then the frame
    nearest to the middle of the span.

    The text describes the found frames, or the reason why there are none. The result has no indices in these cases:

    - The span ends before it starts.
    - Its start or its end is outside the clip.
    - Its frame numbers and times contradict each other (:func:`resolve_moment`).
    - The text states a frame number for only one side of the span, and no shown frame is within the span.
    - The clip has no frames, or all four arguments are None.
    """
    if not frames or (first_frame, last_frame, start_s, end_s) == (None, None, None, None):
        return (), "the clip has no frames" if not frames else "it names neither frames nor times"
    if _is_reversed(first_frame, last_frame) or _is_reversed(start_s, end_s):
        return (), "it ends before it starts"
    for number, t_s in ((first_frame, start_s), (last_frame, end_s)):
        reason = _outside(number, t_s, frames)
        if reason:
            return (), reason
    # If a side has both, its frame decides: its time agrees, as was checked above.
    numbers = (-math.inf if first_frame is None else first_frame, math.inf if last_frame is None else last_frame)
    times = (
        -math.inf if start_s is None or first_frame is not None else start_s - _ROUNDING_S,
        math.inf if end_s is None or last_frame is not None else end_s + _ROUNDING_S,
    )
    inside = tuple(
        index
        for index, (number, t_s) in enumerate(frames)
        if numbers[0] <= number <= numbers[1] and times[0] <= t_s <= times[1]
    )
    if inside:
        return inside, f"{len(inside)} frames"
    if (first_frame, last_frame) == (None, None):
        return (_nearest([t_s for _, t_s in frames], start_s, end_s),), "no frame within, the nearest one"
    if first_frame is None or last_frame is None:
        return (), "its frames and times contradict each other"
    return (_nearest([number for number, _ in frames], first_frame, last_frame),), "no frame within, the nearest one"


def _nearest(values: Sequence[float], first: float | None, last: float | None) -> int:
    """Return the index of the value nearest to the middle between ``first`` and ``last``.

    This is used to find the frame nearest to a moment or a span. ``values`` are the times (in seconds) or the numbers
    of the shown frames, in order. ``first`` and ``last`` are the start and the end of the span, in the same unit. For a
    moment, both are the moment's time. If ``first`` is None, the first of ``values`` replaces it. If ``last`` is None,
    the last of ``values`` replaces it.
    """
    middle = ((values[0] if first is None else first) + (values[-1] if last is None else last)) / 2
    return min(range(len(values)), key=lambda index: abs(values[index] - middle))


def _outside(number: int | None, t_s: float | None, frames: Sequence[tuple[int, float]]) -> str:
    """Return the reason why a boundary of a span (its start or its end) does not fit the clip; "" if it fits.

    ``number`` is the frame number of this boundary, and ``t_s`` is its time in seconds; each is None if it is not
    stated. A boundary does not fit if its number or its time is outside the clip, or if the shown frame with this
    number does not have this time (:func:`resolve_moment`). If no shown frame has this number, number and time are not
    compared. The result is "" if both are None.
    """
    if number is not None and not frames[0][0] <= number <= frames[-1][0]:
        return f"the clip has no frame {number}"
    if t_s is None:
        return ""
    is_shown = any(number == known for known, _ in frames)
    index, reason = resolve_moment(number if is_shown else None, t_s, frames)
    return reason if index is None else ""


def _reach_s(frames: Sequence[tuple[int, float]], index: int, t_s: float) -> float:
    """Return the largest distance in seconds that the time ``t_s`` may have from the frame ``frames[index]``.

    The result is half the gap to a neighbouring frame, plus 0.05 s. The neighbour is the next frame if ``t_s`` is later
    than the frame, else the frame before it. A first or last frame has only one neighbour, which is then used. For the
    only frame of a clip, the result is 0.5 s.
    """
    side = index + 1 if t_s > frames[index][1] else index - 1
    if not 0 <= side < len(frames):
        side = 2 * index - side
    if not 0 <= side < len(frames):
        return _LONE_FRAME_S
    return abs(frames[side][1] - frames[index][1]) / 2 + _ROUNDING_S


def _is_reversed(first: float | None, last: float | None) -> bool:
    return first is not None and last is not None and last < first


def _seconds_written(t_s: float) -> str:
    if not math.isfinite(t_s) or not 0 <= round(t_s, 2) < MAX_TIME_S:
        raise ValueError(f"a time in a clip must be at least 0 s and below 1e7 s, got {t_s}")
    return f"{abs(round(t_s, 2)):.2f}"
