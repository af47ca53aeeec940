"""Finds shapes by their edges. The embedded engine uses this method as detector; it is independent of `by_colour`.

An edge map shows where the value of a colour channel changes strongly. Regions enclosed by edges are the candidates.
Ideal outlines (circle, square, …) are fitted to the image gradients around a candidate, in position and direction. The
candidate gets the kind of the outline that fits best. Its colour is determined last, from the pixels in the region.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from groundtrace.embedded.sight.colours import name_colour
from groundtrace.embedded.sight.labels import read_label
from groundtrace.embedded.sight.shapes import Box
from groundtrace.embedded.sight.templates import templates

MAX_PX = 1_000_000
_ENLARGE_BELOW_PX = 120_000
_MIN_STEP = 90.0
_MIN_FIT = 0.72
_MAX_REGIONS = 200
_EDGE_PX = 2.0
_SQUARE_ASPECT = 1.13


@dataclass(frozen=True, slots=True)
class Detection:
    """Holds a detected object: its class, its box and the confidence of the detection.

    `label` is the class, such as "red circle". `box_px` is (x1, y1, x2, y2) in pixels, with exclusive right and bottom
    sides. `confidence` in [0, 1] is the share of the ideal outline that the image gradients match in position and
    direction.
    """

    label: str
    box_px: Box
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class _Gradients:
    """Holds, for each pixel, the gradient of the colour channel that changes most there: gx and gy, float32 (H, W).

    `image` is the image, scaled to the working size. `scale` is the side of `image` / the side of the original image.
    """

    gx: NDArray[np.float32]
    gy: NDArray[np.float32]
    image: NDArray[np.uint8]
    scale: float


def detect(image: NDArray[np.uint8], label: str) -> list[Detection] | None:
    """Find the objects of one class in an RGB image, uint8 (H, W, 3). The most confident detection comes first.

    `label` is a colour, a shape or both: "yellow square", "circle", "blue object". Returns None if a word of the label
    is unknown; an empty list means that no such object was found.
    """
    noun = read_label(label)
    if noun is None:
        return None
    found = [d for d in detect_all(image) if noun.allows(*d.label.split(" ", 1))]
    return sorted(found, key=lambda d: -d.confidence)


def detect_all(image: NDArray[np.uint8]) -> list[Detection]:
    """Find all shapes in an RGB image, uint8 (H, W, 3), by their edges.

    Each label is the shape's colour and kind, such as "red circle".
    """
    gradients = _gradients(image)
    boxes, masks = _enclosed_regions(gradients)
    if not boxes:
        return []
    fits = _outline_fits(gradients, np.asarray(boxes, np.float64))
    names = templates().kinds
    found: list[Detection] = []
    for box, mask, fit in zip(boxes, masks, fits, strict=True):
        best = int(fit.argmax())
        if fit[best] < _MIN_FIT:
            continue
        x1, y1, x2, y2 = (value / gradients.scale for value in box)
        kind = _stretched(names[best], x2 - x1, y2 - y1)
        colour = _inner_colour(gradients.image, box, mask)
        found.append(Detection(f"{colour} {kind}", (x1, y1, x2, y2), round(float(fit[best]), 4)))
    return found


def _stretched(kind: str, width: float, height: float) -> str:
    """Return the kind's name, adapted to the shape of the box.

    A square becomes a rectangle, and a circle becomes an ellipse, if the box is not square.
    """
    aspect = max(width, height) / max(min(width, height), 1e-6)
    if abs(width - height) <= 1.5 or aspect <= _SQUARE_ASPECT:
        return kind
    return {"square": "rectangle", "circle": "ellipse"}.get(kind, kind)


def _gradients(image: NDArray[np.uint8]) -> _Gradients:
    """Return, for each pixel, the gradient of the colour channel that changes most there.

    The gradients are computed on a copy of the image that is enlarged or reduced to a working size.
    """
    height, width = image.shape[:2]
    scale = 2.0 if height * width <= _ENLARGE_BELOW_PX else min(1.0, (MAX_PX / (height * width)) ** 0.5)
    if scale != 1.0:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        way = cv2.INTER_LINEAR if scale > 1 else cv2.INTER_AREA
        image = np.asarray(cv2.resize(image, size, interpolation=way), np.uint8)
    gx = gy = strength = None
    for channel in cv2.split(image):
        cx = cv2.Sobel(channel, cv2.CV_32F, 1, 0, ksize=3)
        cy = cv2.Sobel(channel, cv2.CV_32F, 0, 1, ksize=3)
        size2 = cx * cx + cy * cy
        if gx is None or gy is None or strength is None:
            gx, gy, strength = cx, cy, size2
        else:
            stronger = (size2 > strength).view(np.uint8)
            cv2.copyTo(cx, stronger, gx)
            cv2.copyTo(cy, stronger, gy)
            strength = cv2.max(strength, size2)
    return _Gradients(np.asarray(gx, np.float32), np.asarray(gy, np.float32), image, scale)


def _enclosed_regions(
    gradients: _Gradients,
) -> tuple[list[tuple[float, float, float, float]], list[NDArray[np.bool_]]]:
    """Return the boxes and the masks of the image regions that are enclosed by edges.

    Each mask is True for the pixels inside the edge of a region, and has the size of the smallest rectangle around
    these pixels. The box of a region is this rectangle, enlarged by 2 pixels on each side, so that its sides are in the
    middle of the edge. There is one exception: a side at the image's border is not moved. Boxes are (x1, y1, x2, y2) in
    pixels of the enlarged or reduced copy of the image from which ``gradients`` was computed.
    """
    gx, gy = (np.clip(g, -32000, 32000).astype(np.int16) for g in (gradients.gx, gradients.gy))
    edges = cv2.Canny(gx, gy, _MIN_STEP, 2 * _MIN_STEP, L2gradient=True)
    # Canny leaves gaps where edges meet; one more pixel on each side closes them.
    edges = cv2.dilate(edges, np.ones((3, 3), np.uint8))
    height, width = edges.shape
    _, labels, stats, _ = cv2.connectedComponentsWithStats(cv2.bitwise_not(edges), connectivity=4)
    area, w, h = stats[:, cv2.CC_STAT_AREA], stats[:, cv2.CC_STAT_WIDTH], stats[:, cv2.CC_STAT_HEIGHT]
    spans = (w >= width - 2) | (h >= height - 2)
    kept = np.flatnonzero((area >= 12) & (np.minimum(w, h) >= 3) & ~spans)
    kept = kept[kept != 0][np.argsort(-area[kept[kept != 0]], kind="stable")][:_MAX_REGIONS]
    boxes: list[tuple[float, float, float, float]] = []
    masks: list[NDArray[np.bool_]] = []
    for row in kept.tolist():
        x, y, rw, rh = (int(v) for v in stats[row, :4])
        left, top = x - (x > 0) * _EDGE_PX, y - (y > 0) * _EDGE_PX
        right, bottom = x + rw + (x + rw < width) * _EDGE_PX, y + rh + (y + rh < height) * _EDGE_PX
        boxes.append((left, top, right, bottom))
        masks.append(labels[y : y + rh, x : x + rw] == row)
    return boxes, masks


def _outline_fits(gradients: _Gradients, boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how well each template (ideal outline of a shape) fits each box: float (boxes, templates) in [0, 1].

    The template is scaled to the box. The fit is the mean of the values of the points on the template's outline. The
    value of a point is 0 if the image has no edge at the point (to within about a pixel). If the image has an edge
    there, the value is between 0 and 1: 1 if the edge has the direction of the outline, and lower if the directions
    differ. Points on the image's border have no gradient, so the mean leaves them out. The fit is 0 if fewer than a
    third of the points are inside the border.
    """
    table = templates()
    height, width = gradients.gx.shape
    origin, span = boxes[:, None, None, :2], (boxes[:, 2:] - boxes[:, :2])[:, None, None, :]
    xy = origin + table.points[None] * span - 0.5
    normals = table.normals[None] / span
    normals = normals / np.linalg.norm(normals, axis=3, keepdims=True)
    seen = (xy[..., 0] > 0.7) & (xy[..., 0] < width - 1.7) & (xy[..., 1] > 0.7) & (xy[..., 1] < height - 1.7)
    best = np.zeros(seen.shape)
    for step in (-1.0, 0.0, 1.0):
        at = np.rint(xy + step * normals).astype(np.intp)
        column, row = np.clip(at[..., 0], 0, width - 1), np.clip(at[..., 1], 0, height - 1)
        gx, gy = gradients.gx[row, column], gradients.gy[row, column]
        size = np.sqrt(gx * gx + gy * gy)
        along = np.abs(gx * normals[..., 0] + gy * normals[..., 1]) / np.maximum(size, 1e-6)
        best = np.maximum(best, np.where(size >= _MIN_STEP, along, 0.0))
    agreed = np.clip((best - 0.7) / 0.25, 0.0, 1.0)
    count = seen.sum(2)
    return np.where(count >= seen.shape[2] // 3, (agreed * seen).sum(2) / np.maximum(count, 1), 0.0)


def _inner_colour(image: NDArray[np.uint8], box: tuple[float, float, float, float], mask: NDArray[np.bool_]) -> str:
    """Return the name of the most frequent colour inside a region that is enclosed by edges."""
    x, y = (round(start + (start > 0) * _EDGE_PX) for start in box[:2])
    pixels = image[y : y + mask.shape[0], x : x + mask.shape[1]][mask]
    keys = (pixels >> 5).astype(np.int32) @ np.array([64, 8, 1], np.int32)
    modal = pixels[keys == np.bincount(keys).argmax()].mean(0)
    return name_colour((float(modal[0]), float(modal[1]), float(modal[2])))
