"""Finds shapes by their flat colour. The embedded engine uses this method as pointer, teacher and policy.

An image of a few flat colours is divided into components of one colour; each component is classified by its outline,
and touching objects of one colour are cut apart. `by_edges` is an independent method that shares none of these steps.
"""

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from groundtrace.embedded.sight.colours import Palette, find_palette, name_colour
from groundtrace.embedded.sight.fits import kind_of
from groundtrace.embedded.sight.shapes import FoundShape
from groundtrace.embedded.sight.split import split_stack, split_touching

MAX_PX = 2_000_000
_MIN_FLAT_SHARE = 0.86
_MAX_SHAPES = 120
_MIN_AREA_SHARE = 4e-4
_MAX_ODD_AREA_SHARE = 0.15
_MAX_ODD_COUNT_SHARE = 0.3
_MAX_LOST_SHARE = 0.35
_MIN_SIDE_PX = 8
_MAX_CUTS = 12
_MAX_CUT_PX = 40_000


def shrink_to_limit(image: NDArray[np.uint8], max_px: int = MAX_PX) -> tuple[NDArray[np.uint8], float]:
    """Scale an image down to at most `max_px` pixels in all. Return the image and the scale.

    The scale is new side / old side. A smaller image is returned unchanged, with scale 1.
    """
    height, width = image.shape[:2]
    scale = min(1.0, math.sqrt(max_px / (height * width)))
    if scale == 1.0:
        return image, 1.0
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8), scale


def find_shapes(image: NDArray[np.uint8]) -> list[FoundShape] | None:
    """Find the coloured shapes of an RGB image, uint8 (H, W, 3), sorted from top to bottom and then from left to right.

    Returns None ("cannot read") if the image does not consist of flat shapes on a flat background, for example if it is
    a photograph, a scan, text or a line drawing. An empty list means that a readable image has no shapes. Images above
    `MAX_PX` pixels are scaled down; boxes and points are in pixels of the given image.
    """
    small, scale = shrink_to_limit(image)
    height, width = small.shape[:2]
    if min(height, width) < _MIN_SIDE_PX:
        return None
    min_px = max(3, round(_MIN_AREA_SHARE * height * width))
    palette = find_palette(small, min_px)
    if not len(palette.centres) or palette.flat_share < _MIN_FLAT_SHARE:
        return None
    parts = _components(palette, min_px)
    if parts is None:
        return None
    shapes = _classified(parts, palette)
    if shapes is None or (not shapes and not _is_blank(palette)):
        return None
    shapes.sort(key=lambda shape: (shape.box_px[1], shape.box_px[0]))
    return shapes if scale == 1.0 else [shape.scaled(1 / scale) for shape in shapes]


def _is_blank(palette: Palette) -> bool:
    """Return whether an image in which no shape was found is blank: it has only a background and bars.

    A bar is a row or column of pixels of which at least 99 % have another flat colour than the background. If 0.05 % or
    more of the pixels are neither background nor in a bar, the image is not blank: these pixels may be text that is too
    small to be found as shapes.
    """
    whole = palette.index.shape
    background = int(palette.shares.argmax())
    other = (palette.index != background) & (palette.index >= 0)
    across = other.mean(0) >= 0.99
    down = other.mean(1) >= 0.99
    rest = (palette.index != background) & ~across[None, :] & ~down[:, None]
    return int(np.count_nonzero(rest)) < 5e-4 * whole[0] * whole[1]


class _Part:
    """Holds one connected component: a group of adjacent pixels of the same colour.

    `colour` is the index of the colour in the palette. `x` and `y` are the top-left corner of the component's box.
    `mask` is the component's mask, cropped to this box.
    """

    __slots__ = ("colour", "mask", "x", "y")

    def __init__(self, colour: int, x: int, y: int, mask: NDArray[np.uint8]) -> None:
        self.colour, self.x, self.y, self.mask = colour, x, y, mask

    def cropped(self, mask: NDArray[np.uint8]) -> "_Part":
        """Return the piece of this component that `mask` selects. The piece's mask is cropped to the piece's box.

        `mask` has the size of this component's mask.
        """
        x, y, w, h = cv2.boundingRect(mask)
        return _Part(self.colour, self.x + x, self.y + y, mask[y : y + h, x : x + w])


def _components(palette: Palette, min_px: int) -> list[_Part] | None:
    """Return the connected components (groups of adjacent pixels of one colour), without the background.

    Some components cannot be shapes: tiny dots, thin lines and frames around the whole image. They are left out. If too
    many of the drawn pixels are in such components, or if there are too many components, the result is None. Bars
    across the whole image are also left out: they separate panels and are not objects.
    """
    height, width = palette.index.shape
    background = int(palette.shares.argmax())
    parts: list[_Part] = []
    drawn_px = lost_px = 0
    for colour in range(len(palette.centres)):
        if colour == background:
            continue
        mask = (palette.index == colour).view(np.uint8)
        x0, y0, span_w, span_h = cv2.boundingRect(mask)
        if not span_w:
            continue
        mask = mask[y0 : y0 + span_h, x0 : x0 + span_w]
        count, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=4)
        kept = 1 + np.flatnonzero(stats[1:, cv2.CC_STAT_AREA] >= min_px)
        if count - 1 > 4 * _MAX_SHAPES + 8 * len(kept) or len(parts) + len(kept) > _MAX_SHAPES:
            return None
        all_px = int(stats[1:, cv2.CC_STAT_AREA].sum())
        drawn_px += all_px
        lost_px += all_px - int(stats[kept, cv2.CC_STAT_AREA].sum())
        for row in kept.tolist():
            x, y, w, h, area = (int(v) for v in stats[row])
            spans = (h >= height and w < width) or (w >= width and h < height)
            if spans and area > 0.85 * w * h and 4 * min(w, h) > 0.1 * min(width, height):
                drawn_px -= area
                continue
            if (w >= width and h >= height) or _is_fringe(w, h, area):
                lost_px += area
                continue
            parts.append(_Part(colour, x0 + x, y0 + y, (labels[y : y + h, x : x + w] == row).view(np.uint8)))
    return None if lost_px > max(_MAX_LOST_SHARE * drawn_px, 2 * min_px) else parts


