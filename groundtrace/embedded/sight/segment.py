"""Finds the pixels of the object in a box.

Eq. 1 of the paper Argos needs them: a point is right if it is inside its object's mask.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from groundtrace.embedded.sight.shapes import Box

_BITS = 4
_MIN_CONTRAST = 36.0
_MAX_SIDE_PX = 640


def segment(image: NDArray[np.uint8], box_px: Box) -> NDArray[np.bool_]:
    """Return a mask of the object in a box: bool (H, W), True for the object's pixels.

    `image` is RGB uint8 (H, W, 3), and `box_px` is (x1, y1, x2, y2) in pixels. The background colour is the most
    frequent colour in a ring around the box. The object's colour is the most frequent colour inside the box that
    differs from the background; pixels near the centre have more weight. A pixel of the box belongs to the object if
    its colour is close to the object's colour, and closer to it than to the background colour. The mask is empty for a
    box outside the image and for a box that contains only background.
    """
    height, width = image.shape[:2]
    mask = np.zeros((height, width), np.bool_)
    x1, y1 = max(0, round(box_px[0])), max(0, round(box_px[1]))
    x2, y2 = min(width, round(box_px[2])), min(height, round(box_px[3]))
    if x2 <= x1 or y2 <= y1:
        return mask
    # Histograms of a large box use a grid of at most 640 x 640 of its pixels.
    step = max(1, -(-max(x2 - x1, y2 - y1) // _MAX_SIDE_PX))
    inside = image[y1:y2, x1:x2]
    background = _background(image, (x1, y1, x2, y2), step)
    colour = _inner_colour(inside[::step, ::step], background)
    if colour is None:
        return mask
    to_object, to_background = _distance(inside, colour), _distance(inside, background)
    near = 0.6 * float(np.abs(colour - background).max())
    mask[y1:y2, x1:x2] = (to_object < to_background) & (to_object < near)
    return mask


def _distance(pixels: NDArray[np.uint8], colour: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return how far the colour of each pixel is from `colour`, as uint8 (H, W).

    The distance is the largest of three differences: that of the red channel, the green one, and the blue one.
    `pixels` is RGB uint8 (H, W, 3). `colour` is rounded first, so that the distances are whole numbers (0 to 255).
    """
    gaps = [
        cv2.absdiff(plane, np.full_like(plane, round(float(level))))
        for plane, level in zip(cv2.split(pixels), colour, strict=True)
    ]
    return np.asarray(cv2.max(cv2.max(gaps[0], gaps[1]), gaps[2]), np.uint8)


def _keys(pixels: NDArray[np.uint8]) -> NDArray[np.uint16]:
    bins = (pixels >> np.uint8(8 - _BITS)).astype(np.uint16)
    return np.asarray((bins[..., 0] << (2 * _BITS)) | (bins[..., 1] << _BITS) | bins[..., 2], np.uint16)


def _colour_of_bin(key: int, pixels: NDArray[np.uint8], keys: NDArray[np.uint16]) -> NDArray[np.float32]:
    # The sum is in double precision: in single precision the mean of many light pixels can exceed 255.
    return pixels[keys == key].mean(0).astype(np.float32)


def _background(image: NDArray[np.uint8], box: tuple[int, int, int, int], step: int) -> NDArray[np.float32]:
    """Return the most frequent colour of the ring around a box.

    Only each `step`-th row and column around the box is read, because a large box has many pixels. If the box fills the
    image, the rim of the box itself is used.
    """
    x1, y1, x2, y2 = box
    margin = max(2, round(0.15 * max(x2 - x1, y2 - y1)))
    left, top = max(0, x1 - margin), max(0, y1 - margin)
    around = image[top : y2 + margin : step, left : x2 + margin : step]
    rows = np.arange(top, top + around.shape[0] * step, step)
    columns = np.arange(left, left + around.shape[1] * step, step)
    # The pixels directly next to the box are left out, because they may show the object's blurred rim.
    far_row = (rows < y1 - 1) | (rows > y2)
    far_column = (columns < x1 - 1) | (columns > x2)
    ring = around[far_row[:, None] | far_column[None, :]]
    if not len(ring):
        inside = image[y1:y2, x1:x2]
        ring = np.concatenate([inside[0], inside[-1], inside[:, 0], inside[:, -1]])
    keys = _keys(ring)
    return _colour_of_bin(int(np.bincount(keys).argmax()), ring, keys)


def _inner_colour(inside: NDArray[np.uint8], background: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """Return the most frequent colour of the box that is not background, weighted towards the centre.

    Returns None if the box is nearly all background.
    """
    height, width = inside.shape[:2]
    wy = 1.2 - np.abs(np.linspace(-1, 1, height)) if height > 1 else np.ones(1)
    wx = 1.2 - np.abs(np.linspace(-1, 1, width)) if width > 1 else np.ones(1)
    weights = np.outer(wy, wx).ravel()
    keys = _keys(inside).ravel()
    counts = np.bincount(keys, weights=weights, minlength=1 << (3 * _BITS))
    used = np.flatnonzero(counts)
    centres = np.stack([used >> (2 * _BITS), (used >> _BITS) & 15, used & 15], 1) * 16.0 + 7.5
    differs = np.abs(centres - background).max(1) > _MIN_CONTRAST
    if not differs.any() or counts[used[differs]].sum() < 0.05 * weights.sum():
        return None
    key = int(used[differs][counts[used[differs]].argmax()])
    return _colour_of_bin(key, inside.reshape(-1, 3), keys)
