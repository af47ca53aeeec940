"""Converts coordinates from the frame of a model to pixels, and back. A frame defines the units and the order of the
numbers that a model writes. The pixels are those of the upright original image.

The settings of each endpoint (model server) name its frame; a frame is never guessed from the size of numbers. A pair
of numbers is passed *in the order in which the model wrote it*: y before x for ``gemini``, x before y for all others.
Pixels are float positions in [0, width] x [0, height] with the origin at the top left. Models write values in these
ranges:

    molmo100            x, y   0..100 of each side (Molmo 1, one decimal)
    molmo1000           x, y   0..1000 of each side (Molmo 2)
    qwen2.5-resized-px  x, y   pixels of the image after :func:`smart_resize`
    norm1000            x, y   0..1000 of each side (Qwen2-VL, Qwen3-VL, GLM-4.1V/4.5V, InternVL)
    gemini              y, x   0..1000 of each side
    claude-resized-px   x, y   pixels of the image after :meth:`FitRule.size`
    unit                x, y   0..1 of each side
    px                  x, y   pixels of the upright original
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

CLIP_SHARE = 0.01
"""The tolerance for positions outside of the image, as a share of the image's side. A position that is outside by at
most this share is moved to the edge.
"""

MAX_ASPECT = 200.0
"""The largest ratio of the longer to the shorter side of an image. Qwen's preprocessing refuses an image with a larger
ratio.
"""

# Keeps a value written exactly at the tolerance (101 of 100) from failing on the last float bit.
_ROUNDING = 1e-9


class CoordinateFrame(StrEnum):
    """Lists the coordinate frames of models. A frame defines the units and the order of the numbers that a model
    writes. The value of a member is the name of the frame in configs.
    """

    MOLMO100 = "molmo100"
    MOLMO1000 = "molmo1000"
    QWEN25_RESIZED_PX = "qwen2.5-resized-px"
    NORM1000 = "norm1000"
    GEMINI = "gemini"
    CLAUDE_RESIZED_PX = "claude-resized-px"
    UNIT = "unit"
    PX = "px"


_FULL_SCALE: dict[CoordinateFrame, float] = {
    CoordinateFrame.MOLMO100: 100.0,
    CoordinateFrame.MOLMO1000: 1000.0,
    CoordinateFrame.NORM1000: 1000.0,
    CoordinateFrame.GEMINI: 1000.0,
    CoordinateFrame.UNIT: 1.0,
}


class OutOfFrame(ValueError):
    """Raised if a position is not a finite number, or is outside the image by more than 1 % of the image's side.

    The caller treats the model's reply as unparsable.
    """


class UnresizableImage(ValueError):
    """Raised if an image cannot be resized. Both sides must be positive and finite. For Qwen's resizing, the ratio of
    the sides must also be at most 200.
    """


@dataclass(frozen=True)
class ResizeRule:
    """Describes how the processor of a Qwen model resizes an image.

    Both new sides are multiples of ``factor`` px. The new area is between ``min_area_px`` and ``max_area_px`` (px²).
    """

    factor: int
    min_area_px: int
    max_area_px: int

    def __post_init__(self) -> None:
        """Check the limits of this rule for resizing. Raises ValueError if no image can meet them."""
        if self.factor < 1 or not 0 < self.min_area_px <= self.max_area_px:
            raise ValueError(f"{self} needs factor >= 1 and 0 < min_area_px <= max_area_px")

    def size(self, width_px: float, height_px: float) -> tuple[int, int]:
        """Return the (width, height) in px to which an image of ``width_px`` x ``height_px`` is resized
        (:func:`smart_resize`).
        """
        return smart_resize(width_px, height_px, self)


@dataclass(frozen=True)
class FitRule:
    """Describes how Claude resizes an image. The image is never enlarged, and keeps its aspect ratio.

    After resizing, the image is padded until its sides are multiples of ``patch_px``. Then it is divided into square
    patches with sides of ``patch_px``. The new size is the largest size at which the padded image meets two limits:
    it has at most ``max_patches`` patches, and each of its sides is at most ``max_side_px``. Coordinates refer to the
    new size, without the padding (source: the page vision-coordinates of the Claude documentation).
    """

    patch_px: int
    max_side_px: int
    max_patches: int

    def __post_init__(self) -> None:
        """Check the limits of this rule for resizing. Raises ValueError if no image can meet them."""
        if not 1 <= self.patch_px <= self.max_side_px or self.max_patches < 1:
            raise ValueError(f"{self} needs 1 <= patch_px <= max_side_px and max_patches >= 1")

    def size(self, width_px: float, height_px: float) -> tuple[int, int]:
        """Return the (width, height) in px to which an image of ``width_px`` x ``height_px`` is resized, without
        padding.

        Raises:
            UnresizableImage: a side is not positive and finite.
        """
        _check_sides(width_px, height_px)
        width, height = round(width_px), round(height_px)
        if self._fits(width, height):
            return width, height
        if height > width:
            tall, thin = self.size(height, width)
            return thin, tall
        fitting, too_long = 1, width
        while too_long - fitting > 1:
            tried = (fitting + too_long) // 2
            if self._fits(tried, self._short(tried, width, height)):
                fitting = tried
            else:
                too_long = tried
        return fitting, self._short(fitting, width, height)

    def _fits(self, width: int, height: int) -> bool:
        columns, rows = math.ceil(width / self.patch_px), math.ceil(height / self.patch_px)
        return max(columns, rows) * self.patch_px <= self.max_side_px and columns * rows <= self.max_patches

    @staticmethod
    def _short(long_px: int, width: int, height: int) -> int:
        """Return the shorter side in px of a resized image whose longer side is ``long_px``.

        The original image has the longer side ``width`` and the shorter side ``height``; its aspect ratio is kept.
        """
        return max(1, round(long_px / (width / height)))


Resize = ResizeRule | FitRule
"""The rule by which a model's processor resizes an image."""

