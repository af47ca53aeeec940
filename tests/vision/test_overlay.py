"""Overlays are legible at any size, keep captions apart, and are the same every time."""

from __future__ import annotations

import io
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from groundtrace.vision import overlay
from groundtrace.vision.decode import decode_image
from groundtrace.vision.overlay import MIN_FONT_PX, BoxMark, OverlayPoint, draw_overlay, encode_png
from groundtrace.vision.samples import Pixels

GOLDEN = Path(__file__).parent / "golden"


def flat(width: int, height: int, shade: int = 200) -> Pixels:
    return np.full((height, width, 3), shade, np.uint8)


def scene() -> Pixels:
    """A 200x60 picture with three plain objects."""
    canvas = flat(200, 60, 211)
    cv2.rectangle(canvas, (20, 20), (39, 39), (0, 150, 255), cv2.FILLED)
    cv2.circle(canvas, (100, 30), 12, (0, 0, 0), cv2.FILLED)
    cv2.rectangle(canvas, (150, 5), (179, 34), (255, 255, 0), cv2.FILLED)
    return canvas


def scattered(width: int, height: int, count: int) -> list[OverlayPoint]:
    rng = np.random.default_rng(count)
    return [OverlayPoint(i + 1, "red car", *(rng.random(2) * (width, height)).tolist()) for i in range(count)]


POINTS = [
    OverlayPoint(1, "blue square", 30, 30),
    OverlayPoint(2, "cercle noir é", 100, 30),
    OverlayPoint(3, "黄色", 165.4, 20),
]
BOXES: list[BoxMark] = [(1, "square", 20, 20, 40, 40), (2, "circle", 88, 18, 113, 43)]
GOLDEN_CASES: dict[str, tuple[Pixels, list[OverlayPoint], list[BoxMark]]] = {
    "points": (scene(), POINTS, []),
    "boxes": (scene(), [], BOXES),
    "tiny": (np.arange(75, dtype=np.uint8).reshape(5, 5, 3) * 3, [OverlayPoint(1, "corner", 0.5, 4.5)], []),
    "crowded": (scene(), scattered(200, 60, 16), []),
}


@pytest.mark.parametrize("name", GOLDEN_CASES)
def test_golden(name: str) -> None:
    drawn = draw_overlay(*GOLDEN_CASES[name])
    expected = np.asarray(Image.open(GOLDEN / f"{name}.png").convert("RGB"))
    assert drawn.shape == expected.shape
    # Other releases of FreeType and OpenCV shade edges a little differently.
    differing = np.abs(drawn.astype(int) - expected).max(2) > 48
    assert differing.mean() < 0.01


def captions_of(width: int, height: int, marks: list[OverlayPoint]) -> tuple[int, overlay.Floats]:
    """The enlargement and the captions' rectangles for marks on a plain picture."""
    decimals = 1 if max(width, height) < 100 else 0
    written = [(overlay._written(m.x, decimals), overlay._written(m.y, decimals)) for m in marks]
    bare = [f"{m.number} ({x}, {y})" for m, (x, y) in zip(marks, written, strict=True)]
    scale, font_px, captions = overlay._fit(bare, [m.label for m in marks], width, height)
    sizes = [overlay.lettering(text, font_px, 3)[0].shape[1::-1] for text in captions]
    targets = np.array([(m.x, m.y, m.x, m.y) for m in marks]) * scale
    canvas = flat(width * scale, height * scale)
    return scale, overlay._place(canvas, targets, len(marks), np.array(sizes, np.float64), 6.0)


SIZES = [(5, 5, 1), (1, 1, 1), (5, 5, 3), (400, 100, 20), (64, 48, 40), (1280, 960, 8)]
SIZES += [(9, 300, 3), (12, 1500, 3), (1800, 7, 4), (640, 480, 40), (2520, 8526, 5)]


@pytest.mark.parametrize(("width", "height", "count"), SIZES)
def test_captions_are_legible_at_any_size(width: int, height: int, count: int) -> None:
    marks = scattered(width, height, count)
    scale, rects = captions_of(width, height, marks)
    assert draw_overlay(flat(width, height), marks).shape == (height * scale, width * scale, 3)
    assert len(rects) == count
    assert (rects[:, 3] - rects[:, 1] >= 1.2 * MIN_FONT_PX).all()
    assert rects.min() >= 0
    assert (rects[:, 2:] <= (width * scale, height * scale)).all()
    areas = (rects[:, 2:] - rects[:, :2]).prod(1)
    covered_twice = (overlay._overlaps(rects, rects) - np.diag(areas)).sum() / 2
    assert covered_twice < 0.02 * areas.sum()


