"""Makes a coarsened view of an image: shifted, downscaled, blurred and noisy.

The policy is the model whose answers are sampled. The embedded engine (OpenCV, no model) can do the job of the policy.
The engine then sees a view of the image instead of the image. Each sampled answer gets another random view. So some of
the answers are wrong because the image is hard (small, touching or crowded objects). The pass rate of a question
therefore depends on its image, and not on pure chance.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

DEFAULT_POLICY_STRENGTH = 0.75
_MIN_SIDE_PX = 12


def coarse_view(
    image: NDArray[np.uint8], rng: np.random.Generator, strength: float = DEFAULT_POLICY_STRENGTH
) -> tuple[NDArray[np.uint8], float]:
    """Make a randomly coarsened view of an RGB image, uint8 (H, W, 3). Return the view and its scale.

    `rng` is the random generator. `strength` is the degree of coarsening: 0 returns the image itself and scale 1;
    larger values give coarser views. If `strength` is above 0, the view is scaled, blurred, tinted, made noisy, and
    shifted. The amounts of these changes are random; the shift is less than one view pixel. The scale is view pixels /
    image pixels. A point (x, y) of the view is at (x / scale, y / scale) in the image, with an error of at most one
    view pixel. Raises ValueError for a negative strength.
    """
    if strength < 0:
        raise ValueError(f"strength must not be negative, got {strength}")
    if strength == 0:
        return image, 1.0
    height, width = image.shape[:2]
    scale = float(np.exp(-strength * rng.uniform(0.75, 1.65)))
    scale = min(1.0, max(scale, _MIN_SIDE_PX / min(height, width)))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    shift = rng.uniform(-0.5, 0.5, 2)
    sigma = (0.35 + 0.25 * min(strength, 2.0) * rng.random()) / scale
    blurred = cv2.GaussianBlur(image, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE)
    # Pixel centres are at half integers: x_view + 0.5 = scale * (x_image + 0.5) + shift.
    offset = 0.5 * scale - 0.5 + shift
    place = np.array([[scale, 0.0, offset[0]], [0.0, scale, offset[1]]])
    view = cv2.warpAffine(blurred, place, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    level = min(strength, 3.0)
    cast = rng.normal(0.0, 3.0 * level, 3).astype(np.float32)
    noise = rng.standard_normal(view.shape, np.float32) * np.float32(2.0 * level)
    seen = np.clip(view + noise + cast, 0, 255).astype(np.uint8)
    return seen, scale