QWEN25_IMAGE = ResizeRule(28, 4 * 28**2, 16384 * 28**2)
CLAUDE_IMAGE = FitRule(28, 2576, 4784)
CLAUDE_STANDARD_IMAGE = FitRule(28, 1568, 1568)
"""The rule by which Claude before version 4.7 resizes an image: at most 1568 px on a side, and at most 1568 patches.

Claude 4.7 and later resize images by the rule :data:`CLAUDE_IMAGE`. Patches are squares of 28 px in both rules.
"""


def smart_resize(width_px: float, height_px: float, rule: ResizeRule = QWEN25_IMAGE) -> tuple[int, int]:
    """Return the (width, height) in px to which the processor of a Qwen model resizes an image of ``width_px`` x
    ``height_px``, as in qwen-vl-utils. ``rule`` holds the limits of the new size.

    Both sides are rounded to multiples of ``rule.factor``. If the new area is above the maximum, both sides are scaled
    down and rounded down. If it is below the minimum, both sides are scaled up and rounded up. Each side is at least
    ``rule.factor``, since rounding down would give 0 for a thin image. So the area of a thin image can exceed the
    maximum.

    Raises:
        UnresizableImage: a side is not positive and finite, or the aspect ratio exceeds 200.
    """
    _check_sides(width_px, height_px)
    if max(width_px, height_px) > MAX_ASPECT * min(width_px, height_px):
        raise UnresizableImage(f"the aspect ratio of an image of {width_px:g}x{height_px:g} px exceeds {MAX_ASPECT:g}")
    factor = rule.factor
    width = max(factor, round(width_px / factor) * factor)
    height = max(factor, round(height_px / factor) * factor)
    if width * height > rule.max_area_px:
        shrink = math.sqrt(width_px * height_px / rule.max_area_px)
        width = max(factor, math.floor(width_px / shrink / factor) * factor)
        height = max(factor, math.floor(height_px / shrink / factor) * factor)
    elif width * height < rule.min_area_px:
        grow = math.sqrt(rule.min_area_px / (width_px * height_px))
        width = math.ceil(width_px * grow / factor) * factor
        height = math.ceil(height_px * grow / factor) * factor
    return width, height


