"""Outlines of masks: which pixels they contain, how far they deviate, and that their size is limited."""

import cv2
import numpy as np
import pytest

from groundtrace.vision.outlines import MAX_AREA_PX, MAX_POINTS, Outline, outline

DRAWN = {
    "no pixel": (["...", "..."], 0),
    "one pixel": (["....", "..#.", "...."], 1),
    "a row of one pixel": (["......", ".####.", "......"], 1),
    "a column of one pixel": ([".#.", ".#.", ".#.", ".#."], 1),
    "the whole array": (["###", "###"], 1),
    "two regions": (["##...", "##...", "...##", "...##"], 2),
    "a gap of one pixel": (["#.#", "#.#"], 2),
    "pixels that touch at a corner": (["#.", ".#"], 1),
    "a hole": (["######", "######", "##..##", "##..##", "######", "######"], 2),
    "a hole of one pixel": (["###", "#.#", "###"], 2),
    "an island in a hole": (["#####", "#...#", "#.#.#", "#...#", "#####"], 3),
}


def mask_of(rows: list[str]) -> np.ndarray:
    return np.array([[letter == "#" for letter in row] for row in rows])


def inside(found: Outline, shape: tuple[int, ...]) -> np.ndarray:
    """Whether the centre of each pixel is in an odd number of polygons, as a page fills them."""
    held = np.zeros(shape, int)
    for ring in found.rings:
        polygon = np.array(ring, np.float32).reshape(-1, 1, 2)
        for y, x in np.ndindex(*shape):
            held[y, x] += cv2.pointPolygonTest(polygon, (x + 0.5, y + 0.5), measureDist=False) >= 0
    return held % 2 == 1


@pytest.mark.parametrize("name", DRAWN)
def test_the_polygons_contain_exactly_the_pixels_of_the_mask(name: str) -> None:
    rows, rings = DRAWN[name]
    mask = mask_of(rows)
    found = outline(mask)
    assert len(found.rings) == rings and found.step_px == 1
    if name == "pixels that touch at a corner":  # the line between them is less than a pixel wide
        assert inside(found, mask.shape)[mask].all()
    else:
        assert (inside(found, mask.shape) == mask).all()


def test_the_edge_of_a_pixel_is_drawn_and_not_its_centre() -> None:
    [ring] = outline(mask_of(["...", ".##", "..."])).rings
    assert {*zip(ring[::2], ring[1::2], strict=True)} == {(1.0, 1.0), (3.0, 1.0), (3.0, 2.0), (1.0, 2.0)}


def test_a_round_mask_has_few_corners_near_its_edge() -> None:
    y, x = np.mgrid[:400, :400] + 0.5
    from_middle_px = np.hypot(x - 200, y - 200)
    [ring] = outline(from_middle_px < 150).rings
    corners = np.array(ring).reshape(-1, 2)
    assert len(corners) < 80
    sides = np.linspace(corners, np.roll(corners, -1, axis=0), 9)  # the sides between the corners deviate, too
    assert abs(np.hypot(*(sides - 200).reshape(-1, 2).T) - 150).max() < 1.5


NOISE = np.random.default_rng(0).random((600, 900)) < 0.3


@pytest.mark.parametrize(
    ("mask", "step_px"),
    [
        pytest.param(np.ones((1, MAX_AREA_PX + 1), bool), 2, id="a large rectangle"),
        pytest.param(np.indices((1000, 1000)).sum(axis=0) % 2 == 0, 2, id="a chessboard"),
        pytest.param(NOISE, 4, id="noise"),
    ],
)
def test_what_exceeds_a_limit_is_traced_more_coarsely_and_no_part_vanishes(mask: np.ndarray, step_px: int) -> None:
    found = outline(mask)
    assert found.step_px == step_px
    assert 0 < sum(map(len, found.rings)) // 2 <= MAX_POINTS
    numbers = np.array([number for ring in found.rings for number in ring])
    assert numbers.min() >= 0 and numbers[::2].max() <= mask.shape[1] and numbers[1::2].max() <= mask.shape[0]
    for y, x in np.argwhere(mask)[:: max(mask.sum() // 50, 1)]:
        held = [
            cv2.pointPolygonTest(np.array(ring, np.float32).reshape(-1, 1, 2), (x + 0.5, y + 0.5), measureDist=True)
            for ring in found.rings
        ]
        assert sum(each >= 0 for each in held) % 2 or min(map(abs, held)) <= step_px
