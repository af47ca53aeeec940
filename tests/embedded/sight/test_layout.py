import numpy as np
import pytest

from groundtrace.embedded.sight.layout import as_tower, find_panels, find_towers, touches
from groundtrace.embedded.sight.query import Touch
from groundtrace.embedded.sight.shapes import FoundShape


def block(x, y, colour="blue", side=20):
    return FoundShape(colour, "square", (x, y, x + side, y + side), (x + side / 2, y + side / 2), side * side)


def test_panels_lie_between_the_bars(canvas):
    assert find_panels(canvas(bars=True).image) == ((0, 0, 100, 100), (150, 0, 250, 100), (300, 0, 400, 100))
    assert find_panels(canvas().image) == ()
    assert find_panels(np.zeros((1, 1, 3), np.uint8)) == ()


def test_a_tall_object_is_no_bar(canvas):
    image = canvas().image
    image[2:98, 50:80] = (0, 0, 0)
    assert find_panels(image) == ()


@pytest.mark.parametrize(
    ("blocks", "height"),
    [
        ([block(0, 80)], 1),
        ([block(0, 80), block(0, 59)], 2),
        ([block(0, 80), block(1, 60)], 2),
        ([block(0, 80), block(10, 59)], None),
        ([block(0, 80), block(0, 30)], None),
        ([], None),
    ],
)
def test_towers_are_straight_stacks(blocks, height):
    tower = as_tower(blocks)
    assert (None if tower is None else len(tower)) == height


def test_towers_without_panels_are_columns():
    towers = find_towers([block(0, 80), block(50, 80), block(0, 59)], ())
    assert towers is not None and sorted(map(len, towers)) == [1, 2]
    assert find_towers([block(0, 80), block(0, 20)], ()) is None


@pytest.mark.parametrize(
    ("shape", "place", "expected"),
    [
        (block(0, 40), "edge", True),
        (block(0, 40), "left", True),
        (block(0, 40), "corner", False),
        (block(80, 80), "corner", True),
        (block(80, 80), "bottom", True),
        (block(40, 40), "edge", False),
        (block(40, 0), "top", True),
    ],
)
def test_touching_walls(shape, place, expected):
    walls = ((0.0, 0.0, 100.0, 100.0),)
    assert touches(shape, Touch(place), walls) is expected
    assert touches(shape, Touch(place, negated=True), walls) is not expected


def test_a_shape_outside_every_box_touches_nothing_known():
    assert touches(block(200, 200), Touch("edge"), ((0.0, 0.0, 100.0, 100.0),)) is None
