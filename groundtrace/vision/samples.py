"""Converts a decoder's samples (raw channel values) to upright 8-bit RGB pixels, and puts transparent images on a white
background.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""The pixels of an upright image: ``(H, W, 3)`` uint8 RGB."""
Samples = NDArray[np.integer | np.floating]
"""A decoder's output before conversion: grey, BGR or BGRA of any bit depth."""

STRIPE_BYTES = 32 * 2**20


def to_rgb(samples: Samples) -> Pixels:
    """Convert the values of an image that OpenCV has decoded, and return its RGB pixels as ``(H, W, 3)`` uint8.

    ``samples`` holds grey, BGR or BGRA values of 8 or 16 bits. Transparent pixels are composited on white. Large images
    are converted in stripes, because intermediate results need several times the memory of the samples.
    """
    rows = max(1, STRIPE_BYTES // max(1, samples[:1].nbytes))
    if len(samples) <= rows:
        return _stripe_to_rgb(samples)
    pixels = np.empty((*samples.shape[:2], 3), np.uint8)
    for first in range(0, len(samples), rows):
        pixels[first : first + rows] = _stripe_to_rgb(samples[first : first + rows])
    return pixels


def _stripe_to_rgb(samples: Samples) -> Pixels:
    if samples.dtype == np.uint16:
        samples = ((samples.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if samples.ndim == 2:
        return cv2.cvtColor(samples, cv2.COLOR_GRAY2RGB).astype(np.uint8, copy=False)
    if samples.shape[2] == 3:
        return cv2.cvtColor(samples, cv2.COLOR_BGR2RGB).astype(np.uint8, copy=False)
    rgb = cv2.cvtColor(samples, cv2.COLOR_BGRA2RGB).astype(np.uint8, copy=False)
    alpha = samples[:, :, 3]
    if alpha.min() == 255:
        return rgb
    weight = alpha.astype(np.uint16)[:, :, None]
    return ((rgb * weight + 255 * (255 - weight) + 127) // 255).astype(np.uint8)


def upright(pixels: Pixels, orientation: int) -> Pixels:
    """Return the image turned and mirrored so that it is upright.

    ``pixels`` is the image as it is stored. ``orientation`` is its EXIF orientation, 1 to 8 (EXIF 2.32, tag 274); 1
    changes nothing.
    """
    if orientation in (5, 6, 7, 8):
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)
