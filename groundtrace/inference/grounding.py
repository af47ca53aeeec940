"""Converts the coordinates that a model wrote in a reply to pixels of the original image. This happens as soon as the
reply has arrived.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeGuard, TypeVar

import numpy as np

from groundtrace.grading.responses.pointing import NoPoints, RawPoint
from groundtrace.schemas.control_text import find_control
from groundtrace.schemas.coordinates import QWEN25_IMAGE, CoordinateFrame, Resize, box_to_px, to_px
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.model_json import ConflictingValues, one_value_per_key, whole_texts
from groundtrace.schemas.records import MediaRef


class BadReply(ValueError):
    """Raised if a model's reply does not have the requested form. ``key`` is the reply's cache key. It is None if the
    code that raises the error does not know the key.
    """

    key: str | None = None


@dataclass(frozen=True)
class Mask:
    """Holds a mask of an image: for each pixel, whether it belongs to an object. ``pixels`` is a bool array (H, W) for
    the rectangle whose upper left pixel is (``x``, ``y``). No pixel outside of this rectangle belongs to the mask.
    """

    x: int
    y: int
    pixels: np.ndarray

    def holds(self, x_px: float, y_px: float) -> bool:
        """Return whether the mask contains the pixel at the position (``x_px``, ``y_px``) of the image (Eq. 2 of the
        paper Argos).
        """
        column, row = math.floor(x_px) - self.x, math.floor(y_px) - self.y
        height, width = self.pixels.shape
        return 0 <= column < width and 0 <= row < height and bool(self.pixels[row, column])


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=one_value_per_key)

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class ParsedPointing(Generic[T_co]):
    """Holds the points or boxes that a reply has for a label (the name of an object). ``found`` holds these points or
    boxes. It is empty if the reply states that the object is absent.

    The reply may use another word for the object than the label, such as "sofa" for "couch", or a more general word.
    Then ``called`` is the word of the reply. Otherwise ``called`` is "".
    """

    found: tuple[T_co, ...]
    called: str = ""


PointReader = Callable[[str], tuple[RawPoint, ...] | NoPoints]
"""A function that parses the points of a reply, but does not convert the model's numbers to pixels.

The function returns NoPoints if the reply states that the object is absent. It raises UnparsablePointing if the points
cannot be parsed.
"""


@dataclass(frozen=True)
class RawBox:
    """Holds one box as a model wrote it. ``corners`` are the four numbers, in the order and the coordinate frame of the
    model. ``label`` is the label of the box, or "" if the model wrote none.
    """

    corners: tuple[float, float, float, float]
    label: str = ""


BoxReader = Callable[[str], Sequence[RawBox]]
"""A function that parses the boxes of a reply, but does not convert the model's numbers to pixels.

