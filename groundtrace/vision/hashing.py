"""Finds exact duplicates of images (SHA-256 of bytes or pixels) and near duplicates (difference hash, then pixels).

The difference hash only proposes pairs, because rendered scenes that differ by one object often have the same hash.
:func:`same_image` then compares the pixels of a pair. Re-encoding changes pixels a little. A pair is a duplicate only
if re-encoding can explain the difference of every pixel.
"""

from __future__ import annotations

import hashlib
from typing import Final

import cv2
import numpy as np

from groundtrace.vision.samples import Pixels

MAX_LOCAL_DIFFERENCE: Final = 64
MAX_MEAN_DIFFERENCE: Final = 6.0
MAX_ASPECT_DISAGREEMENT: Final = 0.02
MAX_SCALE: Final = 4.0


def sha256_bytes(data: bytes) -> str:
    """Return the SHA-256 of the bytes in lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def pixel_sha256(pixels: Pixels) -> str:
    """Return the SHA-256 of an image's shape and pixel values in lower-case hexadecimal digits.

    The digest is the same for every lossless encoding of the same image.
    """
    digest = hashlib.sha256(f"{pixels.shape}{pixels.dtype}".encode())
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()


def dhash(pixels: Pixels) -> int:
    """Return the 64-bit difference hash: one bit for each of 8x8 cells, row by row; the first cell is the highest bit.

    A bit is 1 if its cell is darker than the cell to its right. ``pixels`` is ``(H, W, 3)`` uint8 RGB.
    """
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    height, width = grey.shape
    step = min(height // 64, width // 72)
    if step > 1:  # first by an integer factor: many times as fast as a single resize by a fraction
        whole = grey[: height // step * step, : width // step * step]
        grey = cv2.resize(whole, (width // step, height // step), interpolation=cv2.INTER_AREA)
    small = cv2.resize(grey, (9, 8), interpolation=cv2.INTER_AREA)
    return int.from_bytes(np.packbits(small[:, :-1] < small[:, 1:]).tobytes(), "big")


def hamming(a: int, b: int) -> int:
    """Return the number of bits in which two hashes differ."""
    return (a ^ b).bit_count()


def same_image(a: Pixels, b: Pixels) -> bool:
    """Return whether two RGB images show the same pixels. Differences that are due to re-encoding, or to a change of
    scale by a factor of at most 4, are ignored.

    The larger image is scaled down to the size of the smaller image. The images are different in three cases:

    - The grey value of a pixel differs by more than 64. Grey values are smoothed over 3x3 pixels, which removes
      compression ringing.
    - A colour channel of a pixel differs by more than 64. Channels are smoothed over 5x5 pixels, because chroma is
      stored at half size.
    - The mean difference of all pixels exceeds 6 of 255.

    Therefore a single object that was moved or recoloured makes the images different, however small it is. Fainter
    changes are ignored. Images with different aspect ratios are different, too. The order of the arguments does not
    matter.
    """
    if a.shape == b.shape and np.array_equal(a, b):
        return True
    small, large = sorted((a, b), key=lambda p: (p.shape[0] * p.shape[1], p.shape))
    (height, width), (height_l, width_l) = small.shape[:2], large.shape[:2]
    aspect, aspect_l = width / height, width_l / height_l
    if abs(aspect - aspect_l) > MAX_ASPECT_DISAGREEMENT * min(aspect, aspect_l):
        return False
    if max(width_l / width, height_l / height) > MAX_SCALE:
        return False
    if small.shape != large.shape:
        large = cv2.resize(large, (width, height), interpolation=cv2.INTER_AREA)
    grey, grey_l = (cv2.blur(cv2.cvtColor(p, cv2.COLOR_RGB2GRAY), (3, 3)) for p in (small, large))
    if cv2.absdiff(grey, grey_l).max() > MAX_LOCAL_DIFFERENCE:
        return False
    if cv2.absdiff(cv2.blur(small, (5, 5)), cv2.blur(large, (5, 5))).max() > MAX_LOCAL_DIFFERENCE:
        return False
    return float(cv2.absdiff(small, large).mean()) <= MAX_MEAN_DIFFERENCE
