"""Separates touching objects of one colour, by straight cuts at the concave corners of their joint outline."""

from collections.abc import Iterator
from itertools import combinations, pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from groundtrace.embedded.sight.fits import enlargement, kind_of, outer_contour

_MAX_DENTS = 6
_MAX_PARTS = 6
_Point = tuple[float, float]


def split_touching(mask: NDArray[np.uint8], depth: int = 0) -> list[NDArray[np.uint8]] | None:
    """Cut touching shapes of one colour apart. Return one mask per shape; None if no cut succeeds.

    `mask` is a 0/1 mask, uint8 (h, w), that is not a simple shape. A simple shape is one whose kind `kind_of` finds,
    such as a circle, triangle or rectangle. Each returned mask is a simple shape, and has the size (h, w). `depth` is
    the number of cuts made so far.

    Each cut divides the mask into two parts, and begins at a concave corner of the outline. It is a straight line to
    another concave corner, or the continuation of one of the two sides that meet in the corner. The shortest cut into
    two simple shapes is chosen. If there is no such cut, the three shortest cuts into a simple shape and another part
    are tried, in order of their length. For each of them, the function calls itself to cut the other part again. The
    first success is the result.
    """
    if depth >= _MAX_PARTS:
        return None
    total = int(np.count_nonzero(mask))
    best: list[NDArray[np.uint8]] | None = None
    shortest = float("inf")
    rest: list[tuple[float, NDArray[np.uint8], NDArray[np.uint8]]] = []
    for start, end in _cuts(mask):
        length = float(np.hypot(end[0] - start[0], end[1] - start[1]))
        parts = _halves(mask, start, end)
        if parts is None or min(map(np.count_nonzero, parts)) < max(4, 0.06 * total):
            continue
        simple = [kind_of(_crop(part)) is not None for part in parts]
        if all(simple) and length < shortest:
            best, shortest = list(parts), length
        elif any(simple):
            done, open_part = parts if simple[0] else parts[::-1]
            rest.append((length, done, open_part))
    if best is not None:
        return best
    for _, done, open_part in sorted(rest, key=lambda item: item[0])[:3]:
        more = split_touching(open_part, depth + 1)
        if more is not None:
            return [done, *more]
    return None


def split_stack(mask: NDArray[np.uint8], sides_px: list[float]) -> list[NDArray[np.uint8]] | None:
    """Cut a filled rectangle into a row or column of equal squares. Return one mask per square.

    `mask` is the 0/1 mask of the rectangle. `sides_px` are the side lengths (in pixels) of the separate squares in the
    image. The rectangle is cut only if one of these squares is nearly as wide as the rectangle's short side. Otherwise
    the rectangle is more likely a single shape, and the result is None.
    """
    height, width = mask.shape
    shorter, longer = min(height, width), max(height, width)
    count = round(longer / shorter)
    if count < 2 or abs(longer / count - shorter) > max(0.8, 0.1 * shorter):
        return None
    if not any(abs(side - shorter) <= max(1.0, 0.1 * shorter) for side in sides_px):
        return None
    parts = []
    marks = np.linspace(0, longer, count + 1).round().astype(int)
    for low, high in pairwise(marks.tolist()):
        part = np.zeros_like(mask)
        window = np.s_[low:high, :] if height > width else np.s_[:, low:high]
        part[window] = mask[window]
        parts.append(part)
    return parts


def _crop(mask: NDArray[np.uint8]) -> NDArray[np.uint8]:
    x, y, w, h = cv2.boundingRect(mask)
    return mask[y : y + h, x : x + w]


def _cuts(mask: NDArray[np.uint8]) -> Iterator[tuple[_Point, _Point]]:
    """Yield the lines at which touching shapes might be cut apart, each as its two end points in pixels of the mask.

    Each line begins at a concave corner of the mask's outline. It either ends at another concave corner, or continues
    one of the two sides that meet in the corner, as far as the mask extends.
    """
    height, width = mask.shape
    scale = enlargement(width, height)
    contour = outer_contour(mask, scale)
    if contour is None or len(contour) < 4:
        return
    outline = cv2.approxPolyDP(contour, 0.6 * scale, True)[:, 0, :].astype(np.float64)
    outline = (outline + 0.5) / scale - 1.5
    before, after = np.roll(outline, 1, 0), np.roll(outline, -1, 0)
    into, out = outline - before, after - outline
    turn = into[:, 0] * out[:, 1] - into[:, 1] * out[:, 0]
    orientation = np.sign(np.sum(outline[:, 0] * (after[:, 1] - before[:, 1])))
    sides = np.linalg.norm(into, axis=1) * np.linalg.norm(out, axis=1)
    sharpness = -turn * orientation / np.maximum(sides, 1e-6)
    dents = [i for i in np.argsort(-sharpness)[:_MAX_DENTS] if sharpness[i] > 0.25]
    for i, j in combinations(dents, 2):
        yield tuple(outline[i]), tuple(outline[j])
    reach = float(height + width)
    for i in dents:
        for near in (before[i], after[i]):
            heading = outline[i] - near
            heading = heading / max(float(np.linalg.norm(heading)), 1e-6)
            yield tuple(outline[i]), tuple(outline[i] + heading * _run(mask, outline[i], heading, reach))


def _run(mask: NDArray[np.uint8], start: NDArray[np.float64], heading: NDArray[np.float64], reach: float) -> float:
    """Return the distance in pixels for which a ray stays inside the mask, at most `reach`.

    The ray begins at the point `start`, in the direction of the unit vector `heading`.
    """
    steps = np.arange(1.5, reach, 0.5)
    xy = np.rint(start + steps[:, None] * heading).astype(int)
    inside = (xy >= 0).all(1) & (xy[:, 0] < mask.shape[1]) & (xy[:, 1] < mask.shape[0])
    inside[inside] = mask[xy[inside, 1], xy[inside, 0]] > 0
    return float(steps[np.argmin(inside)]) if not inside.all() else reach


def _halves(mask: NDArray[np.uint8], start: _Point, end: _Point) -> tuple[NDArray[np.uint8], NDArray[np.uint8]] | None:
    """Return the parts of the mask on the two sides of a cut; None if one of them is not a single connected piece."""
    ys, xs = np.nonzero(mask)
    side = (end[0] - start[0]) * (ys - start[1]) - (end[1] - start[1]) * (xs - start[0])
    parts = []
    for chosen in (side > 0, side <= 0):
        part = np.zeros_like(mask)
        part[ys[chosen], xs[chosen]] = 1
        if not chosen.any() or cv2.connectedComponents(part, connectivity=8)[0] != 2:
            return None
        parts.append(part)
    return parts[0], parts[1]
