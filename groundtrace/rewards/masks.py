"""Compares masks of objects with each other and with points.

The module also finds masks that belong to the same object, and assigns points to masks.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from groundtrace.inference.grounding import Mask

SAME_OBJECT_IOU = 0.5
"""Masks of two labels with at least this IoU are the same object, such as "square" and "red square"."""


def on_pixels(value_px: float, side_px: int) -> float:
    """Return the coordinate, moved slightly into the image if it is exactly on the right or lower edge.

    For example, x = 100 in an image that is 100 pixels wide is on the right edge. The result is then slightly below
    100, so that the point is in the last pixel (from 99 to 100). All other coordinates are returned unchanged.

    ``value_px`` is the x or y coordinate in pixels, and ``side_px`` is the width or height of the image.
    """
    return math.nextafter(side_px, 0) if value_px == side_px else value_px


@dataclass(frozen=True)
class Pairing:
    """Holds counts that describe how points were assigned to the instances (objects) of a label.

    Attributes:
        points: the number of points.
        instances: the number of instances, which are the objects that were found in the image for the label.
        missed: the number of instances without a point.
        twice: the number of instances with several points.
        off: the number of points that are on no instance.
    """

    points: int
    instances: int
    missed: int
    twice: int
    off: int

    @property
    def value(self) -> float:
        """Return how well points and instances match: p / (points + instances - p), from 0 to 1.

        Instances are the objects that were found for the label, and p is the number of instances with a point. The
        value is 1 only if each point has its own instance, and each instance its own point. There must be at least one
        point or instance.
        """
        pointed = self.instances - self.missed
        return pointed / (self.points + self.instances - pointed)


def pair(places_px: Sequence[tuple[float, float]], masks: Sequence[Mask]) -> Pairing:
    """Pair points with masks one to one, as many as possible (a maximum matching), and return the counts of the result.

    A point can be paired with a mask that contains it. ``places_px`` holds the position (x, y) of each point in pixels,
    and ``masks`` holds one mask for each object. The order of the positions does not change the result.
    """
    options = [[index for index, mask in enumerate(masks) if mask.holds(*place)] for place in places_px]
    # Positions on the same masks are interchangeable, so sorting makes the result independent of their order.
    on = sorted(filter(None, options))
    taken = matched(on)
    crowded = {held[0] for number, held in enumerate(on) if number not in taken}
    return Pairing(len(places_px), len(masks), len(masks) - len(taken), len(crowded), len(options) - len(on))


def matched(options: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return a maximum matching: a dict from the index of each matched position to the index of its mask.

    ``options`` holds, for each position, the indices of the masks that it can be matched with. Each mask is used at
    most once.

    The matching is found by augmenting paths. If all masks of a position are already in use, another position may be
    moved to a free mask, so that its old mask becomes free. So a matched position may get another mask, but stays
    matched.
    """
    mask_of: dict[int, int] = {}
    holder: dict[int, int] = {}
    for start in range(len(options)):
        reached: dict[int, int] = {}  # for each mask, the position that would move there
        waiting, free = deque([start]), None
        while waiting and free is None:
            position = waiting.popleft()
            for mask in options[position]:
                if mask in reached:
                    continue
                reached[mask] = position
                if mask not in holder:
                    free = mask
                    break
                waiting.append(holder[mask])
        while free is not None:  # from the free mask back to the start, each position moves to the next mask
            position = reached[free]
            holder[free], mask_of[position], free = position, free, mask_of.get(position)
    return mask_of


def distinct(masks: Iterable[Mask]) -> tuple[Mask, ...]:
    """Return one mask for each object: the largest mask of the object.

    Masks that overlap with an IoU of at least :data:`SAME_OBJECT_IOU` belong to the same object. The order of ``masks``
    does not change the result.
    """
    kept: list[Mask] = []
    for mask in sorted(masks, key=_size_and_place, reverse=True):
        if all(overlap_iou(mask, other) < SAME_OBJECT_IOU for other in kept):
            kept.append(mask)
    return tuple(kept)


def _size_and_place(mask: Mask) -> tuple[int, int, int, tuple[int, ...], bytes]:
    return int(np.count_nonzero(mask.pixels)), mask.x, mask.y, mask.pixels.shape, mask.pixels.tobytes()


def overlap_iou(a: Mask, b: Mask) -> float:
    """Return the intersection over union of two masks, from 0 (no overlap) to 1 (the same pixels)."""
    left, top = max(a.x, b.x), max(a.y, b.y)
    right = min(a.x + a.pixels.shape[1], b.x + b.pixels.shape[1])
    bottom = min(a.y + a.pixels.shape[0], b.y + b.pixels.shape[0])
    if right <= left or bottom <= top:
        return 0.0
    ours = a.pixels[top - a.y : bottom - a.y, left - a.x : right - a.x]
    theirs = b.pixels[top - b.y : bottom - b.y, left - b.x : right - b.x]
    both = np.count_nonzero(ours & theirs)
    return both / max(np.count_nonzero(a.pixels) + np.count_nonzero(b.pixels) - both, 1)
