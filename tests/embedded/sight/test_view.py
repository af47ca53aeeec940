import numpy as np
import pytest

from groundtrace.embedded.sight.by_colour import find_shapes
from groundtrace.embedded.sight.view import DEFAULT_POLICY_STRENGTH, coarse_view


def test_strength_zero_is_the_image_itself(scattered):
    view, scale = coarse_view(scattered.image, np.random.default_rng(0), 0.0)
    assert scale == 1.0 and np.array_equal(view, scattered.image)


def test_same_seed_same_view_and_other_seed_another(scattered):
    first, second, other = (coarse_view(scattered.image, np.random.default_rng(s)) for s in (3, 3, 4))
    assert first[1] == second[1] and np.array_equal(first[0], second[0])
    assert first[0].shape != other[0].shape or not np.array_equal(first[0], other[0])
    assert first[0].dtype == np.uint8


def test_places_in_the_view_map_back(canvas):
    drawn = canvas(400, 200).add("red square", 250, 80, 60)
    rng = np.random.default_rng(1)
    for _ in range(10):
        view, scale = coarse_view(drawn.image, rng, 0.5)
        shapes = find_shapes(view)
        assert shapes is not None and len(shapes) == 1
        x, y = (value / scale for value in shapes[0].point_px)
        assert 250 <= x <= 310 and 80 <= y <= 140


def test_more_strength_sees_less(scattered):
    rng = np.random.default_rng(2)
    right = []
    for strength in (0.2, DEFAULT_POLICY_STRENGTH, 2.5):
        seen = [find_shapes(coarse_view(scattered.image, rng, strength)[0]) for _ in range(30)]
        right.append(sum(s is not None and len(s) == len(scattered.boxes) for s in seen))
    assert right[0] > right[1] > right[2]


def test_a_negative_strength_is_an_error_and_thin_images_are_not(scattered):
    with pytest.raises(ValueError, match="negative"):
        coarse_view(scattered.image, np.random.default_rng(0), -1.0)
    for size in ((1, 1), (1, 1000), (1000, 1)):
        view, scale = coarse_view(np.zeros((*size, 3), np.uint8), np.random.default_rng(0), 1.5)
        assert view.size > 0 and 0 < scale <= 1
