"""Draws numbered points on the frames of a clip. An object keeps its number across frames, and frames have captions.

The paper Argos (section 4.2) draws the points on the sampled frames and gives each frame's number and time, so that the
teacher can quote them. The module :mod:`groundtrace.vision.overlay` draws the points. This module computes the numbers
and draws the caption ``frame F (T s)`` in a corner of each frame.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import cv2
import numpy as np

from groundtrace.grading.responses.times import format_moment
from groundtrace.schemas.geometry import Point
from groundtrace.vision.frames import Frame
from groundtrace.vision.overlay import MAX_FONT_PX, MIN_FONT_PX, OverlayPoint, draw_overlay, lettering
from groundtrace.vision.samples import Pixels

_FONT_SHARE: Final = 0.022  # the font size as a share of the square root of the image's area
_PLATE: Final = 0.82  # opacity of the black behind the caption
_POINT_PRICE: Final = 1e6  # the cost of a caption close to a point; each changed pixel that it hides costs 1


def stable_ids(points: Sequence[Point]) -> tuple[int, ...]:
    """Return the object number of each point of a clip.

    Points that mark the same object get the same number on all frames. The result has one number for each of
    ``points``, in the same order. Numbers start at 1, in order of first appearance.

    The method is tracking. It compares only points with the same label (ignoring case and white space) in the same
    medium. Frames are processed in order. The points of each frame are paired with the objects of the earlier frames.
    The pair with the smallest distance between the point and the object's last position is chosen first. If two
    distances are equal, the older object is preferred, then the earlier point. A point without a pair becomes a new
    object. Points without a frame number are treated as one frame before all others.

    Two points on one frame always get different numbers, and so do points with different labels. An object keeps its
    number, however far it moves. The number of objects with a label is the largest number of points that one frame has
    for this label. Objects that cross can be confused, because only positions are compared.
    """
    order = sorted(range(len(points)), key=lambda i: _frame(points[i]))
    by_label: dict[tuple[str, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index in order:
        point = points[index]
        by_label[" ".join(point.label.split()).casefold(), point.media_index][_frame(point)].append(index)
    first_of: dict[int, int] = {}
    for frames in by_label.values():
        objects: list[list[int]] = []
        for group in frames.values():
            _follow(points, objects, group)
        first_of.update((index, seen[0]) for seen in objects for index in seen)
    numbers: dict[int, int] = {}
    for index in order:
        numbers.setdefault(first_of[index], len(numbers) + 1)
    return tuple(numbers[first_of[index]] for index in range(len(points)))


def _frame(point: Point) -> int:
    return -1 if point.frame is None else point.frame


def _follow(points: Sequence[Point], objects: list[list[int]], group: list[int]) -> None:
    """Add each point of one frame to the object to which the point belongs.

    ``group`` holds the frame's points, as indices in ``points``. ``objects`` holds, for each object, the indices of its
    points on the earlier frames. Each point is paired with at most one object, and each object with at most one point.
    The pair with the smallest distance between the point and the object's last point is chosen first. A point without a
    pair becomes a new object.
    """
    pairs = sorted(
        (math.hypot(points[seen[-1]].x - points[index].x, points[seen[-1]].y - points[index].y), number, place)
        for number, seen in enumerate(objects)
        for place, index in enumerate(group)
    )
    taken: dict[int, int] = {}
    for _, number, place in pairs:
        if place not in taken and number not in taken.values():
            taken[place] = number
    for place, index in enumerate(group):
        if place in taken:
            objects[taken[place]].append(index)
        else:
            objects.append([index])


def draw_on_frames(frames: Sequence[Frame], points: Sequence[Point], ids: Sequence[int]) -> list[Pixels]:
    """Return a picture of each frame, with the frame's points and a caption (``frame F (T s)``) drawn on it.

    ``frames`` are the sampled frames of one clip. ``points`` are in original pixels; the field ``frame`` of a point
    holds the number of the frame to which the point belongs (:attr:`Frame.number`). ``ids`` has the object number of
    each point, from :func:`stable_ids`.

    The result has one picture for each frame, in order. It is ``(kH, kW, 3)`` uint8 RGB, where ``k`` is the integer
    factor by which the frame is enlarged. Small frames are enlarged, so that their text is legible; for large frames
    ``k`` is 1. A frame without points is enlarged by the largest factor of the frames with points.

    Raises :class:`ValueError` if a point's frame is not in ``frames``, or if ``ids`` and ``points`` differ in length.
    """
    places = {frame.number: place for place, frame in enumerate(frames)}
    marks: list[list[OverlayPoint]] = [[] for _ in frames]
    for point, number in zip(points, ids, strict=True):
        if point.frame not in places:
            raise ValueError(
                f"a point of {point.label!r} is on frame {point.frame}, which is not among the frames to draw"
            )
        marks[places[point.frame]].append(OverlayPoint(number, point.label, point.x, point.y))
    drawn = [draw_overlay(frame.pixels, found) for frame, found in zip(frames, marks, strict=True)]
    scales = [after.shape[0] // frame.pixels.shape[0] for after, frame in zip(drawn, frames, strict=True)]
    common = max(scales, default=1)
    return [
        _captioned(frame, found, after if found else _enlarged(after, common))
        for frame, found, after in zip(frames, marks, drawn, strict=True)
    ]


def _captioned(frame: Frame, marks: Sequence[OverlayPoint], drawn: Pixels) -> Pixels:
    """Return the drawn frame with a caption that hides as little of the frame as possible.

    ``marks`` are the points of the frame, and ``drawn`` is the frame with these points. If the caption does not fit,
    the frame is enlarged.
    """
    text = format_moment(frame.number, frame.t_s)
    font_px = round(_FONT_SHARE * math.sqrt(drawn.shape[0] * drawn.shape[1]))
    font_px = max(MIN_FONT_PX, min(MAX_FONT_PX, font_px))
    ink = lettering(text, font_px, font_px // 5)[0]
    if ink.shape[1] > drawn.shape[1]:
        font_px = MIN_FONT_PX
        ink = lettering(text, font_px, font_px // 5)[0]
    canvas = _enlarged(drawn, math.ceil(max(ink.shape[0] / drawn.shape[0], ink.shape[1] / drawn.shape[1], 1)))
    scale = canvas.shape[0] // frame.pixels.shape[0]
    edges = frame.pixels.shape[1::-1]
    points = [(np.clip((mark.x, mark.y), 0, edges) * scale).tolist() for mark in marks]
    x, y = _place(canvas, _enlarged(frame.pixels, scale), points, ink.shape[1], ink.shape[0])
    region = canvas[y : y + ink.shape[0], x : x + ink.shape[1]]
    opacity = ink[..., None].astype(np.float64) / 255
    region[...] = np.rint(region * (1 - _PLATE) * (1 - opacity) + 255 * opacity)
    return canvas


def _enlarged(pixels: Pixels, scale: int) -> Pixels:
    """Return the image, enlarged by ``scale`` without interpolation; the same array if ``scale`` is 1."""
    size = (pixels.shape[1] * scale, pixels.shape[0] * scale)
    return pixels if scale == 1 else np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_NEAREST), np.uint8)


def _place(canvas: Pixels, bare: Pixels, points: Sequence[Sequence[float]], width: int, height: int) -> tuple[int, int]:
    """Return the caption's top-left corner.

    Each position of the caption has a cost: the number of drawn pixels that the caption would hide, plus a high cost
    for each point close to the caption. The caption is placed in the first corner of the image that has the cost 0. If
    all corners have a higher cost, the caption is placed at the position with the lowest cost, among the corners and a
    grid of positions.

    ``canvas`` is the image with the drawn marks, and ``bare`` is the image without them. ``points`` are the positions
    of the points on the canvas. ``width`` and ``height`` are the size of the caption.
    """
    right, bottom = canvas.shape[1] - width, canvas.shape[0] - height

    def price(place: tuple[int, int]) -> float:
        x, y = place
        area = np.s_[y : y + height, x : x + width]
        near = sum(x - height < px < x + width + height and y - height < py < y + 2 * height for px, py in points)
        return near * _POINT_PRICE + float((canvas[area] != bare[area]).any(2).sum())

    best = min([(0, 0), (right, 0), (0, bottom), (right, bottom)], key=price)
    if not price(best):
        return best
    rows, columns = (np.linspace(0, end, 2 + end // height).astype(int).tolist() for end in (bottom, right))
    return min([best, *((x, y) for y in rows for x in columns)], key=price)