def to_px(
    frame: CoordinateFrame,
    first: float,
    second: float,
    width_px: float,
    height_px: float,
    rule: Resize = QWEN25_IMAGE,
) -> tuple[float, float]:
    """Convert a position that a model wrote to ``(x_px, y_px)``, pixels of the upright original image.

    Args:
        frame: the coordinate frame of the model, i.e. the units and the order of the numbers that it writes.
        first: the number written first (y for ``gemini``, x otherwise).
        second: the number written second.
        width_px: the width of the upright original.
        height_px: its height.
        rule: describes how the model's processor resizes the image; only frames in pixels of a resized image use it.

    Raises:
        OutOfFrame: a number is NaN or infinite, or beyond the image by more than 1 % of the side.
        UnresizableImage: the image cannot be resized for the frame.
    """
    frame = CoordinateFrame(frame)
    x, y = (second, first) if frame is CoordinateFrame.GEMINI else (first, second)
    full_x, full_y = _full_scale(frame, width_px, height_px, rule)
    # Dividing and multiplying by the same side could change the last bit of a value that is in pixels already.
    if frame is not CoordinateFrame.PX:
        x, y = x / full_x * width_px, y / full_y * height_px
    return _clip(x, width_px, "x"), _clip(y, height_px, "y")


def from_px(
    frame: CoordinateFrame, x_px: float, y_px: float, width_px: float, height_px: float, rule: Resize = QWEN25_IMAGE
) -> tuple[float, float]:
    """Convert a position in pixels of the original image to the two numbers that a model with this coordinate frame
    would write (y first for ``gemini``). This is the inverse of :func:`to_px`.

    ``x_px`` and ``y_px`` are the position, and ``width_px`` and ``height_px`` the size of the upright original.
    ``rule`` describes how the model's processor resizes the image. It is used only if the coordinates are pixels of the
    resized image. The numbers are not rounded; the caller rounds them to the number of decimals that the model writes.

    Raises:
        OutOfFrame: a number is NaN or infinite, or beyond the image by more than 1 % of the side.
        UnresizableImage: the image cannot be resized for the frame.
    """
    frame = CoordinateFrame(frame)
    full_x, full_y = _full_scale(frame, width_px, height_px, rule)
    x = _clip(x_px, width_px, "x") / width_px * full_x
    y = _clip(y_px, height_px, "y") / height_px * full_y
    return (y, x) if frame is CoordinateFrame.GEMINI else (x, y)


def box_to_px(
    frame: CoordinateFrame,
    corners: tuple[float, float, float, float],
    width_px: float,
    height_px: float,
    rule: Resize = QWEN25_IMAGE,
) -> tuple[float, float, float, float]:
    """Convert a box that a model wrote to ``(x1, y1, x2, y2)``, pixels of the upright original image. In the result,
    ``(x1, y1)`` is the upper left corner.

    ``corners`` holds two opposite corners, as four numbers in the order in which the model wrote them. ``width_px`` and
    ``height_px`` are the size of the upright original. ``rule`` describes how the model's processor resizes the image;
    only frames in pixels of a resized image use it.

    Raises:
        OutOfFrame: a corner is NaN, infinite, or beyond the image by more than 1 % of the side.
        UnresizableImage: the image cannot be resized for the frame.
    """
    ax, ay = to_px(frame, corners[0], corners[1], width_px, height_px, rule)
    bx, by = to_px(frame, corners[2], corners[3], width_px, height_px, rule)
    return min(ax, bx), min(ay, by), max(ax, bx), max(ay, by)


