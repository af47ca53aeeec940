"""Exact and near identity of pictures, on rendered scenes."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.vision.hashing import dhash, hamming, pixel_sha256, same_image, sha256_bytes
from groundtrace.vision.samples import Pixels

RED, GREEN, BLUE = (220, 30, 30), (20, 130, 40), (0, 150, 255)


def scene(x: int = 30, colour: tuple[int, int, int] = RED, width: int = 400, height: int = 100) -> Pixels:
    """Three grey panels with four objects; the first, 12 pixels wide, at ``x``."""
    canvas = np.full((height, width, 3), 211, np.uint8)
    canvas[:, width // 3 : width // 3 + 30] = 128
    cv2.rectangle(canvas, (x, 40), (x + 11, 51), colour, cv2.FILLED)
    cv2.circle(canvas, (80, 70), 15, BLUE, cv2.FILLED, cv2.LINE_AA)
    cv2.rectangle(canvas, (200, 10), (230, 40), (0, 0, 0), cv2.FILLED)
    cv2.circle(canvas, (330, 50), 20, (255, 255, 0), cv2.FILLED, cv2.LINE_AA)
    return canvas


def jpeg(pixels: Pixels, quality: int) -> Pixels:
    data = cv2.imencode(".jpg", pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    return cv2.imdecode(data, cv2.IMREAD_COLOR_RGB).astype(np.uint8)


def resized(pixels: Pixels, factor: float) -> Pixels:
    return cv2.resize(pixels, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA).astype(np.uint8)


BASE = scene()
# The same luminance as red to within one step, so only the colour tells them apart.
EQUALLY_BRIGHT = (30, 124, 40)


@pytest.mark.parametrize(
    ("name", "other", "same"),
    [
        ("itself", BASE.copy(), True),
        ("jpeg 95", jpeg(BASE, 95), True),
        ("jpeg 75", jpeg(BASE, 75), True),
        ("half the size", resized(BASE, 0.5), True),
        ("two thirds", resized(BASE, 2 / 3), True),
        ("twice the size, then jpeg", jpeg(resized(BASE, 2), 85), True),
        ("object moved by its width", scene(x=42), False),
        ("object moved by three pixels", scene(x=33), False),
        ("object recoloured", scene(colour=BLUE), False),
        ("object recoloured, equally bright", scene(colour=EQUALLY_BRIGHT), False),
        ("object gone", scene(colour=(211, 211, 211)), False),
        ("moved, half the size, jpeg", jpeg(resized(scene(x=42), 0.5), 85), False),
        ("mirrored", np.ascontiguousarray(BASE[:, ::-1]), False),
        ("brighter all over", np.minimum(BASE, 235) + np.uint8(20), False),
        ("another shape", BASE[:, :380], False),
        ("far smaller", resized(BASE, 0.1), False),
    ],
)
def test_same_picture(name: str, other: Pixels, same: bool) -> None:
    assert same_image(BASE, other) is same, name
    assert same_image(other, BASE) is same, name


def test_the_hash_alone_would_have_merged_moved_objects() -> None:
    assert hamming(dhash(BASE), dhash(scene(x=42))) <= 4
    assert not same_image(BASE, scene(x=42))


def test_dhash_bits() -> None:
    rising = np.repeat(np.tile(np.arange(9, dtype=np.uint8) * 20, (8, 1))[:, :, None], 3, 2)
    assert dhash(rising) == 2**64 - 1
    assert dhash(np.ascontiguousarray(rising[:, ::-1])) == 0
    bright = rising.copy()
    bright[0, 0] = 255  # only the first comparison turns
    assert dhash(bright) == 2**63 - 1


def test_dhash_survives_encoding_and_size() -> None:
    assert hamming(dhash(BASE), dhash(jpeg(BASE, 80))) <= 8
    assert hamming(dhash(BASE), dhash(resized(BASE, 0.5))) <= 8
    assert 0 <= dhash(np.zeros((1, 1, 3), np.uint8)) < 2**64


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_hamming_is_a_distance(a: int, b: int, c: int) -> None:
    assert hamming(a, b) == hamming(b, a) == bin(a ^ b).count("1")
    assert (hamming(a, b) == 0) == (a == b)
    assert hamming(a, c) <= hamming(a, b) + hamming(b, c)


def test_digests() -> None:
    assert sha256_bytes(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    flat = np.zeros((2, 6, 3), np.uint8)
    assert pixel_sha256(flat) == pixel_sha256(flat.copy())
    assert pixel_sha256(flat) != pixel_sha256(flat.reshape(3, 4, 3))
    assert pixel_sha256(BASE) == pixel_sha256(np.asfortranarray(BASE))
    assert pixel_sha256(BASE) != pixel_sha256(jpeg(BASE, 95))
