"""Crops of an image around the boxes that a model predicted (iVGR §3.4): each box, and one crop around all of them.

The paper crops the boxes as they are and leaves the rest open. Decided here, for what it leaves open:

- a box is padded on each side by ``margin`` of its width and height, cut at the image's edges, and widened about its
  middle to ``min_side_px``, as far as the image goes: smaller crops are of no use to a vision tower;
- a box that lies outside of its image, or has no area, gives no crop;
- more than ``max_boxes`` different boxes of an image: the first ones are cropped, and the crop around all still holds
  every one of them;
- a crop that would be the whole image, or the same as another one, is left out: with one box there is one crop, and no
  second one around it;
- of several images each has its own crops. Clips have none: a box does not say which frame it is in.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, PositiveInt

from groundtrace.schemas.config import settings
from groundtrace.schemas.geometry import Box
from groundtrace.vision.decode import Pixels

Size = tuple[int, int]
"""Width and height in pixels."""
Corners = tuple[float, float, float, float]


@settings
class CropSettings:
    """How the boxes of a response become crops."""

    margin: Annotated[float, Field(ge=0, allow_inf_nan=False), "of a box's width and height, added on each side"] = 0.1
    min_side_px: Annotated[PositiveInt, "smaller crops are widened to this, as far as the image goes"] = 56
    max_boxes: Annotated[PositiveInt, "boxes of an image that get a crop of their own"] = 8


@dataclass(frozen=True)
class Crop:
    """A rectangle of an image in whole pixels of the upright original; ``right`` and ``bottom`` are just outside.

    ``is_union`` marks the one around all boxes.
    """

    media_index: int
    left: int
    top: int
    right: int
    bottom: int
    is_union: bool = False

    @property
    def rectangle(self) -> tuple[int, int, int, int]:
        """Left, top, right and bottom."""
        return self.left, self.top, self.right, self.bottom


def crops_of(boxes: Sequence[Box], sizes: Sequence[Size | None], settings: CropSettings) -> tuple[Crop, ...]:
    """The crops of all images in their order, of each its boxes in the order of writing and then the one around them.

    ``sizes`` are those of the images; None for a clip. Nothing where no box can be cropped. Never raises.
    """
    return tuple(
        crop
        for index, size in enumerate(sizes)
        if size is not None
        for crop in _of_image(index, [box for box in boxes if box.media_index == index], size, settings)
    )


def cut(pixels: Pixels, crop: Crop) -> Pixels:
    """The pixels of a crop, as a copy."""
    return pixels[crop.top : crop.bottom, crop.left : crop.right].copy()


def _of_image(index: int, boxes: Sequence[Box], size: Size, settings: CropSettings) -> Iterator[Crop]:
    padded = [corners for box in boxes if (corners := _padded(box, size, settings.margin)) is not None]
    if not padded:
        return
    lefts, tops, rights, bottoms = zip(*padded, strict=True)
    around = _in_pixels((min(lefts), min(tops), max(rights), max(bottoms)), size, settings.min_side_px)
    given = {(0, 0, *size)}
    single = list(dict.fromkeys(_in_pixels(corners, size, settings.min_side_px) for corners in padded))
    for rectangle in single[: settings.max_boxes]:
        if rectangle not in given:
            given.add(rectangle)
            yield Crop(index, *rectangle)
    if around not in given:
        yield Crop(index, *around, is_union=True)


def _padded(box: Box, size: Size, margin: float) -> Corners | None:
    """The box with its margin, within the image; None for one that has no area there."""
    corners = (box.x1, box.y1, box.x2, box.y2)
    if not all(map(math.isfinite, corners)):
        return None
    (width, height), (x1, y1, x2, y2) = size, corners
    if min(x2, width) <= max(x1, 0) or min(y2, height) <= max(y1, 0):
        return None
    wide, high = margin * (x2 - x1), margin * (y2 - y1)
    return max(x1 - wide, 0.0), max(y1 - high, 0.0), min(x2 + wide, float(width)), min(y2 + high, float(height))


def _in_pixels(corners: Corners, size: Size, min_side_px: int) -> tuple[int, int, int, int]:
    """The rectangle in whole pixels that holds the corners, at least ``min_side_px`` on a side, or as the image is."""
    (width, height), (x1, y1, x2, y2) = size, corners
    left, right = _widened(math.floor(x1), math.ceil(x2), width, min_side_px)
    top, bottom = _widened(math.floor(y1), math.ceil(y2), height, min_side_px)
    return left, top, right, bottom


def _widened(start: int, end: int, length: int, least: int) -> tuple[int, int]:
    """The span widened about its middle to ``least``, and moved to lie within 0 and ``length``."""
    least = min(max(least, end - start), length)
    start = min(max(0, start - (least - (end - start)) // 2), length - least)
    return start, max(start + least, min(end, length))
