"""Finds exact duplicates of images (SHA-256 of bytes or pixels) and near duplicates (difference hash, then pixels).

The difference hash has 64 bits, each of which states whether a cell of the image is darker than the cell to its right.
The hash only proposes pairs of possible duplicates, because rendered scenes that differ by one object often have the
same hash. :func:`same_image` then compares the pixels of a pair. Re-encoding changes pixels a little. A pair is a
duplicate only if re-encoding can explain the difference of every pixel.
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
    """Return the SHA-256 of the bytes as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def pixel_sha256(pixels: Pixels) -> str:
    """Return the SHA-256 of an image's shape and pixel values as 64 lower-case hexadecimal digits.

    ``pixels`` is the decoded image. Lossless files of the same image (e.g. a PNG and a BMP) therefore have the same
    digest.
    """
    digest = hashlib.sha256(f"{pixels.shape}{pixels.dtype}".encode())
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()


def dhash(pixels: Pixels) -> int:
    """Return the 64-bit difference hash of an image, by which near duplicates are found.

    ``pixels`` is ``(H, W, 3)`` uint8 RGB. The image is scaled down to a grid of grey values. The hash has one bit for
    each of 8x8 cells, row by row; the first cell is the highest bit. A bit is 1 if its cell is darker than the cell to
    its right.
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
    """Return the number of bits in which two hashes (:func:`dhash`) differ: 0 for equal hashes, at most 64."""
    return (a ^ b).bit_count()


def same_image(a: Pixels, b: Pixels) -> bool:
    """Return whether two RGB images show the same content, so that one is a duplicate of the other.

    ``a`` and ``b`` are ``(H, W, 3)`` uint8. Small differences that re-encoding causes are ignored. A difference in
    scale by a factor of at most 4 is ignored: the larger image is scaled down to the size of the smaller image. The
    images are different if at least one of these conditions is true:

    - The aspect ratios differ by more than 2 %, or the scales by more than a factor of 4.
    - The grey value of a pixel differs by more than 64 of 255. Grey values are smoothed over 3x3 pixels, which removes
      compression ringing.
    - A colour channel of a pixel differs by more than 64. Channels are smoothed over 5x5 pixels, because JPEG stores
      colour at half size.
    - The mean difference of all pixels exceeds 6 of 255.

    Therefore the images are different if an object, even a small one, was clearly moved or clearly recoloured. Fainter
    changes are ignored. The order of the arguments does not matter.
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