def test_large_pictures_are_not_enlarged_and_their_text_grows() -> None:
    assert draw_overlay(flat(1280, 960), [OverlayPoint(1, "a", 3, 4)]).shape == (960, 1280, 3)
    assert overlay._fit(["1 (3, 4)"], ["a"], 2520, 8526)[1] > 3 * MIN_FONT_PX


def test_a_point_marks_its_own_pixel_after_enlarging() -> None:
    picture = flat(5, 5, 255)
    drawn = draw_overlay(picture, [OverlayPoint(1, "", 2.5, 1.5)])
    scale = drawn.shape[0] // 5
    assert scale > 1
    centre = drawn[int(1.5 * scale), int(2.5 * scale)].tolist()
    assert centre == list(overlay._COLOURS[0])
    assert (draw_overlay(picture, [OverlayPoint(1, "", 2.5, 1.5)])[-1, -1] == 255).all()


def test_captions_hold_original_coordinates() -> None:
    assert overlay._written(426.6, 0) == "427"
    assert overlay._written(2.0, 1) == "2"
    assert overlay._written(2.46, 1) == "2.5"
    assert overlay._written(-0.2, 0) == "0"
    scale, _, captions = overlay._fit(["1 (3, 4)"], ["dog"], 50, 50)
    assert scale > 1
    assert captions == ["1 (3, 4) dog"]


@pytest.mark.parametrize(
    ("label", "written"),
    [
        ("red dog", "red dog"),
        ("  two\n lines\t", "two lines"),
        ("Müller, señor, Ångström", "Muller, senor, Angstrom"),
        ("Łódź", ""),
        ("日本", ""),
        ("dog 🐕", ""),
        ("a\u202eb", ""),
        ("a\0b", ""),
        ("", ""),
        ("x" * 5000, "x" * 31 + "…"),
    ],
)
def test_labels_that_cannot_be_written_leave_the_number(label: str, written: str) -> None:
    assert overlay._writable(label) == written


def test_text_goes_where_nothing_is_hidden() -> None:
    picture = flat(600, 600, 255)
    picture[:300] = np.random.default_rng(0).integers(0, 256, (300, 600, 3), dtype=np.uint8)
    drawn = draw_overlay(picture, [OverlayPoint(1, "object", 300, 295)])
    changed = np.argwhere((drawn != picture).any(2))
    assert (changed[:, 0] >= 300).mean() > 0.7


def test_nothing_to_draw_is_a_copy() -> None:
    picture = flat(8, 8)
    drawn = draw_overlay(picture, [])
    assert np.array_equal(drawn, picture)
    assert drawn is not picture


def test_the_input_is_left_alone_even_if_read_only() -> None:
    picture = scene()
    before = picture.copy()
    picture.flags.writeable = False
    assert not np.array_equal(draw_overlay(picture, POINTS, BOXES)[:60, :200], before)
    assert np.array_equal(picture, before)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_coordinates_must_be_finite(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        draw_overlay(flat(50, 50), [OverlayPoint(1, "a", bad, 1)])
    with pytest.raises(ValueError, match="finite"):
        draw_overlay(flat(50, 50), [], [(1, "a", 0, 0, bad, 1)])


@settings(max_examples=60)
@given(
    st.integers(1, 300),
    st.integers(1, 300),
    st.lists(
        st.tuples(st.integers(-5, 10**6), st.text(max_size=40), st.floats(-1e9, 1e9), st.floats(-9, 400)),
        max_size=6,
    ),
)
def test_any_marks_on_any_small_picture(width: int, height: int, marks: list[tuple[int, str, float, float]]) -> None:
    points = [OverlayPoint(*m) for m in marks]
    drawn = draw_overlay(flat(width, height), points, [(9, "box", -3.0, 5.0, 1e4, 2.0)])
    assert drawn.dtype == np.uint8
    assert np.array_equal(drawn, draw_overlay(flat(width, height), points, [(9, "box", -3.0, 5.0, 1e4, 2.0)]))


def test_png_is_lossless_and_stable() -> None:
    drawn = draw_overlay(scene(), POINTS)
    data = encode_png(drawn)
    assert data == encode_png(draw_overlay(scene(), POINTS))
    assert np.array_equal(decode_image(data).pixels, drawn)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), drawn)
