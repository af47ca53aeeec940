"""Draws marks (numbered points and boxes) on an image, with captions that show their coordinates.

The paper Argos (section 4.2, Figure 3) shows the teacher model an image with numbered points, each on an object. A
model that reads text well can then quote coordinates that it could not estimate. Therefore every number must be easy to
read at any image size, must be next to its mark, and must hide as little of the image as possible. Coordinates are in
original pixels; an image that is too small for legible text is first enlarged by an integer factor.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from unicodedata import combining

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from groundtrace.vision.samples import Pixels

Floats = NDArray[np.float64]
BoxMark = tuple[int, str, float, float, float, float]
"""A box to draw: its number, its label, then x1, y1, x2, y2 in original pixels."""

MIN_FONT_PX: Final = 14
MAX_FONT_PX: Final = 110
MAX_LABEL_CHARS: Final = 32
_FONT_SHARE: Final = 0.02  # the font size as a share of the square root of the image's area
_CAPTION_SHARE: Final = 0.22  # the share of the image's area above which captions are made smaller
_WANTED_SIDES_PX: Final = (480, 256)  # smaller images are enlarged to this longest and shortest side
_ENLARGED_SIDE_PX: Final = 1600  # the limit of enlarging, unless not even one caption would fit
_ENLARGED_AREA_PX: Final = 24e6
_PLATE: Final = 0.82  # opacity of the white behind a caption
_WHITE, _BLACK = (255, 255, 255), (0, 0, 0)
Colour = tuple[int, int, int]
_COLOURS: Final = ((204, 30, 30), (31, 87, 180), (0, 120, 60), (148, 40, 160), (180, 80, 0), (0, 115, 130))
_MAP_SIDE_PX: Final = 256  # the longest side of the reduced image in which empty background is searched
_RINGS: Final = (0.0, 0.6, 1.4, 2.5, 4.0, 6.0)  # tried distances of captions from their marks, in caption heights
_GRID: Final = (8, 14)  # columns and rows of a grid of tried caption positions over the image
_OVER_CAPTION, _OVER_MARK, _OVER_BUSY, _OVER_BOX, _PER_HEIGHT_AWAY = 60.0, 40.0, 2.5, 0.8, 0.35


@dataclass(frozen=True)
class OverlayPoint:
    """Holds a point to draw on an image. ``x`` and ``y`` are in original pixels. ``number`` and ``label`` (the name of
    the thing) are written beside the point, in the caption ``number (x, y) label``.
    """

    number: int
    label: str
    x: float
    y: float


def encode_png(pixels: Pixels) -> bytes:
    """Return an image as the bytes of a PNG file. ``pixels`` is ``(H, W, 3)`` uint8 RGB.

    Equal pixels give equal bytes. The compression is fast, and so the file is larger than it could be.
    """
    settings = [cv2.IMWRITE_PNG_COMPRESSION, 1, cv2.IMWRITE_PNG_FILTER, cv2.IMWRITE_PNG_FILTER_SUB]
    settings += [cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_DEFAULT]
    _, data = cv2.imencode(".png", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), settings)
    return data.tobytes()


def draw_overlay(pixels: Pixels, points: Sequence[OverlayPoint], boxes: Sequence[BoxMark] = ()) -> Pixels:
    """Return a copy of the image with points, boxes and their captions drawn on it.

    ``pixels`` is ``(H, W, 3)`` uint8 RGB. The coordinates of ``points`` and ``boxes`` are in pixels of this image;
    those outside the image are drawn on its border. The result is ``(kH, kW, 3)`` uint8 RGB, where ``k`` is the integer
    factor by which the image is enlarged. A small image is enlarged, so that the captions are legible; for a larger
    image, and if there is nothing to draw, ``k`` is 1.

    The caption of a point is ``number (x, y) label``, and that of a box is ``number [x1, y1, x2, y2] label``. A label
    that the built-in font cannot write is left out. All labels are left out if they do not fit beside the coordinates.
    The same input gives the same pixels. Raises :class:`ValueError` for coordinates that are not finite.
    """
    corners = np.array([(p.x, p.y) * 2 for p in points] + [b[2:] for b in boxes], np.float64).reshape(-1, 4)
    if not np.isfinite(corners).all():
        raise ValueError("the coordinates of the points and boxes to draw must be finite numbers")
    if not len(corners):
        return pixels.copy()
    height, width = pixels.shape[:2]
    decimals = 1 if max(height, width) < 100 else 0
    written = [[_written(v, decimals) for v in row] for row in corners.tolist()]
    bare = [f"{p.number} ({', '.join(row[:2])})" for p, row in zip(points, written, strict=False)]
    bare += [f"{b[0]} [{', '.join(row)}]" for b, row in zip(boxes, written[len(points) :], strict=True)]
    labels = [_writable(label) for label in [p.label for p in points] + [b[1] for b in boxes]]
    scale, font_px, captions = _fit(bare, labels, width, height)
    canvas: Pixels = pixels.copy()
    if scale > 1:
        size = (width * scale, height * scale)
        canvas = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_NEAREST), np.uint8)
    # Our coordinates start at the edge of the first pixel, OpenCV's at its centre.
    edge = np.array([width, height, width, height]) * scale - 1
    # The number determines the colour, so that an object keeps its colour from frame to frame.
    numbers = [point.number - 1 for point in points] + list(range(len(points), len(captions)))
    colours = [_COLOURS[number % len(_COLOURS)] for number in numbers]
    _draw(canvas, np.clip(corners * scale - 0.5, 0, edge), len(points), captions, colours, font_px)
    return canvas


def _draw(
    canvas: Pixels, targets: Floats, n_points: int, captions: Sequence[str], colours: Sequence[Colour], font_px: int
) -> None:
    """Draw points, boxes and captions onto the canvas, in this order: boxes, connecting lines, captions, points.

    A line connects a caption with its point or box if they are not close together. ``captions`` and ``colours`` hold
    the caption and the colour of each point and box. ``font_px`` is the font size in pixels. ``targets`` is ``(n, 4)``:
    x1, y1, x2, y2 of each point and box on the canvas. The first ``n_points`` of them are points.
    """
    radius, stroke, pad = max(3, round(font_px * 0.28)), max(1, round(font_px / 9)), max(3, font_px // 5)
    for (x1, y1, x2, y2), colour in zip(targets[n_points:].round().astype(int), colours[n_points:], strict=True):
        cv2.rectangle(canvas, (x1, y1), (x2, y2), _WHITE, stroke + 2)
        cv2.rectangle(canvas, (x1, y1), (x2, y2), colour, stroke)
    inks = [lettering(text, font_px, pad) for text in captions]
    sizes = np.array([ink.shape[1::-1] for ink, _ in inks], np.float64)
    rects = _place(canvas, targets, n_points, sizes, radius + stroke + 1.0)
    for target, rect, colour in zip(targets, rects, colours, strict=True):
        start = np.clip((rect[:2] + rect[2:]) / 2, target[:2], target[2:])
        end = np.clip(start, rect[:2], rect[2:])
        if np.hypot(*(end - start)) > radius + 0.5 * font_px:
            ends = [(round(x * 8), round(y * 8)) for x, y in (start, end)]
            cv2.line(canvas, ends[0], ends[1], _WHITE, stroke + 2, cv2.LINE_AA, 3)
            cv2.line(canvas, ends[0], ends[1], colour, stroke, cv2.LINE_AA, 3)
    for (ink, chip_px), (x, y, _, _), colour in zip(inks, rects.astype(int), colours, strict=True):
        region = canvas[y : y + ink.shape[0], x : x + ink.shape[1]]
        ink = ink[: region.shape[0], : region.shape[1], None].astype(np.uint16)
        plate = cv2.addWeighted(region, 1 - _PLATE, np.full_like(region, 255), _PLATE, 0)
        plate[:, :chip_px] = colour
        letters = np.zeros_like(region)
        letters[:, :chip_px] = 255  # the number is white on the mark's colour
        region[...] = (plate * (255 - ink) + letters * ink + 127) // 255
    for (x, y, _, _), colour in zip(targets[:n_points], colours[:n_points], strict=True):
        centre = (round(x * 8), round(y * 8))
        for r, c in ((radius + stroke + 1, _BLACK), (radius + stroke, _WHITE), (radius, colour)):
            cv2.circle(canvas, centre, r * 8, c, cv2.FILLED, cv2.LINE_AA, 3)


def _written(value: float, decimals: int) -> str:
    """Return a coordinate as text with ``decimals`` decimals, without a trailing ``.0``. Negative zero becomes 0."""
    return f"{round(value, decimals) + 0.0:.{decimals}f}".removesuffix(".0")


def _fit(bare: Sequence[str], labels: Sequence[str], width: int, height: int) -> tuple[int, int, list[str]]:
    """Return the integer factor by which the image is enlarged, the font size in pixels, and the captions.

    ``bare`` holds the captions without their labels, such as "3 (120, 45)". ``labels`` holds the label of each caption,
    which is the name of the object at the marked place ("" if it has no label). Labels are shortened or left out so
    that the captions fit. ``width`` and ``height`` are the size of the image in pixels.
    """
    full = [f"{text} {label}".rstrip() for text, label in zip(bare, labels, strict=True)]

    def area_px2(font_px: int) -> float:
        return sum(_width_px(t, font_px) + font_px for t in full) * 1.4 * font_px

    long_px, short_px, area = max(width, height), min(width, height), width * height
    wanted = max(_WANTED_SIDES_PX[0] / long_px, _WANTED_SIDES_PX[1] / short_px)
    wanted = max(wanted, math.sqrt(area_px2(MIN_FONT_PX) / _CAPTION_SHARE / area))
    widest = max(_width_px(t, MIN_FONT_PX) for t in bare) + MIN_FONT_PX
    least = max(widest / width, 2.2 * MIN_FONT_PX / height)
    scale = math.ceil(max(least, min(wanted, max(1, _ENLARGED_SIDE_PX // long_px))))
    scale = max(1, min(scale, math.isqrt(int(_ENLARGED_AREA_PX / area))))
    area, side = scale**2 * area, scale * width
    font_px = max(MIN_FONT_PX, min(MAX_FONT_PX, round(_FONT_SHARE * math.sqrt(area))))
    while font_px > MIN_FONT_PX and (
        max(_width_px(t, font_px) for t in bare) + font_px > side or area_px2(font_px) > _CAPTION_SHARE * area
    ):
        font_px = max(MIN_FONT_PX, font_px - max(1, font_px // 12))
    if area_px2(font_px) > 1.6 * _CAPTION_SHARE * area:
        return scale, font_px, list(bare)
    room = 0.6 * side - font_px
    return scale, font_px, [_cut(f, len(b), room, font_px) for f, b in zip(full, bare, strict=True)]


def _cut(text: str, keep: int, room_px: float, font_px: int) -> str:
    """Return the text, truncated so that it is at most ``room_px`` pixels wide at the font size ``font_px``.

    There is one exception: the first ``keep`` characters are never removed, even if they are wider.
    """
    end = len(text) if _width_px(text, font_px) > room_px else 0
    while end > keep + 2 and _width_px(text[:end] + "…", font_px) > room_px:
        end -= 1
    return text if end == 0 else text[:end].rstrip() + "…" if end > keep + 2 else text[:keep]


def _writable(label: str) -> str:
    """Return the label on one line, with limited length and without accents, which the built-in font lacks.

    Returns "" if the font lacks one of the remaining characters.
    """
    bare = "".join(c for c in unicodedata.normalize("NFKD", label[: 4 * MAX_LABEL_CHARS]) if not combining(c))
    line = " ".join(bare.split())
    line = line if len(line) <= MAX_LABEL_CHARS else line[: MAX_LABEL_CHARS - 1].rstrip() + "…"
    return line if all(_glyph(c, MIN_FONT_PX) is not None for c in line) else ""


@lru_cache(maxsize=32)
def _font(font_px: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(font_px)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise TypeError(
            "Pillow was built without FreeType, but overlays need its scalable font: install a Pillow with FreeType"
        )
    # The basic layout engine is always available; the other needs a system library and spaces letters differently.
    return font.font_variant(layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=4096)
def _glyph(char: str, font_px: int) -> tuple[NDArray[np.uint8], int, int, int] | None:
    """Return the mask (image) of a character, its left offset, its top offset, and its advance, all three in pixels.

    A character begins at a point on the baseline of the text. The offsets lead from this point to the top-left corner
    of the mask. The advance is the distance from this point to that of the next character. Returns None if the font
    lacks the character. The results are cached for two reasons: FreeType needs 0.3 ms to draw a caption, and most
    captions have the same characters (digits).
    """
    bitmap, left, top = _bitmap(char, font_px)
    if not char.isprintable() or np.array_equal(bitmap, _bitmap("\uffff", font_px)[0]):
        return None
    return bitmap, left, top, round(_font(font_px).getlength(char))


def _bitmap(char: str, font_px: int) -> tuple[NDArray[np.uint8], int, int]:
    left, top, right, bottom = (round(v) for v in _font(font_px).getbbox(char, anchor="ls"))
    image = Image.new("L", (right - left, bottom - top))
    ImageDraw.Draw(image).text((-left, -top), char, fill=255, font=_font(font_px), anchor="ls")
    return np.asarray(image), left, top


def _width_px(text: str, font_px: int) -> int:
    return sum(glyph[3] for c in text if (glyph := _glyph(c, font_px)) is not None)


def lettering(text: str, font_px: int, pad: int) -> tuple[NDArray[np.uint8], int]:
    """Draw a caption as a mask, and return the mask with the width in pixels of its first part.

    ``text`` is the caption, e.g. "3 (120, 45) cup". Its first part ends at the first space; in a caption of a point or
    box, this is the number. ``font_px`` is the font size in pixels. ``pad`` is the padding in pixels to the left and
    right of each of the two parts. The mask is a uint8 array ``(h, w)`` that holds the opacity of the letters, from 0
    to 255.
    """
    number, _, rest = text.partition(" ")
    chip_px = _width_px(number, font_px) + 2 * pad
    out = np.zeros((math.ceil(1.24 * font_px), chip_px + _width_px(rest, font_px) + 2 * pad), np.uint8)
    for part, pen in ((number, pad), (rest, chip_px + pad)):
        for mask, left, top, advance in filter(None, (_glyph(c, font_px) for c in part)):
            y, x = max(0, font_px - font_px // 8 + top), max(0, pen + left)
            window = out[y : y + mask.shape[0], x : x + mask.shape[1]]
            np.maximum(window, mask[: window.shape[0], : window.shape[1]], out=window)
            pen += advance
    return out, chip_px


def _place(canvas: Pixels, targets: Floats, n_points: int, sizes: Floats, radius_px: float) -> Floats:
    """Return a rectangle (x1, y1, x2, y2) for each caption, near the point or box (target) that it describes.

    ``targets`` is ``(n, 4)``: x1, y1, x2, y2 of each target. The first ``n_points`` targets are points, which are drawn
    as discs with the radius ``radius_px``. ``sizes`` is ``(n, 2)``: the width and height of each caption.

    The captions are placed one after the other, in the given order. Each caption has about two hundred possible
    positions, around its target and all over the image, and gets the one with the lowest cost. The cost is high where a
    caption hides points, boxes, other captions or busy parts of the image. All captions are inside the canvas if they
    fit.
    """
    limits = np.array(canvas.shape[1::-1], np.float64)
    gaps = np.where(np.arange(len(targets)) < n_points, radius_px + 2, 2.0)
    corners = _candidates(targets, sizes, gaps, limits)
    corners = np.clip(corners, 0, np.maximum(0, limits - sizes)[:, None]).round()
    rects = np.concatenate([corners, corners + sizes[:, None]], 2)
    away = np.maximum(targets[:, None, :2] - rects[..., 2:], rects[..., :2] - targets[:, None, 2:]).clip(0)
    costs = _PER_HEIGHT_AWAY * np.hypot(away[..., 0], away[..., 1]) / sizes[:, None, 1]
    costs += _OVER_BUSY * _mean_busy(_busy_integral(canvas), rects / np.tile(limits, 2))
    discs = targets[:n_points] + np.array([-1, -1, 1, 1]) * radius_px
    obstacles = np.vstack([discs, targets[n_points:], np.zeros_like(targets)])  # the last are filled in below
    prices = np.repeat([_OVER_MARK, _OVER_BOX, _OVER_CAPTION], [n_points, len(targets) - n_points, len(targets)])
    placed = obstacles[len(targets) :]
    for index, (cost, choices) in enumerate(zip(costs, rects, strict=True)):
        per_px = prices / sizes[index].prod()
        per_px[:n_points] = _OVER_MARK / (2 * radius_px) ** 2
        until = len(targets) + index
        cost += _overlaps(choices, obstacles[:until]) @ per_px[:until]
        placed[index] = choices[int(cost.argmin())]
    return placed


def _candidates(targets: Floats, sizes: Floats, gaps: Floats, limits: Floats) -> Floats:
    """Return ``c`` possible top-left corners for each of ``n`` captions, as an array ``(n, c, 2)``.

    The corners are around the caption's target (the point or box that it describes), inside the target, and on a grid
    over the whole image. ``targets`` and ``sizes`` are those of :func:`_place`. ``gaps`` holds the smallest gap
    between each target and a caption beside it, above it or below it. ``limits`` is the width and height of the image.
    All lengths are in pixels.
    """
    (x1, y1, x2, y2), (w, h) = targets.T[..., None], sizes.T[..., None]
    d = gaps[:, None] + np.array(_RINGS) * h
    near, middle, level = 0.6 * d, (x1 + x2 - w) / 2 + 0 * d, (y1 + y2 - h) / 2 + 0 * d
    sides = [(x2 + d, level), (x1 - d - w, level), (x1 + 2, y1 + 2)]
    for y, y_near in ((y1 - d - h, y1 - near - h), (y2 + d, y2 + near)):
        sides += [(middle, y), (x1 - 2 + 0 * d, y), (x2 + 2 - w + 0 * d, y)]
        sides += [(x2 + near, y_near), (x1 - near - w, y_near)]
    columns, rows = (np.linspace(0, 1, n) * side for n, side in zip(_GRID, limits, strict=True))
    grid = np.stack(np.meshgrid(columns, rows), -1).reshape(1, -1, 2) - sizes[:, None] / 2
    return np.hstack([*(np.stack(side, 2) for side in sides), grid])


def _overlaps(rects: Floats, others: Floats) -> Floats:
    """Return the area that each rectangle of ``rects`` has in common with each rectangle of ``others``.

    The result is ``(len(rects), len(others))``, in square pixels.
    """
    (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) = rects.T[..., None], others.T
    wide = np.minimum(ax2, bx2) - np.maximum(ax1, bx1)
    high = np.minimum(ay2, by2) - np.maximum(ay1, by1)
    return wide.clip(0) * high.clip(0)


def _busy_integral(canvas: Pixels) -> Floats:
    """Return sums of visual content, from which :func:`_mean_busy` computes the mean in any rectangle.

    Each pixel of a reduced copy of the image has a value of visual content. The value is high if the pixel differs from
    the most frequent colour, or if it is on an edge. The result is the integral image of these values.
    """
    step = -(-max(canvas.shape[:2]) // _MAP_SIDE_PX)
    small = np.ascontiguousarray(canvas[::step, ::step])
    red, green, blue = (channel.astype(np.int16) for channel in cv2.split(small))
    codes = ((red >> 4) * 256 + (green & 0xF0) + (blue >> 4)).ravel()
    ground = small.reshape(-1, 3)[np.argmax(codes == np.bincount(codes).argmax())].astype(np.float64)
    unlike = cv2.inRange(small, ground - 24, ground + 24) == 0
    edges = np.abs(np.diff(green, axis=0, prepend=green[:1])) + np.abs(np.diff(green, axis=1, prepend=green[:, :1]))
    return cv2.integral(unlike * 0.6 + np.minimum(edges / 96, 1.0))


def _mean_busy(integral: Floats, unit_rects: Floats) -> Floats:
    """Return, for each rectangle, the mean of the visual content (objects and edges) in it.

    ``integral`` is the integral image of the visual content, from :func:`_busy_integral`. The rectangles are x1, y1,
    x2, y2 in shares (0 to 1) of the image's sides.
    """
    ends = np.array(integral.shape[::-1]) - 1
    low = np.minimum((unit_rects[..., :2] * ends).astype(int), ends - 1)
    high = np.clip((unit_rects[..., 2:] * ends).round().astype(int), low + 1, ends)
    x1, y1, x2, y2 = low[..., 0], low[..., 1], high[..., 0], high[..., 1]
    total = integral[y2, x2] - integral[y1, x2] - integral[y2, x1] + integral[y1, x1]
    return total / ((x2 - x1) * (y2 - y1))
