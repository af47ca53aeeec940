"""Finds the kind of a filled shape (circle, square, …), by comparing its area with that of shapes that enclose it."""

import math

import cv2
import numpy as np
from numpy.typing import NDArray

_TINY_PX = 12


def outer_contour(mask: NDArray[np.uint8], scale: int) -> NDArray[np.int32] | None:
    """Return the longest outer contour of a mask of 0 and 1; None for an empty mask.

    The contour is traced on a copy of the mask that is enlarged `scale` times, with a border of one pixel.
    """
    padded = cv2.copyMakeBorder(mask, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    if scale > 1:
        large = cv2.resize(padded * np.uint8(255), None, fx=scale, fy=scale, interpolation=cv2.INTER_LINEAR)
        padded = cv2.threshold(large, 127, 1, cv2.THRESH_BINARY)[1]
    contours, _ = cv2.findContours(padded, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return max(contours, key=len) if contours else None  # pyright: ignore[reportReturnType]


def enlargement(width_px: int, height_px: int) -> int:
    """Return the factor (4, 2 or 1) by which a mask of this size is enlarged before its contour is traced.

    Without enlargement, small masks would lose half a pixel on each side.
    """
    side = max(width_px, height_px)
    return 4 if side < 64 else 2 if side < 160 else 1


def kind_of(mask: NDArray[np.uint8]) -> str | None:
    """Find the kind of a filled shape, such as "circle". `mask` is uint8 (h, w) of 0 and 1, cropped to the shape's box.

    Returns a word of `labels.KINDS`; None if no kind fits. The kind is decided mainly by ratios: the area of the mask
    is divided by the area of the smallest rectangle, circle and triangle that enclose the mask. For example, the ratio
    for the enclosing rectangle is 1 if the mask is an ideal rectangle, pi/4 for a circle, and 1/2 for a triangle.
    """
    height, width = mask.shape
    filled = float(np.count_nonzero(mask))
    if filled >= 0.93 * width * height:
        return _box_kind(width, height)
    contour = outer_contour(mask, enlargement(width, height))
    if contour is None or len(contour) < 3:
        return None
    hull = np.asarray(cv2.convexHull(contour), np.int32)
    area, hull_area = cv2.contourArea(contour), cv2.contourArea(hull)
    if hull_area <= 0 or area < 0.88 * hull_area:
        return None
    (rect_w, rect_h), angle = cv2.minAreaRect(hull)[1:]
    if rect_w <= 0 or rect_h <= 0:
        return None
    fill = area / (rect_w * rect_h)
    if fill > 0.91:
        slanted = 25 < angle % 90 < 65
        kind = _box_kind(rect_w, rect_h)
        return "diamond" if slanted and kind == "square" else kind
    if max(width, height) <= _TINY_PX:
        return _tiny_kind(fill, filled / (width * height))
    return _curved_kind(hull, area, fill, max(rect_w, rect_h) / min(rect_w, rect_h))


def _box_kind(width: float, height: float) -> str:
    """Return "square" if the two sides are nearly equal, else "rectangle".

    The sides are nearly equal if they differ by at most one pixel, or by at most 12 % of the longer side.
    """
    longer, shorter = max(width, height), min(width, height)
    return "square" if longer - shorter <= max(1.0, 0.12 * longer) else "rectangle"


def _tiny_kind(fill: float, box_fill: float) -> str | None:
    """Return the kind of a very small shape, whose corners cannot be counted: square, circle or triangle, or None.

    The result is None if none of the three fits. ``fill`` is the share of the smallest enclosing rectangle, at any
    angle, that the shape covers. ``box_fill`` is the share of the axis-aligned box that the shape covers.
    """
    if box_fill > 0.87:
        return "square"
    if fill > 0.7 and box_fill > 0.66:
        return "circle"
    return "triangle" if 0.4 < box_fill < 0.66 or fill < 0.7 else None


def _curved_kind(hull: NDArray[np.int32], area: float, fill: float, aspect: float) -> str | None:
    """Return triangle, circle, ellipse, pentagon or hexagon for a convex outline; None if none of them fits.

    ``hull`` is the convex hull of the outline, and ``area`` is the area inside the outline. ``fill`` is this area
    divided by the area of the smallest enclosing rectangle, at any angle. ``aspect`` is the longer side of this
    rectangle divided by the shorter side.
    """
    triangle_area, _ = cv2.minEnclosingTriangle(hull)
    if fill < 0.66 and triangle_area > 0 and area / triangle_area > 0.8:
        return "triangle"
    radius = cv2.minEnclosingCircle(hull)[1]
    roundness = area / (math.pi * radius * radius)
    corners = len(cv2.approxPolyDP(hull, 0.035 * cv2.arcLength(hull, True), True))
    if corners == 5 and 0.66 < roundness < 0.84:
        return "pentagon"
    if corners == 6 and 0.74 < roundness < 0.87:
        return "hexagon"
    if roundness > 0.86:
        return "circle"
    return "ellipse" if aspect > 1.15 and abs(fill - math.pi / 4) < 0.04 else None
