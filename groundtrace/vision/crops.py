"""Crops an image around the boxes that a model predicted (iVGR §3.4): one crop per box, and one around all boxes.

The paper crops the unchanged boxes and does not specify the details. This module decides the following:

- a box is padded on each side by the share ``margin`` of its width and height, and clipped to the image. If it is then
  smaller than ``min_side_px``, it is widened about its centre as far as the image allows, because a vision encoder
  cannot use smaller crops;
- a box outside its image, or without area, is ignored;
- if an image has more than ``max_boxes`` distinct boxes, only the first ``max_boxes`` are cropped; the crop around all
  boxes still contains every box;
- a crop that equals the whole image or another crop is left out, so a single box has only one crop;
- each image has its own crops. Clips are not cropped, because a box has no frame number.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, PositiveInt

from groundtrace.config.settings import settings
from groundtrace.schemas.geometry import Box
from groundtrace.vision.decode import Pixels

Size = tuple[int, int]
"""Width and height in pixels."""
Corners = tuple[float, float, float, float]


@settings
class CropSettings:
    """Determines how parts of an image are cut out around the boxes in a model's response.

    "Table 4" in the descriptions of the settings is a table of the paper iVGR.
    """

    margin: Annotated[
        float, Field(ge=0, allow_inf_nan=False), "the margin on each side, as a share of the box's width and height"
    ] = 0.1
    min_side_px: Annotated[PositiveInt, "smaller crops are widened to this side, as far as the image allows"] = 56
    max_boxes: Annotated[PositiveInt, "the maximum number of boxes of an image that are cropped one by one"] = 8
    single: Annotated[bool, "crop each box (Table 4: crops)"] = True
    union: Annotated[bool, "crop the smallest rectangle around all boxes (Table 4: union crop)"] = True

    def __post_init__(self) -> None:
        if not self.single and not self.union:
            raise ValueError("single or union must be true: otherwise no box is cropped")


@dataclass(frozen=True)
class Crop:
    """Holds one rectangle to cut out of an image, in whole pixels of the upright original image.

    ``media_index`` is the image's position among the media of the question, from 0. ``left`` and ``top`` are inclusive;
    ``right`` and ``bottom`` are exclusive. ``is_union`` is True for the crop around all boxes of the image, and False
    for a crop around one box.
    """

    media_index: int
    left: int
    top: int
    right: int
    bottom: int
    is_union: bool = False

    @property
    def rectangle(self) -> tuple[int, int, int, int]:
        """Return the tuple (left, top, right, bottom) in pixels."""
        return self.left, self.top, self.right, self.bottom


def crops_of(boxes: Sequence[Box], sizes: Sequence[Size | None], settings: CropSettings) -> tuple[Crop, ...]:
    """Return the rectangles to crop around predicted boxes, for all images of a question in order.

    ``boxes`` are the predicted boxes in original pixels; each names its image by ``media_index``. ``sizes`` has one
    entry for each medium of the question: (width, height) of an image, or None for a clip. ``settings`` holds the
    margin and the limits of :class:`CropSettings`.

    For each image, the result has the crops of single boxes first, and then the crop around all its boxes. The settings
    can switch off one of these two kinds. The result is empty if there is no box that can be cropped. The function
    never raises.
    """
    return tuple(
        crop
        for index, size in enumerate(sizes)
        if size is not None
        for crop in _of_image(index, [box for box in boxes if box.media_index == index], size, settings)
    )


def cut(pixels: Pixels, crop: Crop) -> Pixels:
    """Return a copy of the part of an image that a crop selects.

    ``pixels`` is the upright image, ``(H, W, 3)`` uint8 RGB. ``crop`` is a rectangle within this image.
    """
    return pixels[crop.top : crop.bottom, crop.left : crop.right].copy()


def _of_image(index: int, boxes: Sequence[Box], size: Size, settings: CropSettings) -> Iterator[Crop]:
    padded = [corners for box in boxes if (corners := _padded(box, size, settings.margin)) is not None]
    if not padded:
        return
    lefts, tops, rights, bottoms = zip(*padded, strict=True)
    around = _in_pixels((min(lefts), min(tops), max(rights), max(bottoms)), size, settings.min_side_px)
    given = {(0, 0, *size)}
    single = list(dict.fromkeys(_in_pixels(corners, size, settings.min_side_px) for corners in padded))
    for rectangle in single[: settings.max_boxes] if settings.single else ():
        if rectangle not in given:
            given.add(rectangle)
            yield Crop(index, *rectangle)
    if settings.union and around not in given:
        yield Crop(index, *around, is_union=True)


def _padded(box: Box, size: Size, margin: float) -> Corners | None:
    """Return the box with a margin, clipped to the image; None if the box has no area inside the image.

    ``margin`` is the share of the width and height of the box that is added on each side. ``size`` is the (width,
    height) of the image.
    """
    corners = (box.x1, box.y1, box.x2, box.y2)
    if not all(map(math.isfinite, corners)):
        return None
    (width, height), (x1, y1, x2, y2) = size, corners
    if min(x2, width) <= max(x1, 0) or min(y2, height) <= max(y1, 0):
        return None
    wide, high = margin * (x2 - x1), margin * (y2 - y1)
    return max(x1 - wide, 0.0), max(y1 - high, 0.0), min(x2 + wide, float(width)), min(y2 + high, float(height))


def _in_pixels(corners: Corners, size: Size, min_side_px: int) -> tuple[int, int, int, int]:
    """Return the smallest rectangle in whole pixels that contains the padded box ``corners`` (x1, y1, x2, y2).

    ``size`` is the (width, height) of the image. The width and the height of the rectangle are at least
    ``min_side_px``. If a side of the image is shorter than ``min_side_px``, the rectangle has the full length of this
    side.
    """
    (width, height), (x1, y1, x2, y2) = size, corners
    left, right = _widened(math.floor(x1), math.ceil(x2), width, min_side_px)
    top, bottom = _widened(math.floor(y1), math.ceil(y2), height, min_side_px)
    return left, top, right, bottom


def _widened(start: int, end: int, length: int, least: int) -> tuple[int, int]:
    """Widen a one-dimensional interval and return its new start and end.

    If the interval from ``start`` to ``end`` is shorter than ``least`` pixels, it is widened to ``least`` pixels about
    its centre, and then shifted into the image: between 0 and ``length``, the length of the image's side. For example,
    if ``least`` is 10 and ``length`` is 100, (20, 24) becomes (17, 27), and (0, 4) becomes (0, 10). If ``length`` is
    below ``least``, the result is (0, ``length``).
    """
    least = min(max(least, end - start), length)
    start = min(max(0, start - (least - (end - start)) // 2), length - least)
    return start, max(start + least, min(end, length))
