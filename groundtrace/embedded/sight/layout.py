"""Finds the layout of shapes in an image: panels, towers, and shapes that touch a wall.

A panel is an area that is separated from other areas by flat bars. A tower is a straight stack of blocks. A wall is a
side of a panel or of the image.
"""

from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from groundtrace.embedded.sight.by_colour import shrink_to_limit
from groundtrace.embedded.sight.query import Place, Touch
from groundtrace.embedded.sight.shapes import Box, FoundShape

_STEP = 40
_FLAT = 26
_MAX_STACK_GAP = 0.3


def find_panels(image: NDArray[np.uint8]) -> tuple[Box, ...]:
    """Find the panels of an RGB image, uint8 (H, W, 3). Return their boxes in pixels, from left to right.

    A panel is an area that is separated from other areas by vertical bars. A bar extends from the top to the bottom of
    the image. It has one flat colour, which is not the image's main colour. Returns () if the image has fewer than two
    panels.
    """
    small, scale = shrink_to_limit(image, 500_000)
    height, width = small.shape[:2]
    middle = np.median(small, axis=0)
    lowest, highest = np.ceil(middle - _FLAT).clip(0, 255), np.floor(middle + _FLAT).clip(0, 255)
    bounds = [cv2.repeat(each.astype(np.uint8)[None], height, 1) for each in (lowest, highest)]
    uniform = np.count_nonzero(cv2.inRange(small, *bounds), axis=0) / height >= 0.97
    main = np.median(middle, axis=0)
    bar = uniform & (np.abs(middle - main).max(1) > _STEP)
    bar = cv2.morphologyEx(bar.astype(np.uint8)[None], cv2.MORPH_OPEN, np.ones((1, 3), np.uint8))[0]
    edges = np.flatnonzero(np.diff(np.r_[1, bar, 1]))
    panels = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= 0.05 * width]
    if len(panels) < 2:
        return ()
    return tuple((float(a) / scale, 0.0, float(b) / scale, float(height) / scale) for a, b in panels)


def shapes_by_panel(shapes: list[FoundShape], panels: tuple[Box, ...]) -> list[list[FoundShape]] | None:
    """Group shapes by the panel in which they are. Return one list of shapes per panel, in the order of `panels`.

    `panels` are the boxes of areas that are separated by bars. Returns None if a shape is outside all panels.
    """
    groups: list[list[FoundShape]] = [[] for _ in panels]
    for shape in shapes:
        home = panel_of(shape, panels)
        if home is None:
            return None
        groups[panels.index(home)].append(shape)
    return groups


def panel_of(shape: FoundShape, panels: tuple[Box, ...]) -> Box | None:
    """Return the box of the panel that contains a shape's `point_px`; None if no panel contains this point.

    `panels` are the boxes of areas that are separated by bars.
    """
    x, y = shape.point_px
    return next((p for p in panels if p[0] <= x <= p[2] and p[1] <= y <= p[3]), None)


def as_tower(shapes: list[FoundShape]) -> list[FoundShape] | None:
    """Return the shapes from top to bottom, if they are one tower (a straight stack of blocks); else None."""
    if not shapes or any(shape.kind not in ("square", "rectangle") for shape in shapes):
        return None
    stack = sorted(shapes, key=lambda shape: shape.box_px[1])
    for upper, lower in pairwise(stack):
        gap = lower.box_px[1] - upper.box_px[3]
        aside = abs(lower.box_px[0] - upper.box_px[0]) + abs(lower.box_px[2] - upper.box_px[2])
        size = min(upper.height_px, lower.height_px)
        if abs(gap) > _MAX_STACK_GAP * size or aside > 0.3 * min(upper.width_px, lower.width_px):
            return None
    return stack


def find_towers(shapes: list[FoundShape], panels: tuple[Box, ...]) -> list[list[FoundShape]] | None:
    """Find all towers (straight stacks of blocks) of an image. Return one list of shapes per tower, from top to bottom.

    `panels` are the boxes of areas that are separated by bars. Each panel has at most one tower. Without panels, shapes
    that overlap horizontally are in the same tower. Returns None if a shape is not part of a tower.
    """
    if panels:
        columns = shapes_by_panel(shapes, panels)
        if columns is None:
            return None
    else:
        columns = []
        for shape in sorted(shapes, key=lambda s: s.box_px[0]):
            if columns and shape.box_px[0] < columns[-1][0].box_px[2]:
                columns[-1].append(shape)
            else:
                columns.append([shape])
    towers = [as_tower(column) for column in columns if column]
    return None if any(tower is None for tower in towers) else [tower for tower in towers if tower]


def touches(shape: FoundShape, touch: Touch, panels: tuple[Box, ...]) -> bool | None:
    """Return whether a shape meets a condition such as "touching the edge" or "not touching a corner" in its panel.

    `touch` is this condition. `panels` are the boxes of areas whose sides a shape can touch. Returns None if the shape
    is outside all panels.
    """
    home = panel_of(shape, panels)
    if home is None:
        return None
    slack = max(1.0, 0.02 * min(home[2] - home[0], home[3] - home[1]) - 1.0)
    sides: dict[Place, bool] = {
        "left": shape.box_px[0] - home[0] <= slack,
        "right": home[2] - shape.box_px[2] <= slack,
        "top": shape.box_px[1] - home[1] <= slack,
        "bottom": home[3] - shape.box_px[3] <= slack,
    }
    if touch.place == "edge":
        found = any(sides.values())
    elif touch.place == "corner":
        found = (sides["left"] or sides["right"]) and (sides["top"] or sides["bottom"])
    else:
        found = sides[touch.place]
    return found != touch.negated