def _is_fringe(width: int, height: int, area: int) -> bool:
    """Return whether a component is probably the thin rim that blurring leaves around another object.

    `width` and `height` are the sides of the component's box, and `area` is the number of the component's pixels. The
    result is True if a side of the box is at most one pixel long. It is also True if the component covers less than a
    quarter of its box, and has fewer than 40 pixels.
    """
    return min(width, height) <= 1 or (area < 0.25 * min(width, height) * max(width, height) and area < 40)


def _classified(parts: list[_Part], palette: Palette) -> list[FoundShape] | None:
    """Return the components (groups of adjacent pixels of one colour) as shapes. Joined shapes are cut apart.

    Returns None if too many components fit no kind of shape, such as circle or square.
    """
    names = [name_colour((float(c[0]), float(c[1]), float(c[2]))) for c in palette.centres]
    kinds = [_kind_or_outline(part) for part in parts]
    sides_px = [float(min(p.mask.shape)) for p, kind in zip(parts, kinds, strict=True) if kind == "square"]
    shapes: list[FoundShape] = []
    odd_px = odd = 0
    # An image with many unclassified components is a drawing or text: cutting all of them would only take time.
    cut_limit = min(_MAX_CUTS, 2 + 2 * (len(kinds) - kinds.count(None)))
    cuttable = kinds.count(None) <= cut_limit
    for part, kind in zip(parts, kinds, strict=True):
        pieces = None
        if kind == "rectangle":
            pieces = split_stack(part.mask, sides_px)
        elif kind is None and cuttable and _may_be_joined(part):
            pieces = split_touching(part.mask)
        if pieces is not None:
            cut = [part.cropped(piece) for piece in pieces]
            shapes += [_shape(p, kind_of(p.mask) or "square", names) for p in cut]
        elif kind is not None:
            shapes.append(_shape(part, kind, names))
        else:
            odd += 1
            odd_px += int(np.count_nonzero(part.mask))
    seen_px = odd_px + sum(shape.area_px for shape in shapes)
    if odd_px > _MAX_ODD_AREA_SHARE * seen_px or odd > _MAX_ODD_COUNT_SHARE * (odd + len(shapes)):
        return None
    return shapes


def _may_be_joined(part: _Part) -> bool:
    """Return whether a component is solid and small enough to be a few touching shapes."""
    own_px = int(np.count_nonzero(part.mask))
    return min(part.mask.shape) >= 4 and own_px > 0.3 * part.mask.size and part.mask.size <= _MAX_CUT_PX


def _kind_or_outline(part: _Part) -> str | None:
    """Return the kind of a component, such as "square"; None if no kind fits.

    A component is an outline if it covers at most 40 % of its box, its holes are larger than the component itself, and
    its box has no side below 8 px. An outline with one large hole is classified as if the hole were filled. For an
    outline with several large holes, the result is None: it consists of several outlines that cross or share a side.
    """
    own_px = int(np.count_nonzero(part.mask))
    if own_px > 0.4 * part.mask.size or min(part.mask.shape) < 8:
        return kind_of(part.mask)
    contours, _ = cv2.findContours(part.mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled = np.zeros_like(part.mask)
    cv2.drawContours(filled, contours, -1, 1, cv2.FILLED)
    hole_px = int(np.count_nonzero(filled)) - own_px
    if hole_px <= own_px:
        return kind_of(part.mask)
    stats = cv2.connectedComponentsWithStats(filled - part.mask, connectivity=4)[2]
    return kind_of(filled) if stats[1:, cv2.CC_STAT_AREA].max() > 0.9 * hole_px else None


def _shape(part: _Part, kind: str, names: list[str]) -> FoundShape:
    """Return the component as a shape of the kind `kind`. `names` are the names of the palette's colours.

    The point of the shape is the centroid of the component. If the centroid is not inside the component, or is too near
    its edge, the point is the innermost pixel of the component.
    """
    height, width = part.mask.shape
    moments = cv2.moments(part.mask, binaryImage=True)
    own_px = moments["m00"]
    row, column = int(moments["m01"] / own_px + 0.5), int(moments["m10"] / own_px + 0.5)
    inner = part.mask[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
    if not inner.all():
        padded = cv2.copyMakeBorder(part.mask, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
        depth = cv2.distanceTransform(padded, cv2.DIST_L2, 3)[1:-1, 1:-1]
        row, column = divmod(int(depth.argmax()), width)
    box_px = (float(part.x), float(part.y), float(part.x + width), float(part.y + height))
    return FoundShape(names[part.colour], kind, box_px, (part.x + column + 0.5, part.y + row + 0.5), own_px)
