"""Masks against masks and points: a maximum matching of points and instances, and which masks are one object."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.inference.grounding import Mask
from groundtrace.rewards.masks import SAME_OBJECT_IOU, Pairing, distinct, on_pixels, overlap_iou, pair


def square(x: int, y: int, side: int = 10) -> Mask:
    return Mask(x, y, np.ones((side, side), bool))


THREE = (square(0, 0), square(20, 0), square(40, 0))
PAIRED = [
    ("one to one", [(5, 5), (25, 5), (45, 5)], (3, 3, 0, 0, 0), 1.0),
    # 2 pointed / (2 points + 3 instances - 2)
    ("one dropped", [(5, 5), (25, 5)], (2, 3, 1, 0, 0), 2 / 3),
    # 3 / (4 + 3 - 3)
    ("one invented", [(5, 5), (25, 5), (45, 5), (15, 5)], (4, 3, 0, 0, 1), 0.75),
    ("one twice", [(5, 5), (25, 5), (45, 5), (46, 5)], (4, 3, 0, 1, 0), 0.75),
    # 2 / (3 + 3 - 2): the number of points is right
    ("one twice, one dropped", [(5, 5), (25, 5), (26, 5)], (3, 3, 1, 1, 0), 0.5),
    ("all off", [(15, 5)], (1, 3, 3, 0, 1), 0.0),
    ("none", [], (0, 3, 3, 0, 0), 0.0),
]


@pytest.mark.parametrize(("places", "counts", "value"), [row[1:] for row in PAIRED], ids=[row[0] for row in PAIRED])
def test_points_against_instances(places, counts, value) -> None:
    found = pair(places, THREE)
    assert found == Pairing(*counts)
    assert found.value == pytest.approx(value)


def test_a_position_on_two_masks_leaves_the_other_to_the_one_that_needs_it() -> None:
    overlapping = (square(0, 0), square(5, 0))
    assert pair([(7, 5), (2, 5)], overlapping).value == 1.0
    assert pair([(2, 5), (7, 5)], overlapping).value == 1.0


@pytest.mark.parametrize("xs", list(itertools.permutations([5, 16, 28])))
def test_each_position_moves_on_where_another_needs_its_mask(xs) -> None:
    """5 and 16 lie on the first two masks, 28 on the last two: one to one, whichever comes first."""
    overlapping = (Mask(0, 0, np.ones((10, 20), bool)), Mask(0, 0, np.ones((10, 30), bool)), square(20, 0, 20))
    assert pair([(x, 5) for x in xs], overlapping) == Pairing(3, 3, 0, 0, 0)


PLACES = st.lists(st.tuples(st.floats(-5, 60), st.floats(-5, 15)), max_size=8)
SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)), max_size=5)
XS = st.lists(st.integers(0, 50), max_size=6)


def strips(spans) -> list[Mask]:
    """Masks from x to x + width, which may overlap."""
    return [Mask(x, 0, np.ones((1, width), bool)) for x, width in spans]


@given(SPANS, XS, st.randoms())
def test_on_overlapping_masks_the_order_of_points_does_not_matter(spans, xs, rng) -> None:
    found = pair([(x, 0) for x in xs], strips(spans))
    assert pair([(x, 0) for x in rng.sample(xs, len(xs))], strips(spans)) == found


@given(SPANS, XS)
def test_no_other_pairing_misses_fewer(spans, xs) -> None:
    """Against all ways to give each mask a point of its own, or none."""
    holding = [[n for n, x in enumerate(xs) if at <= x < at + width] for at, width in spans]
    ways = itertools.product(*([None, *points] for points in holding))
    taken = ([n for n in way if n is not None] for way in ways)
    most = max(len(points) for points in taken if len(set(points)) == len(points))
    assert len(spans) - pair([(x, 0) for x in xs], strips(spans)).missed == most


@given(SPANS, st.randoms())
def test_the_order_of_masks_does_not_decide_which_are_one_object(spans, rng) -> None:
    def kept(drawn) -> list[tuple[int, int]]:
        return [(mask.x, mask.pixels.shape[1]) for mask in distinct(strips(drawn))]

    assert kept(spans) == kept(rng.sample(spans, len(spans)))


@given(PLACES, st.integers(1, 3))
def test_the_pairing_is_1_only_when_one_to_one(places, instances) -> None:
    found = pair(places, THREE[:instances])
    assert 0 <= found.value <= 1
    exact = len(places) == instances and not (found.missed or found.twice or found.off)
    assert (found.value == 1) is exact


@given(PLACES, st.randoms())
def test_the_order_of_points_does_not_matter(places, rng) -> None:
    again = rng.sample(places, len(places))
    assert pair(places, THREE) == pair(again, THREE)


@pytest.mark.parametrize(
    ("masks", "kept"),
    [
        ([square(0, 0), square(0, 0)], 1),
        # 80 of 120 px in common
        ([square(0, 0), square(2, 0)], 1),
        # 40 of 160 px
        ([square(0, 0), square(6, 0)], 2),
        ([square(0, 0), square(20, 0)], 2),
        # a part is not the whole: 25 of 100 px
        ([square(0, 0), square(0, 0, 5)], 2),
        ([square(0, 0), Mask(0, 0, np.zeros((10, 10), bool))], 2),
    ],
)
def test_an_object_found_under_two_labels_is_one(masks, kept) -> None:
    assert len(distinct(masks)) == kept


@pytest.mark.parametrize(
    ("other", "iou"),
    [
        (square(0, 0), 1.0),
        # 5 x 10 of 150 px, on either side
        (square(5, 0), 1 / 3),
        (square(-5, 0), 1 / 3),
        (square(0, -5), 1 / 3),
        # 5 x 5 of 175 px
        (square(5, 5), 1 / 7),
        (square(2, 2, 5), 0.25),
        # they touch, and share no pixel
        (square(10, 0), 0.0),
        (square(0, 10), 0.0),
        (square(50, 50), 0.0),
        # the frames overlap, the pixels do not
        (Mask(0, 0, np.zeros((10, 10), bool)), 0.0),
    ],
)
def test_the_overlap_of_two_masks(other, iou) -> None:
    assert overlap_iou(square(0, 0), other) == overlap_iou(other, square(0, 0)) == pytest.approx(iou)


def test_two_empty_masks_do_not_overlap() -> None:
    empty = Mask(0, 0, np.zeros((10, 10), bool))
    assert overlap_iou(empty, empty) == 0.0


def test_half_of_both_together_is_one_object() -> None:
    """100 of 200 px: the bound itself counts."""
    assert overlap_iou(square(0, 0), Mask(0, 0, np.ones((10, 20), bool))) == SAME_OBJECT_IOU
    assert len(distinct([square(0, 0), Mask(0, 0, np.ones((10, 20), bool))])) == 1
    assert len(distinct([square(0, 0), Mask(0, 0, np.ones((10, 21), bool))])) == 2


@given(SPANS)
def test_each_object_is_kept_once_and_none_is_lost(spans) -> None:
    drawn = strips(spans)
    kept = distinct(drawn)
    assert all(overlap_iou(a, b) < SAME_OBJECT_IOU for a, b in itertools.combinations(kept, 2))
    assert all(any(overlap_iou(mask, one) >= SAME_OBJECT_IOU for one in kept) for mask in drawn)
    assert [(m.x, m.pixels.shape) for m in distinct([*drawn, *drawn])] == [(m.x, m.pixels.shape) for m in kept]


@pytest.mark.parametrize(("value", "pixel"), [(0, 0), (5.5, 5), (9.99, 9), (10, 9), (10.1, 10), (-1, -1)])
def test_the_far_edge_is_on_the_last_pixel(value, pixel) -> None:
    assert int(on_pixels(value, 10)) == pixel
