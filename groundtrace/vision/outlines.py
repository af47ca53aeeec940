"""Converts a mask to its outline: closed polygons that a page can draw."""

from dataclasses import dataclass

import cv2
import numpy as np

MAX_AREA_PX = 4_000_000
"""A mask is traced at full resolution only if the rectangle around it has at most this number of pixels."""
MAX_EDGES = 200_000
"""The maximum number of pairs of neighbouring pixels with exactly one pixel in the mask. A noisy mask has many of these
pairs."""
MAX_POINTS = 2_000
"""The maximum number of corners in the polygons of one mask."""
_TOLERANCES_HALVES = (1.8, 0.9)
"""Two tolerances: the maximum distance in half pixels between a polygon and the traced edge.

A slanted edge has steps that are one pixel high. The first tolerance removes most of these steps. The second tolerance
is used for a part that the first one would reduce to a line.
"""


@dataclass(frozen=True)
class Outline:
    """Holds the outline of a mask.

    ``rings`` are closed polygons, each as the numbers x1, y1, x2, y2, … in pixels of the mask's array. The top left
    corner of the array is (0, 0), and its bottom right corner is (width, height). A position is in the mask if an odd
    number of polygons contains it, so a hole is a polygon inside another one.

    ``step_px`` is the resolution at which the mask was traced. 1 means full resolution. 4 means that each 4x4 pixels of
    the mask were traced as one pixel; the outline can then be about 4 pixels outside of the mask.
    """

    rings: tuple[tuple[float, ...], ...]
    step_px: int = 1


def outline(pixels: np.ndarray) -> Outline:
    """Return the outline of a mask, a bool array (H, W). An empty mask has no polygons.

    The polygons follow the edges of the pixels, not their centres, so that a line of one pixel has an area. They
    deviate from these edges by less than a pixel. The edge of a slanted line consists of steps; the polygons deviate
    from the line itself by about half a pixel.

    If a mask exceeds :data:`MAX_AREA_PX`, :data:`MAX_EDGES` or :data:`MAX_POINTS`, its resolution is halved until the
    mask is within these limits. A pixel of the smaller mask is set if any of its four pixels is set, so that no part
    vanishes.
    """
    rows, columns = np.flatnonzero(pixels.any(axis=1)), np.flatnonzero(pixels.any(axis=0))
    if not rows.size:
        return Outline(())
    corner, end = np.array([columns[0], rows[0]]), np.array([columns[-1] + 1, rows[-1] + 1])
    part, step_px = pixels[rows[0] : end[1], columns[0] : end[0]], 1
    while (rings := _traced(part)) is None:
        part, step_px = _halved(part), 2 * step_px
    in_px = (np.minimum(ring * (step_px / 2) + corner, end) for ring in rings)
    return Outline(tuple(tuple(ring.ravel().tolist()) for ring in in_px), step_px)


def _traced(pixels: np.ndarray) -> list[np.ndarray] | None:
    """Return the polygons of a mask as arrays (N, 2) in units of half a pixel; None if the mask exceeds a limit.

    The mask (H, W) is first drawn on an array (2H + 1, 2W + 1). In this array, row 2r + 1 holds row r of the mask, row
    2r holds the edge above row r, and row 2r + 2 holds the edge below row r. The columns have the same order. A set
    pixel is drawn together with its edges. Therefore the polygons follow the edges of the pixels. A gap of one pixel
    stays open: if only row r is empty between set rows, the drawn row 2r + 1 is empty.
    """
    edges = np.count_nonzero(pixels[1:] != pixels[:-1]) + np.count_nonzero(pixels[:, 1:] != pixels[:, :-1])
    if pixels.size > MAX_AREA_PX or edges > MAX_EDGES:
        return None
    height, width = pixels.shape
    doubled = np.zeros((2 * height + 1, 2 * width + 1), np.uint8)
    doubled[1::2, 1::2] = pixels
    doubled = cv2.dilate(doubled, np.ones((3, 3), np.uint8))
    contours, _ = cv2.findContours(doubled, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    rings = [_simplified(contour) for contour in contours]
    return None if sum(map(len, rings)) > MAX_POINTS else rings


def _simplified(contour: np.ndarray) -> np.ndarray:
    """Return a contour (N, 1, 2) without corners that hardly change it, as an array (M, 2) with at least 3 corners."""
    simplified = (cv2.approxPolyDP(contour, tolerance, True)[:, 0] for tolerance in _TOLERANCES_HALVES)
    return next((ring for ring in simplified if len(ring) >= 3), contour[:, 0])


def _halved(pixels: np.ndarray) -> np.ndarray:
    """Return the mask at half of its resolution; an odd side is rounded up."""
    height, width = pixels.shape
    even = np.zeros((height + height % 2, width + width % 2), bool)
    even[:height, :width] = pixels
    rows = even[::2] | even[1::2]
    return rows[:, ::2] | rows[:, 1::2]
