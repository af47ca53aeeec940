from collections import Counter

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.embedded.sight.by_colour import find_shapes
from groundtrace.embedded.sight.shapes import FoundShape


def labels(image):
    shapes = find_shapes(image)
    return None if shapes is None else Counter(shape.label for shape in shapes)


@pytest.mark.parametrize("name", ["scattered", "towers"])
def test_every_drawn_object_is_found_once_with_a_point_on_it(name, request):
    drawn = request.getfixturevalue(name)
    shapes = find_shapes(drawn.image)
    assert shapes is not None
    assert Counter(s.label for s in shapes) == Counter(label for label, _ in drawn.boxes)
    for shape in shapes:
        truth = min(drawn.boxes, key=lambda item: np.abs(np.subtract(item[1], shape.box_px)).sum())
        assert truth[0] == shape.label
        assert np.abs(np.subtract(truth[1], shape.box_px)).max() <= 1
        x, y = (int(v) for v in shape.point_px)
        assert (drawn.image[y, x] != (211, 211, 211)).any()


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([("red circle", 20, 20, 40), ("red circle", 59, 20, 40)], {"red circle": 2}),
        ([("blue square", 20, 20, 30), ("blue square", 50, 35, 30)], {"blue square": 2}),
        (
            [("blue square", 20, 20, 30), ("blue triangle", 49, 20, 30)],
            {"blue square": 1, "blue triangle": 1},
        ),
        (
            [("red square", 20, 20, 20), ("red square", 20, 40, 20), ("red square", 90, 9, 20)],
            {"red square": 3},
        ),
    ],
)
def test_touching_objects_of_one_colour_are_cut_apart(canvas, pieces, expected):
    drawn = canvas(200, 100)
    for piece in pieces:
        drawn.add(*piece)
    assert labels(drawn.image) == expected


def test_a_long_bar_stays_a_rectangle_without_blocks_of_its_width(canvas):
    image = canvas(200, 100).image
    image[20:80, 30:50] = (220, 30, 30)
    assert labels(image) == {"red rectangle": 1}


def test_polygons_and_outlines():
    image = np.full((160, 400, 3), 240, np.uint8)
    for corners, x, rgb in ((5, 60, (128, 0, 160)), (6, 160, (30, 160, 60))):
        turns = 2 * np.pi * np.arange(corners) / corners
        ring = np.stack([x + 40 * np.sin(turns), 80 - 40 * np.cos(turns)], 1)
        cv2.fillPoly(image, [ring.round().astype(np.int32)], rgb)
    cv2.circle(image, (260, 80), 35, (220, 30, 30), 3)
    cv2.ellipse(image, (350, 80), (40, 20), 0, 0, 360, (0, 0, 0), -1)
    assert labels(image) == {"purple pentagon": 1, "green hexagon": 1, "red circle": 1, "black ellipse": 1}
    ring = next(s for s in find_shapes(image) if s.colour == "red")
    assert tuple(image[int(ring.point_px[1]), int(ring.point_px[0])]) == (220, 30, 30)


def test_crossing_outlines_cannot_be_read():
    image = np.full((120, 200, 3), 255, np.uint8)
    for x in (60, 90, 120):
        cv2.circle(image, (x, 60), 25, (0, 0, 0), 2)
    assert find_shapes(image) is None


def test_photographs_and_text_cannot_be_read():
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (80, 120, 3), np.uint8)
    assert find_shapes(noise) is None
    assert find_shapes(cv2.resize(noise[:8, :12], (240, 160), interpolation=cv2.INTER_CUBIC)) is None
    text = np.full((120, 400, 3), 255, np.uint8)
    for row in range(20, 120, 25):
        cv2.putText(text, "Total amount 12.50 due", (5, row), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (0, 0, 0), 1)
    assert find_shapes(text) is None


def test_a_blank_picture_holds_nothing_and_a_tiny_one_cannot_be_read():
    assert find_shapes(np.full((60, 60, 3), 200, np.uint8)) == []
    for size in ((1, 1), (5, 5), (1, 1000), (1000, 1)):
        assert find_shapes(np.full((*size, 3), 200, np.uint8)) is None


def test_a_large_picture_is_read_in_its_own_pixels(canvas):
    drawn = canvas(2400, 1200).add("red square", 300, 200, 240).add("blue circle", 1500, 500, 400)
    shapes = find_shapes(drawn.image)
    assert [s.label for s in shapes] == ["red square", "blue circle"]
    for shape, (_, box) in zip(shapes, drawn.boxes, strict=True):
        assert np.abs(np.subtract(shape.box_px, box)).max() < 4


def test_scaling_a_shape_scales_box_point_and_area():
    shape = FoundShape("red", "square", (2.0, 4.0, 6.0, 8.0), (4.0, 6.0), 16.0).scaled(0.5)
    assert shape == FoundShape("red", "square", (1.0, 2.0, 3.0, 4.0), (2.0, 3.0), 4.0)


@settings(max_examples=40)
@given(st.data())
def test_any_picture_of_separate_shapes_is_counted(data):
    image = np.full((100, 300, 3), 211, np.uint8)
    expected = 0
    for column in range(6):
        if data.draw(st.booleans()):
            side = data.draw(st.integers(12, 40))
            y = data.draw(st.integers(0, 100 - side))
            image[y : y + side, column * 50 : column * 50 + side] = data.draw(
                st.sampled_from([(255, 255, 0), (0, 0, 0), (220, 30, 30)])
            )
            expected += 1
    shapes = find_shapes(image)
    assert shapes is not None and len(shapes) == expected
    assert all(shape.kind == "square" for shape in shapes)
