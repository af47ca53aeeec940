"""Defines the ideal outlines (circle, square, …) that are compared with the edges in an image."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

POINTS = 48


@dataclass(frozen=True, slots=True, eq=False)
class Templates:
    """Holds n ideal outlines, each of which fills the unit box (x and y from 0 to 1).

    `kinds` are the n names of the shapes. `points` are points on the outlines, float (n, POINTS, 2). `normals` are the
    directions away from the shape at these points, float (n, POINTS, 2).
    """

    kinds: tuple[str, ...]
    points: NDArray[np.float64]
    normals: NDArray[np.float64]


def _polygon(corners: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return POINTS points along a closed polygon (clockwise on screen), and their outward normals.

    The parts of the sides next to the corners have no points.
    """
    low, high = corners.min(0), corners.max(0)
    corners = (corners - low) / (high - low)
    edges = np.roll(corners, -1, 0) - corners
    lengths = np.linalg.norm(edges, axis=1)
    share = np.cumsum(lengths) / lengths.sum()
    at = (np.arange(POINTS) + 0.5) / POINTS
    which = np.searchsorted(share, at)
    start = np.r_[0.0, share[:-1]][which]
    along = (at - start) / (share[which] - start)
    along = 0.08 + 0.84 * along
    points = corners[which] + along[:, None] * edges[which]
    normals = np.stack([edges[which, 1], -edges[which, 0]], 1) / lengths[which, None]
    return points, normals


def _regular(corners: int, turn: float) -> NDArray[np.float64]:
    angles = 2 * np.pi * (np.arange(corners) + turn) / corners - np.pi / 2
    return np.stack([np.cos(angles), np.sin(angles)], 1)


@cache
def templates() -> Templates:
    """Return all ideal outlines that the detector compares with an image.

    They are the circle, the square and the diamond, the triangle in four directions, and the pentagon and the hexagon
    in two directions each.
    """
    triangle = np.array([[0.5, 0.0], [1.0, 1.0], [0.0, 1.0]])
    flipped = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]])
    outlines = [
        ("square", np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])),
        ("triangle", triangle),
        ("triangle", flipped),
        ("triangle", np.array([[0.0, 0.0], [1.0, 0.5], [0.0, 1.0]])),
        ("triangle", np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.5]])),
        ("diamond", _regular(4, 0.0)),
        ("pentagon", _regular(5, 0.0)),
        ("pentagon", _regular(5, 0.5)),
        ("hexagon", _regular(6, 0.0)),
        ("hexagon", _regular(6, 0.5)),
    ]
    fitted = [_polygon(corners) for _, corners in outlines]
    angles = 2 * np.pi * (np.arange(POINTS) + 0.5) / POINTS
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    return Templates(
        ("circle", *(name for name, _ in outlines)),
        np.stack([(circle + 1) / 2, *(points for points, _ in fitted)]),
        np.stack([circle, *(normals for _, normals in fitted)]),
    )