The function returns an empty sequence if the reply states that the object is absent. It raises :class:`BadReply` if the
boxes cannot be parsed.
"""


def points_in_px(
    written: Sequence[RawPoint],
    label: str,
    frame: CoordinateFrame,
    medium: MediaRef,
    media_index: int,
    rule: Resize = QWEN25_IMAGE,
) -> tuple[Point, ...]:
    """Convert the points of a reply to pixels of the original image.

    ``written`` are the points as the model wrote them, in the coordinate frame ``frame``. ``label`` is the requested
    label, which each returned point gets. ``medium`` is the original image, and ``media_index`` its position among the
    media of the question. ``rule`` describes how the model's processor resizes the image.

    Raises :class:`BadReply` for a point outside the frame. BadReply is also raised if the model seems to have written
    numbers from 0 to 1, but the frame has larger numbers, such as 0 to 1000 (:func:`_check_scale`). Without this check,
    all points would be in one corner of the image.
    """
    _check_scale(frame, [value for point in written for value in (point.x, point.y)])
    try:
        pixels = [to_px(frame, point.x, point.y, medium.width, medium.height, rule) for point in written]
    except ValueError as error:
        raise BadReply(str(error)) from error
    return tuple(Point(label, x, y, media_index) for x, y in pixels)


def raw_box(row: object, label: str = "") -> RawBox:
    """Return a box with the numbers of ``row``, which must be a list of four numbers. The numbers stay in the
    coordinate frame of the model. ``label`` is the label of the box. Raises :class:`BadReply` for any other value of
    ``row``.
    """
    x1, y1, x2, y2 = numbers_of(row, 4, "box")
    return RawBox((x1, y1, x2, y2), label)


def raw_point(row: object, label: str = "") -> RawPoint:
    """Return a point with the numbers of ``row``, which must be a list of two numbers. The numbers stay in the
    coordinate frame of the model. ``label`` is the label of the point. Raises :class:`BadReply` for any other value of
    ``row``.
    """
    x, y = numbers_of(row, 2, "point")
    return RawPoint(label, x, y)


def numbers_of(row: object, count: int, what: str) -> list[float]:
    """Return the numbers of ``row`` as floats. ``row`` must be a list of ``count`` numbers; a number may also be a
    text, e.g. "2.5". Raises :class:`BadReply` for any other value. ``what`` is the word for the list in the error
    message, such as "box".
    """
    if not isinstance(row, list | tuple) or len(row) != count:
        raise BadReply(f"the {what} {row!r:.80} is not a list of {count} numbers")
    if any(isinstance(value, bool) for value in row):
        raise BadReply(f"the {what} {row!r:.80} has true or false in place of a number")
    try:
        return [float(value) for value in row]
    except (TypeError, ValueError, ArithmeticError) as error:
        raise BadReply(f"the {what} {row!r:.80} has a value that is not a number: {error}") from error


def boxes_in_px(
    written: Sequence[RawBox],
    label: str,
    frame: CoordinateFrame,
    medium: MediaRef,
    media_index: int,
    rule: Resize = QWEN25_IMAGE,
    any_corners: bool = True,
) -> tuple[Box, ...]:
    """Convert the boxes of a reply to pixels of the original image.

    ``written`` are the boxes as the model wrote them, in the coordinate frame ``frame``. ``label`` is the requested
    label, which each returned box gets. ``medium`` is the original image, and ``media_index`` its position among the
    media of the question. ``rule`` describes how the model's processor resizes the image. If ``any_corners`` is True, a
    box may be written from any of its corners to the opposite one.

    Raises :class:`BadReply` for numbers that do not fit the frame (:func:`points_in_px`). If ``any_corners`` is False,
    BadReply is also raised for a box whose second corner is left of its first, or above it.
    """
    _check_scale(frame, [value for box in written for value in box.corners])
    corners = [_corners(box.corners, frame, medium, rule, any_corners) for box in written]
    return tuple(Box(label, *each, media_index=media_index) for each in corners)


def _check_scale(frame: CoordinateFrame, written: Sequence[float]) -> None:
    """Raise :class:`BadReply` if the model seems to have written numbers from 0 to 1, but the frame has larger numbers,
    e.g. 0 to 1000. Without this error, all points and boxes would be in one corner of the image.

    ``written`` are the numbers. The error is raised if all of them are from 0 to 1, and not all of them are integers.
    The frame of Molmo 1 (0 to 100) is an exception: for this frame, no error is raised. Molmo 1 writes numbers with a
    decimal, such as 0.5, so numbers from 0 to 1 can be correct.
    """
    spared = frame in (CoordinateFrame.UNIT, CoordinateFrame.MOLMO100)
    if not spared and all(0 <= value <= 1 for value in written) and not all(map(float.is_integer, map(float, written))):
        raise BadReply(f"all numbers are from 0 to 1: write them in the requested frame ({frame.value})")


def _corners(
    written: tuple[float, float, float, float], frame: CoordinateFrame, medium: MediaRef, rule: Resize, any_order: bool
) -> tuple[float, float, float, float]:
    first, second, third, fourth = written
    if not any_order and (third < first or fourth < second):
        raise BadReply(
            f"in the box {list(written)} the second corner is left of the first, or above it: "
            "write the upper left corner first"
        )
    try:
        return box_to_px(frame, written, medium.width, medium.height, rule)
    except (ValueError, ArithmeticError) as error:
        raise BadReply(f"box {list(written)}: {error}") from error


def masks_of_reply(text: str, count: int, medium: MediaRef) -> tuple[Mask, ...]:
    """Parse ``text``, the reply of a segmenter, and return its masks. The request gave the segmenter ``count`` boxes or
    points in the image ``medium``. The reply has one mask for each of them, in the same order.

    Raises :class:`BadReply` if the number of masks is not ``count``, or if a mask does not have the right form or does
    not fit into the image.
    """
    rows = json_object(text).get("masks")
    if not isinstance(rows, list) or len(rows) != count:
        raise BadReply(f"the reply's field 'masks' must be a list of {count} masks, got {rows!r:.80}")
    return tuple(_mask(row, medium) for row in rows)


def encode_mask(x: int, y: int, pixels: np.ndarray) -> dict[str, object]:
    """Convert a mask to JSON fields, in the form of a segmenter's reply. ``pixels`` is a bool array (H, W) for the
    rectangle whose upper left pixel is (``x``, ``y``).

    The field ``counts`` describes the pixels row by row. It holds the lengths of runs of equal pixels. The first run is
    outside of the mask and may have the length 0, the second run is inside, and so on. E.g. the pixels 0 0 1 1 1 0
    become [2, 3, 1].
    """
    flat = pixels.astype(bool).ravel()
    changes = np.flatnonzero(np.diff(flat.astype(np.int8))) + 1
    edges = np.concatenate([[0], changes, [flat.size]])
    counts = np.diff(edges).tolist()
    if flat.size and flat[0]:
        counts.insert(0, 0)
    height, width = pixels.shape
    return {"x": x, "y": y, "width": width, "height": height, "counts": counts}


def _mask(row: object, medium: MediaRef) -> Mask:
    fields = row if isinstance(row, dict) else {}
    x, y, width, height, counts = (fields.get(name) for name in ("x", "y", "width", "height", "counts"))
    if not (_is_size(x) and _is_size(y) and _is_size(width) and _is_size(height)):
        raise BadReply(f"a mask needs the integer fields 'x', 'y', 'width' and 'height', got {row!r:.80}")
    if x + width > medium.width or y + height > medium.height:
        raise BadReply(f"a {width}x{height} mask at ({x}, {y}) is not inside the {medium.width}x{medium.height} image")
    if not isinstance(counts, list) or not all(_is_size(value) for value in counts) or sum(counts) != width * height:
        raise BadReply(f"the 'counts' of a mask must be lengths that add up to {width}x{height} pixels")
    values = np.arange(len(counts)) % 2 == 1
    return Mask(x, y, np.repeat(values, counts).reshape(height, width))


def _is_size(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def json_object(text: str) -> dict[str, object]:
    """Return the JSON object of a reply, which may be inside a code fence. Raises :class:`BadReply` if the reply holds
    no JSON object."""
    written = text[text.find("{") : text.rfind("}") + 1]
    try:
        fields, end = json_at(written)
    except BadReply:
        raise
    except (ValueError, RecursionError) as error:
        raise BadReply(f"the reply is not JSON: {text[:80]!r}") from error
    if end < len(written):
        raise BadReply(f"the reply is not JSON: {text[:80]!r}")
    if not isinstance(fields, dict):
        raise BadReply(f"the reply is not a JSON object: {text[:80]!r}")
    return fields


def check_readable(text: str, what: str) -> None:
    """Raise :class:`BadReply` if ``text``, a part of a model's reply, contains a special token or a control character
    (:func:`groundtrace.schemas.control_text.find_control`). ``what`` is the name of this part in the error message."""
    if found := find_control(text):
        raise BadReply(f"{what}: write a text without the special token or control character {found!r}")


def json_at(text: str, start: int = 0) -> tuple[Any, int]:
    """Return the JSON value that begins at the offset ``start`` of a reply, and the offset after the value.

    ``text`` is the text of the reply. All parsers of replies use this function.

    Raises :class:`BadReply` if an object has a key with two different values, and ValueError or RecursionError if the
    text is not JSON.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
    except ConflictingValues as error:
        raise BadReply(str(error)) from error
    return (whole_texts(value) if "\\u" in text else value), end
