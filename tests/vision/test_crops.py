"""Crops by hand, for every degenerate case, and what holds of any boxes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.schemas.geometry import Box
from groundtrace.vision.crops import Crop, CropSettings, crops_of, cut

SIZE = (400, 300)
BARE = CropSettings(margin=0.0, min_side_px=1)


def box(*corners: float, image: int = 0) -> Box:
    return Box("thing", *corners, media_index=image)


CASES = [
    ("no boxes", [], BARE, []),
    ("one box: nothing around it besides", [box(10, 20, 110, 80)], BARE, [(0, 10, 20, 110, 80, False)]),
    (
        "two boxes and the smallest rectangle around both",
        [box(10, 20, 60, 80), box(200, 100, 300, 250)],
        BARE,
        [(0, 10, 20, 60, 80, False), (0, 200, 100, 300, 250, False), (0, 10, 20, 300, 250, True)],
    ),
    ("whole pixels that hold the box", [box(10.4, 20.6, 110.2, 80.5)], BARE, [(0, 10, 20, 111, 81, False)]),
    ("a margin", [box(100, 100, 200, 150)], CropSettings(0.1, 1), [(0, 90, 95, 210, 155, False)]),
    ("cut at the edges", [box(-20, 250, 100, 340)], BARE, [(0, 0, 250, 100, 300, False)]),
    ("outside of the image", [box(500, 10, 600, 90)], BARE, []),
    ("no area", [box(50, 50, 50, 90)], BARE, []),
    ("not a number", [box(math.nan, 0, 50, 50), box(0, 0, math.inf, 9)], BARE, []),
    ("widened about its middle", [box(100, 100, 110, 120)], CropSettings(0.0, 50), [(0, 80, 85, 130, 135, False)]),
    ("widened and moved inside", [box(0, 290, 10, 300)], CropSettings(0.0, 50), [(0, 0, 250, 50, 300, False)]),
    ("the whole image is there already", [box(0, 0, 400, 300)], BARE, []),
    ("the same box twice", [box(10, 20, 60, 80), box(10, 20, 60, 80)], BARE, [(0, 10, 20, 60, 80, False)]),
    (
        "beyond the cap only the one around all",
        [box(10, 10, 50, 50), box(60, 60, 90, 90), box(200, 200, 250, 250)],
        CropSettings(0.0, 1, 1),
        [(0, 10, 10, 50, 50, False), (0, 10, 10, 250, 250, True)],
    ),
]


@pytest.mark.parametrize(("boxes", "settings", "crops"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_crops_by_hand(boxes: list[Box], settings: CropSettings, crops: list[tuple]) -> None:
    assert crops_of(boxes, [SIZE], settings) == tuple(Crop(*crop) for crop in crops)


def test_each_image_has_its_own_and_a_clip_none() -> None:
    boxes = [box(10, 10, 60, 60, image=2), box(10, 10, 60, 60), box(5, 5, 60, 60, image=1), box(1, 1, 9, 9, image=7)]
    found = crops_of(boxes, [SIZE, None, (80, 80)], BARE)
    assert [(crop.media_index, crop.rectangle) for crop in found] == [(0, (10, 10, 60, 60)), (2, (10, 10, 60, 60))]


CORNERS = st.floats(-500, 900, allow_nan=False)


@given(
    st.lists(st.builds(box, CORNERS, CORNERS, CORNERS, CORNERS), max_size=12),
    st.tuples(st.integers(1, 500), st.integers(1, 500)),
    st.builds(CropSettings, st.floats(0, 2), st.integers(1, 600), st.integers(1, 4)),
)
def test_crops_lie_in_the_image_and_differ(boxes: list[Box], size: tuple[int, int], settings: CropSettings) -> None:
    found = crops_of(boxes, [size], settings)
    width, height = size
    for crop in found:
        assert 0 <= crop.left < crop.right <= width
        assert 0 <= crop.top < crop.bottom <= height
        assert crop.right - crop.left >= min(settings.min_side_px, width)
        assert crop.bottom - crop.top >= min(settings.min_side_px, height)
    rectangles = [crop.rectangle for crop in found]
    assert len(set(rectangles)) == len(rectangles)
    assert (0, 0, *size) not in rectangles
    assert sum(not crop.is_union for crop in found) <= settings.max_boxes
    unions = [crop for crop in found if crop.is_union]
    assert len(unions) <= 1
    for union in unions:
        assert all(
            union.left <= c.left and union.top <= c.top and union.right >= c.right and union.bottom >= c.bottom
            for c in found
            if settings.min_side_px == 1
        )


def test_cut_is_a_copy() -> None:
    pixels = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    found = cut(pixels, Crop(0, 1, 2, 5, 4))
    assert found.shape == (2, 4, 3)
    assert (found == pixels[2:4, 1:5]).all()
    found[:] = 0
    assert pixels[2, 1].any()


@pytest.mark.parametrize("margin", ["inf", "nan", "-0.1"])
def test_a_margin_is_a_finite_share(margin: str) -> None:
    with pytest.raises(ValueError, match="margin"):
        CropSettings(margin=float(margin))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (CropSettings(0.0, 1, union=False), [(100, 100, 200, 150), (300, 200, 350, 250)]),
        (CropSettings(0.0, 1, single=False), [(100, 100, 350, 250)]),
    ],
)
def test_one_kind_of_crops_alone(settings: CropSettings, expected: list[tuple[int, int, int, int]]) -> None:
    """iVGR Table 4: with crops, or with the union crop."""
    boxes = [box(100, 100, 200, 150), box(300, 200, 350, 250)]
    assert [crop.rectangle for crop in crops_of(boxes, [SIZE], settings)] == expected


def test_no_crops_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="single or union must be true"):
        CropSettings(single=False, union=False)
