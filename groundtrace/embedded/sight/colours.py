"""Names colours, and finds the few flat colours of a drawn image."""

import colorsys
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

_BIN_BITS = 4
_MERGE_DISTANCE = 56.0
_MIX_DISTANCE = 30.0
_COMMON_SHARE = 0.02
_MAX_COLOURS = 12
_HUES = (
    (15, "red"),
    (42, "orange"),
    (70, "yellow"),
    (165, "green"),
    (192, "cyan"),
    (256, "blue"),
    (290, "purple"),
    (338, "pink"),
    (361, "red"),
)


def name_colour(rgb: tuple[float, float, float]) -> str:
    """Return the name of an RGB colour, such as "red". The channels are from 0 to 255.

    The names are in `labels.COLOURS`.
    """
    hue, saturation, value = colorsys.rgb_to_hsv(*(min(max(c, 0.0), 255.0) / 255 for c in rgb))
    chroma = saturation * value
    if value < 0.2 or (value < 0.3 and chroma < 0.08):
        return "black"
    if chroma < 0.15:
        return "white" if value > 0.9 else "grey"
    degrees = hue * 360
    if degrees < 42 and 0.2 <= value < 0.72 and degrees >= 8:
        return "brown"
    if (degrees < 15 or degrees >= 338) and value > 0.8 and saturation < 0.6:
        return "pink"
    if 290 <= degrees < 338 and value < 0.7:
        return "purple"
    return next(name for limit, name in _HUES if degrees < limit)


@dataclass(frozen=True, slots=True, eq=False)
class Palette:
    """Holds the few flat colours of one image, the most frequent one first.

    `centres` are the n colours, float (n, 3) RGB. `index` is int16 (H, W): the number of the nearest colour of each
    pixel, or -1 if no colour is near. `shares` is float (n,): for each colour, the share of the image's pixels that
    have its index.
    """

    centres: NDArray[np.float32]
    index: NDArray[np.int16]
    shares: NDArray[np.float32]

    @property
    def flat_share(self) -> float:
        """Return the share of the image's pixels that have one of the flat colours: colours that fill whole areas."""
        return float(self.shares.sum())


def _mixes(
    colours: NDArray[np.float32], new: NDArray[np.float32], centres: list[NDArray[np.float32]]
) -> NDArray[np.bool_]:
    """Return for each colour whether it is a mixture of two flat colours of the image: `new` and one of the `centres`.

    Such mixtures occur at blurred edges. `colours` (n, 3) are RGB colours from 0 to 255. `new` (3,) is the flat colour
    that was found last, and `centres` are the flat colours that were found before. The result is bool (n,).
    """
    span = np.asarray(centres) - new
    offset = colours - new
    t = (offset @ span.T) / np.maximum((span * span).sum(1), 1e-6)
    gap2 = (offset * offset).sum(1)[:, None] - t * t * (span * span).sum(1)
    return ((t > 0.02) & (t < 0.98) & (gap2 < _MIX_DISTANCE * _MIX_DISTANCE)).any(1)


def _pick_centres(
    means: NDArray[np.float32], counts: NDArray[np.int64], total: int, min_share: float
) -> NDArray[np.float32]:
    """Choose the flat colours of an image, one after another: each time the most frequent colour that is left.

    Colours that are similar to a chosen colour, and rare mixtures of two chosen colours, are left out. ``means`` are
    the colours (n, 3), ``counts`` is the number of pixels of each colour, and ``total`` the number of pixels of the
    image. Only colours with at least the share ``min_share`` of the image's pixels are chosen.
    """
    order = np.argsort(-counts, kind="stable")[:400]
    order = order[counts[order] >= min_share * total]
    colours, rare = means[order], counts[order] < _COMMON_SHARE * total
    open_ = np.ones(len(order), np.bool_)
    centres: list[NDArray[np.float32]] = []
    while open_.any() and len(centres) < _MAX_COLOURS:
        new = colours[int(open_.argmax())]
        if centres:
            open_ &= ~(rare & _mixes(colours, new, centres))
        open_ &= np.abs(colours - new).max(1) >= _MERGE_DISTANCE
        centres.append(new)
    return np.asarray(centres, np.float32).reshape(-1, 3)


def find_palette(image: NDArray[np.uint8], min_px: int = 4, tolerance: float = 60.0) -> Palette:
    """Find the few flat colours of an RGB image, uint8 (H, W, 3).

    Pixels are grouped into bins: 16 levels per channel. A bin is a flat colour if it has at least `min_px` pixels, is
    not close to a more frequent colour, and is not a rare mixture of two colours (an anti-aliased edge). A pixel has
    index -1 if its bin is farther than `tolerance` (largest channel difference, 0 to 255) from every flat colour.
    """
    shift = np.uint8(8 - _BIN_BITS)
    red, green, blue = (plane.astype(np.uint16) for plane in cv2.split(image >> shift))
    key = (red << (2 * _BIN_BITS)) | (green << _BIN_BITS) | blue
    flat = key.ravel()
    size = 1 << (3 * _BIN_BITS)
    counts = np.bincount(flat, minlength=size)
    used = np.flatnonzero(counts)
    levels = np.stack([used >> (2 * _BIN_BITS), (used >> _BIN_BITS) & 15, used & 15], 1)
    means = (levels * 16 + 7.5).astype(np.float32)
    centres = _pick_centres(means, counts[used], flat.size, min_px / flat.size)
    lut = np.full(size, -1, np.int16)
    if len(centres):
        distance = np.abs(means[:, None] - centres[None]).max(2)
        best = distance.argmin(1)
        near = distance[np.arange(len(used)), best] <= tolerance
        lut[used[near]] = best[near]
        centres = _refine(means, counts[used], lut[used], centres)
    index = lut[key]
    held = np.bincount(np.maximum(lut[used], 0), weights=counts[used] * (lut[used] >= 0), minlength=len(centres))
    return Palette(centres, index, (held[: len(centres)] / flat.size).astype(np.float32))


def _refine(
    means: NDArray[np.float32],
    counts: NDArray[np.int64],
    owner: NDArray[np.int16],
    centres: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Return the flat colours of an image, each replaced by the mean colour of the bins that belong to it.

    A bin is a group of similar colours. The mean is used because noise spreads a flat colour over several bins. Bins
    whose colour is not close to the flat colour are left out of the mean. ``means`` are the colours of the bins (n, 3),
    ``counts`` their numbers of pixels, and ``owner`` the index of the flat colour to which each bin belongs (-1: none).
    ``centres`` are the flat colours before this change.
    """
    close = np.abs(means[None] - centres[:, None]).max(2) <= 17
    weights = (close & (owner[None] == np.arange(len(centres))[:, None])) * counts
    total = weights.sum(1, keepdims=True)
    return np.where(total > 0, weights @ means / np.maximum(total, 1), centres).astype(np.float32)