def box_from_px(
    frame: CoordinateFrame,
    box_px: tuple[float, float, float, float],
    width_px: float,
    height_px: float,
    rule: Resize = QWEN25_IMAGE,
) -> tuple[float, float, float, float]:
    """Convert a box in pixels of the original image to the four numbers that a model with this coordinate frame would
    write. This is the inverse of :func:`box_to_px`.

    ``box_px`` is the box as ``(x1, y1, x2, y2)``. ``width_px`` and ``height_px`` are the size of the upright original.
    ``rule`` describes how the model's processor resizes the image; only frames in pixels of a resized image use it.

    Raises:
        OutOfFrame: a corner is NaN, infinite, or beyond the image by more than 1 % of the side.
        UnresizableImage: the image cannot be resized for the frame.
    """
    first = from_px(frame, box_px[0], box_px[1], width_px, height_px, rule)
    second = from_px(frame, box_px[2], box_px[3], width_px, height_px, rule)
    return (*first, *second)


def outside_frame(
    frame: CoordinateFrame,
    first: float,
    second: float,
    width_px: float,
    height_px: float,
    rule: Resize = QWEN25_IMAGE,
) -> str:
    """Return which number of a position is outside the range of the coordinate frame, as a text such as ``x = 163 is
    outside 0 to 100, the range of the frame molmo100``; "" if :func:`to_px` accepts the position.

    The arguments are those of :func:`to_px`. Raises UnresizableImage if the image cannot be resized for the frame.
    """
    frame = CoordinateFrame(frame)
    written = {"y": first, "x": second} if frame is CoordinateFrame.GEMINI else {"x": first, "y": second}
    ends = dict(zip("xy", _full_scale(frame, width_px, height_px, rule), strict=True))
    for axis, value in written.items():
        try:
            _clip(value, ends[axis], axis)
        except OutOfFrame:
            return f"{axis} = {value:g} is outside 0 to {ends[axis]:g}, the range of the frame {frame}"
    return ""


def _full_scale(frame: CoordinateFrame, width_px: float, height_px: float, rule: Resize) -> tuple[float, float]:
    """Return the values that a model with this coordinate frame writes for the right and the bottom edge of an image.

    The image has the size ``width_px`` x ``height_px``. ``rule`` describes how the model's processor resizes it. Only
    the frames in pixels of a resized image use ``rule``. ``qwen2.5-resized-px`` needs a :class:`ResizeRule`, and
    ``claude-resized-px`` a :class:`FitRule`. If ``rule`` has the other class, the frame's default rule is used.
    """
    _check_sides(width_px, height_px)
    if frame is CoordinateFrame.PX:
        return width_px, height_px
    if frame is CoordinateFrame.QWEN25_RESIZED_PX:
        return (rule if isinstance(rule, ResizeRule) else QWEN25_IMAGE).size(width_px, height_px)
    if frame is CoordinateFrame.CLAUDE_RESIZED_PX:
        return (rule if isinstance(rule, FitRule) else CLAUDE_IMAGE).size(width_px, height_px)
    return _FULL_SCALE[frame], _FULL_SCALE[frame]


def _check_sides(width_px: float, height_px: float) -> None:
    """Raise UnresizableImage if a side of an image is not positive, or is not finite."""
    if not (0 < width_px < math.inf and 0 < height_px < math.inf):
        raise UnresizableImage(f"an image of {width_px:g}x{height_px:g} px has no area: both sides must be positive")


def _clip(value_px: float, side_px: float, axis: str) -> float:
    """Return the coordinate ``value_px``, clipped to the range from 0 to ``side_px``.

    ``side_px`` is the side of the image, and ``axis`` is the name of the axis for the error message. Raises OutOfFrame
    if the coordinate is NaN, or outside this range by more than 1 % of the side.
    """
    slack_px = side_px * (CLIP_SHARE + _ROUNDING)
    # Written so that NaN, for which every comparison is false, fails as well.
    if not -slack_px <= value_px <= side_px + slack_px:
        raise OutOfFrame(f"{axis} = {value_px:g} px is outside the image, whose side is {side_px:g} px")
    return min(max(value_px, 0.0), float(side_px))
