"""Samples as decoders hand them over, and the pixels that they become."""

import numpy as np
import pytest

from groundtrace.vision import samples
from groundtrace.vision.samples import Samples, to_rgb, upright

GREY = np.arange(6, dtype=np.uint8).reshape(3, 2) * 50
BGR = np.dstack([GREY, GREY + 1, GREY + 2])
CLEAR = np.dstack([BGR, np.zeros_like(GREY)])


@pytest.mark.parametrize("stripe_bytes", [1, 7, 2**20])
@pytest.mark.parametrize(
    ("given", "rgb"),
    [
        (GREY, np.dstack([GREY] * 3)),
        (BGR, BGR[:, :, ::-1]),
        (np.dstack([BGR, np.full_like(GREY, 255)]), BGR[:, :, ::-1]),
        (CLEAR, np.full_like(BGR, 255)),
        (GREY.astype(np.uint16) * 257, np.dstack([GREY] * 3)),
        (np.full((3, 2, 4), 128, np.uint8), np.full((3, 2, 3), (128 * 128 + 255 * 127 + 127) // 255)),
    ],
    ids=["grey", "BGR", "opaque", "transparent", "16 bits", "half transparent"],
)
def test_samples_become_rgb_on_white(
    given: Samples, rgb: Samples, stripe_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "STRIPE_BYTES", stripe_bytes)
    pixels = to_rgb(given)
    assert pixels.dtype == np.uint8
    assert pixels.tolist() == rgb.tolist()


TURNED = ["ab cd ef", "ba dc fe", "fe dc ba", "ef cd ab", "ace bdf", "eca fdb", "fdb eca", "bdf ace"]


@pytest.mark.parametrize(("orientation", "rows"), enumerate(TURNED, 1))
def test_an_orientation_is_undone(orientation: int, rows: str) -> None:
    stored = np.frombuffer(b"abcdef", np.uint8).reshape(3, 2, 1)
    found = upright(stored, orientation)
    assert [bytes(row).decode() for row in found[:, :, 0]] == rows.split()
    assert found.flags.c_contiguous
