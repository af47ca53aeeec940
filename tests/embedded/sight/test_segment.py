import numpy as np
import pytest

from groundtrace.embedded.sight.segment import segment


def test_box_outside_or_of_background_gives_an_empty_mask(scattered):
    for box in ((500, 0, 520, 20), (30, 30, 20, 20), (-30, -30, -10, -10), (5, 60, 25, 80)):
        mask = segment(scattered.image, box)
        assert mask.shape == (100, 400) and not mask.any()


def test_a_block_in_a_tower_is_cut_out_of_its_neighbours(towers):
    for _, (x1, y1, x2, y2) in towers.boxes:
        mask = segment(towers.image, (x1 - 1, y1 - 1, x2 + 1, y2 + 1))
        assert mask[y1:y2, x1:x2].mean() > 0.95
        mask[y1 - 1 : y2 + 1, x1 - 1 : x2 + 1] = False
        assert not mask.any()


def test_a_box_that_fills_the_image_takes_its_rim_for_background():
    image = np.full((50, 60, 3), 255, np.uint8)
    image[10:40, 15:45] = (200, 0, 0)
    mask = segment(image, (0, 0, 60, 50))
    assert mask.sum() == 900 and mask[25, 30]


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (50, 1)])
def test_thin_images(size):
    image = np.zeros((*size, 3), np.uint8)
    assert segment(image, (0, 0, size[1], size[0])).shape == size


def test_the_colour_of_a_large_white_object_is_white():
    """A sum of hundreds of thousands of levels has no room in single precision: the mean would be above 255."""
    image = np.zeros((700, 700, 3), np.uint8)
    image[30:670, 30:670] = 255
    mask = segment(image, (30, 30, 670, 670))
    assert mask[30:670, 30:670].all() and mask.sum() == 640 * 640
