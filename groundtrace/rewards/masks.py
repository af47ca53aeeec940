"""Compares masks with other masks and with points: finds masks of the same object, and assigns points to masks."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from groundtrace.inference.grounding import Mask

SAME_OBJECT_IOU = 0.5
"""Masks of two labels with at least this IoU are the same object, such as "square" and "red square"."""


def on_pixels(value_px: float, side_px: int) -> float:
    """Return a coordinate in pixels, moved into the last pixel if it is on the right or lower edge of the image.

    For example, x = 100 in an image of 100 pixels is on the right edge, but the last pixel is from 99 to 100.
    """
    return math.nextafter(side_px, 0) if value_px == side_px else value_px


@dataclass(frozen=True)
class Pairing:
    """Holds the result of assigning points to the instances (objects) of a label.

    ``missed`` counts instances without a point, ``twice`` counts instances with several points, and ``off`` counts
    points that are on no instance.
    """

    points: int
    instances: int
    missed: int
    twice: int
    off: int

    @property
    def value(self) -> float:
        """Return p / (points + instances - p), where p is the number of instances with a point.

        The value is 1 only if points and instances are matched one to one. There must be at least one point or
        instance.
        """
        pointed = self.instances - self.missed
        return pointed / (self.points + self.instances - pointed)


def pair(places_px: Sequence[tuple[float, float]], masks: Sequence[Mask]) -> Pairing:
    """Pair as many positions (x, y) as possible with masks that contain them, and return the counts of the result.

    The pairs are one to one (a maximum matching). The result does not depend on the order of the positions.
    """
    options = [[index for index, mask in enumerate(masks) if mask.holds(*place)] for place in places_px]
    # Positions on the same masks are interchangeable, so sorting makes the result independent of their order.
    on = sorted(filter(None, options))
    taken = matched(on)
    crowded = {held[0] for number, held in enumerate(on) if number not in taken}
    return Pairing(len(places_px), len(masks), len(masks) - len(taken), len(crowded), len(options) - len(on))


def matched(options: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return a maximum matching as a dict from the indices of positions to the indices of their masks.

    ``options`` holds for each position the indices of the masks that contain it. Each mask is used at most once. The
    matching is found by augmenting paths. Assume that all masks of a position are already used by other positions. If
    one of these other positions can use a free mask instead, its old mask becomes free. So a matched position may get
    another mask, but stays matched.
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

    Masks that overlap with an IoU of at least :data:`SAME_OBJECT_IOU` are of the same object. The result does not
    depend on the order of the masks.
    """
    kept: list[Mask] = []
    for mask in sorted(masks, key=_size_and_place, reverse=True):
        if all(overlap_iou(mask, other) < SAME_OBJECT_IOU for other in kept):
            kept.append(mask)
    return tuple(kept)


def _size_and_place(mask: Mask) -> tuple[int, int, int, tuple[int, ...], bytes]:
    return int(np.count_nonzero(mask.pixels)), mask.x, mask.y, mask.pixels.shape, mask.pixels.tobytes()


def overlap_iou(a: Mask, b: Mask) -> float:
    """Return the intersection over union of two masks; 0 if they do not overlap."""
    left, top = max(a.x, b.x), max(a.y, b.y)
    right = min(a.x + a.pixels.shape[1], b.x + b.pixels.shape[1])
    bottom = min(a.y + a.pixels.shape[0], b.y + b.pixels.shape[0])
    if right <= left or bottom <= top:
        return 0.0
    ours = a.pixels[top - a.y : bottom - a.y, left - a.x : right - a.x]
    theirs = b.pixels[top - b.y : bottom - b.y, left - b.x : right - b.x]
    both = np.count_nonzero(ours & theirs)
    return both / max(np.count_nonzero(a.pixels) + np.count_nonzero(b.pixels) - both, 1)
