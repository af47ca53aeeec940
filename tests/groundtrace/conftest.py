"""An image with three squares."""

from pathlib import Path

import cv2
import numpy as np
import pytest


@pytest.fixture
def squares(tmp_path: Path) -> Path:
    """Three squares of 20 px, centred on (18, 40), (42, 40) and (66, 40), on light grey."""
    image = np.full((80, 160, 3), 211, np.uint8)
    for left in (8, 32, 56):
        image[30:50, left : left + 20] = (0, 0, 0)
    path = tmp_path / "squares.png"
    cv2.imwrite(str(path), image)
    return path
