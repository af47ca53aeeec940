"""How selective calls are: crops of the objects, operations on the whole image, and lines of text."""

import itertools
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from groundtrace.rewards.marks import Pixels, enlarged_marks
from groundtrace.rewards.pretence import CallOutputs, Output, groups_of, nudged, without_objects
from groundtrace.rewards.selectivity import VisibleChanges, erased_elsewhere, patterned_elsewhere, selectivity
from groundtrace.rewards.trajectory import Execution, Trajectory
from groundtrace.schemas.geometry import Box

HEIGHT, WIDTH = 120, 200
FEW = settings(max_examples=25)
Call = Callable[[Pixels], Output]


@st.composite
def scenes(draw) -> tuple[Pixels, tuple[Box, ...]]:
    """An image with one to three objects in its left half, and up to three others in its right half."""
    image = np.full((HEIGHT, WIDTH, 3), draw(st.integers(140, 255)), np.uint8)
    boxes = list[Box]()
    for half in (0, 1):
        for row in draw(st.sets(st.integers(0, 2), min_size=1 - half)):
            x, y = 100 * half + draw(st.integers(10, 40)), 40 * row + draw(st.integers(4, 12))
            image[y : y + 20, x : x + 20] = draw(st.sampled_from([(0, 0, 0), (200, 20, 20), (20, 40, 90)]))
            boxes += [] if half else [Box("square", x, y, x + 19, y + 19)]
    return image, tuple(boxes)


def of(call: Call, scene: tuple[Pixels, tuple[Box, ...]]) -> float:
    """The selectivity of a call on a scene."""
    image, boxes = scene
    groups = groups_of(boxes)
    without = [without_objects(image, group) for group in groups]
    elsewhere = [erased_elsewhere(image, boxes), patterned_elsewhere(image, boxes)]
    runs = CallOutputs(call(image), call(image), call(nudged(image, boxes)), tuple(map(call, without)))
    changes = VisibleChanges.between([image], [[each] for each in without], [[each] for each in elsewhere])
    return selectivity(runs, list(map(call, elsewhere)), image, groups, changes)


def crop(x1: int, y1: int, x2: int, y2: int) -> Call:
    return lambda image: Output("", (image[y1:y2, x1:x2],))


def hull(boxes: tuple[Box, ...]) -> tuple[int, int, int, int]:
    left, top = (int(min(getattr(box, side) for box in boxes)) for side in ("x1", "y1"))
    right, bottom = (int(max(getattr(box, side) for box in boxes)) + 1 for side in ("x2", "y2"))
    return left, top, right, bottom


def dark_in(image: Pixels, columns: slice = slice(None)) -> int:
    """The number of shapes."""
    return cv2.connectedComponents((image[:, columns].min(axis=2) < 110).astype(np.uint8))[0] - 1


WHOLE: dict[str, Call] = {
    "turned": lambda image: Output("", (image[::-1, ::-1],)),
    "mirrored": lambda image: Output("", (image[:, ::-1],)),
    "inverted": lambda image: Output("", (255 - image,)),
    "enlarged": lambda image: Output("", (image.repeat(2, 0).repeat(2, 1),)),
    "in a frame": lambda image: Output("", (np.pad(image, ((30, 30), (30, 30), (0, 0)), constant_values=255),)),
    "in tiles": lambda image: Output("", (image[:, :70], image[:, 70:140], image[:, 140:])),
    "its halves swapped": lambda image: Output("", (np.roll(image, WIDTH // 2, 1),)),
}


@pytest.mark.parametrize("call", WHOLE.values(), ids=WHOLE)
@given(scene=scenes())
@FEW
def test_what_shows_all_alike_is_not_selective(call: Call, scene) -> None:
    assert of(call, scene) == pytest.approx(0, abs=1e-9)


@given(scenes())
@FEW
def test_a_crop_of_the_objects_is_selective(scene) -> None:
    assert of(crop(*hull(scene[1])), scene) == 1
    x1, y1, x2, y2 = hull(scene[1])
    assert of(crop(max(0, x1 - 6), max(0, y1 - 6), x2 + 6, y2 + 6), scene) == 1


@given(scenes(), st.lists(st.integers(0, 100), min_size=2, max_size=5))
@FEW
def test_a_larger_crop_is_at_most_as_selective(scene, margins: list[int]) -> None:
    x1, y1, x2, y2 = hull(scene[1])
    found = [
        of(crop(max(0, x1 - each), max(0, y1 - each), min(WIDTH, x2 + each), min(HEIGHT, y2 + each)), scene)
        for each in sorted(margins)
    ]
    assert all(first >= second - 1e-9 for first, second in itertools.pairwise(found))
    assert all(0 <= each <= 1 for each in found)


LEFT, RIGHT = slice(0, WIDTH // 2), slice(WIDTH // 2, WIDTH)


@given(scenes())
@FEW
def test_lines_of_text_are_selective_by_what_they_depend_on(scene) -> None:
    """A count of the objects depends on them alone, a count of all shapes also on the others, if there are any."""
    others = dark_in(scene[0], RIGHT) > 0
    assert of(lambda image: Output(f"{dark_in(image, LEFT)} squares"), scene) == 1
    assert of(lambda image: Output(f"{dark_in(image)} shapes"), scene) == (0 if others else 1)
    listed: Call = lambda image: Output(f"{dark_in(image)} shapes\n{dark_in(image, LEFT)} squares")  # noqa: E731
    assert of(listed, scene) == pytest.approx(1 / 3 if others else 1)


@given(scenes())
@FEW
def test_a_histogram_is_not_selective(scene) -> None:
    histogram: Call = lambda image: Output(str(np.bincount(image.ravel(), minlength=256).tolist()))  # noqa: E731
    assert of(histogram, scene) == 0


def test_a_histogram_in_lines_is_not_selective() -> None:
    """The line of the objects' level depends on them alone, that of the background on every pixel."""
    image = np.full((HEIGHT, WIDTH, 3), 200, np.uint8)
    image[30:50, 30:50] = 0

    def lines(shown: Pixels) -> Output:
        counts = np.bincount(shown[:, :, 0].ravel(), minlength=256)
        return Output("\n".join(f"level {level}: {count}" for level, count in enumerate(counts) if count))

    assert of(lines, (image, (Box("square", 30, 30, 49, 49),))) == 0


@given(scenes())
@FEW
def test_a_mask_of_all_things_is_not_selective(scene) -> None:
    """A threshold without the background hides the faint pattern, but it shows the other things as it shows those asked
    about. It is a little selective if the others have fainter colours.
    """
    others = dark_in(scene[0], RIGHT) > 0

    def mask(image: Pixels) -> Output:
        dark = image.min(axis=2, keepdims=True) < 110
        return Output("", (np.where(dark, 255, 0).astype(np.uint8).repeat(3, axis=2),))

    assert (of(mask, scene) <= 0.3) if others else (of(mask, scene) == 1)


@given(scenes())
@FEW
def test_a_montage_of_all_things_is_not_selective(scene) -> None:
    """Its layout depends on the other things: without one of the things, all the following ones are elsewhere."""
    assume(dark_in(scene[0], RIGHT) > 0)

    def montage(image: Pixels) -> Output:
        count, labels = cv2.connectedComponents((image.min(axis=2) < 110).astype(np.uint8))
        sheet = np.full((20, 20 * max(1, count - 1), 3), 255, np.uint8)
        for index in range(1, count):
            rows, columns = (found.min() for found in np.nonzero(labels == index))
            part = image[rows : rows + 20, columns : columns + 20]
            sheet[: part.shape[0], 20 * index - 20 : 20 * index - 20 + part.shape[1]] = part
        return Output("", (sheet,))

    assert of(montage, scene) == 0


@given(scenes())
@FEW
def test_what_shows_none_of_the_objects_has_no_selectivity(scene) -> None:
    assert of(crop(WIDTH // 2 + 10, 0, WIDTH, HEIGHT), scene) == 0
    assert of(lambda image: Output(f"{image.shape}"), scene) == 0


@given(scenes())
@FEW
def test_the_image_is_changed_away_from_the_objects_alone(scene) -> None:
    image, boxes = scene
    x1, y1, x2, y2 = hull(boxes)
    for change in (erased_elsewhere, patterned_elsewhere):
        changed = (change(image, boxes) != image).any(axis=2)
        assert not changed[max(0, y1 - 6) : y2 + 6, max(0, x1 - 6) : x2 + 6].any()
    assert 0.3 < changed[:, x2 + 7 :].mean() < 0.7, "the pattern covers half of the rest"
    assert (erased_elsewhere(image, boxes)[:, x2 + 7 :] == image[0, 0]).all(), "only the background is left"


def test_where_the_objects_fill_the_image_every_call_is_selective() -> None:
    image = np.full((HEIGHT, WIDTH, 3), 200, np.uint8)
    image[5:20, 5:20] = image[100:115, 180:195] = 0
    boxes = (Box("square", 5, 5, 19, 19), Box("square", 180, 100, 194, 114))
    assert all(np.array_equal(way(image, boxes), image) for way in (erased_elsewhere, patterned_elsewhere))
    assert all(of(call, (image, boxes)) == 1 for call in WHOLE.values())


ROW_IMAGE = np.full((HEIGHT, WIDTH, 3), 200, np.uint8)
for _x in (20, 60, 100, 140):
    ROW_IMAGE[50:70, _x : _x + 20] = 0
ROW = (ROW_IMAGE, (Box("square", 20, 50, 39, 69), Box("square", 140, 50, 159, 69)))
"""Four squares in a row; the question is about the outer two."""


def dark_mask(image: Pixels, *columns: slice) -> Output:
    found = np.zeros_like(image)
    for each in columns:
        found[:, each] = np.where(image[:, each] < 110, 255, 0)
    return Output("", (found,))


@pytest.mark.parametrize(
    ("call", "low", "high"),
    [
        pytest.param(lambda image: dark_mask(image, slice(10, 50), slice(130, 170)), 1, 1, id="a mask of the objects"),
        pytest.param(lambda image: dark_mask(image, slice(None)), 0, 0.05, id="a mask of all things"),
        pytest.param(lambda image: dark_mask(image, slice(0, 90), slice(130, 170)), 0.3, 0.4, id="of one thing more"),
        pytest.param(
            lambda image: Output("", (image[50:70, 20:40], image[50:70, 140:160])), 1, 1, id="a crop of each object"
        ),
        pytest.param(crop(20, 50, 160, 70), 0, 0.05, id="a crop around all things"),
        pytest.param(lambda image: Output("".join(map(str, image[60, :, 0]))), 0, 0.05, id="a text of all things"),
    ],
)
def test_things_between_the_objects_count_as_things_elsewhere(call: Call, low: float, high: float) -> None:
    """Otherwise a mask of all things would be selective wherever the objects are far apart."""
    assert low <= of(call, ROW) <= high


def framed(image: Pixels, *lefts: int) -> Output:
    found = image.copy()
    for left in lefts:
        found = cv2.rectangle(found, (left - 2, 48), (left + 21, 71), (255, 0, 255), 1)
    return Output("", (np.asarray(found, np.uint8),))


@pytest.mark.parametrize(
    ("lefts", "selectivity"),
    [((20, 140), 1), ((20, 60, 140), 0.42), ((20, 60, 100, 140), 0), ((60, 100), 0)],
)
def test_marks_are_selective_by_their_precision(lefts: tuple[int, ...], selectivity: float) -> None:
    assert of(lambda image: framed(image, *lefts), ROW) == pytest.approx(selectivity, abs=0.02)


def test_marks_on_the_objects_are_selective() -> None:
    image = np.full((HEIGHT, WIDTH, 3), 200, np.uint8)
    image[30:50, 30:50] = 0

    def marks(shown: Pixels) -> Output:
        return Output("", (np.asarray(cv2.rectangle(shown.copy(), (28, 28), (52, 52), (255, 0, 255), 2), np.uint8),))

    assert of(marks, (image, (Box("square", 30, 30, 49, 49),))) == 1


def _enlarged_marks(image: Pixels, *boxes: tuple[int, int, int, int], scale: int = 3) -> Output:
    found = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    for x1, y1, x2, y2 in boxes:
        found = cv2.rectangle(found, (scale * x1, scale * y1), (scale * x2, scale * y2), (255, 0, 255), scale)
    return Output("", (np.asarray(found, np.uint8),))


@pytest.mark.parametrize(
    ("marks", "selectivity"),
    [
        ([(28, 28, 52, 52), (28, 78, 52, 102)], 1),
        ([(28, 28, 52, 52)], 0.5),
        ([(28, 28, 52, 52), (148, 28, 172, 52)], 0),  # as many marks are away from the objects
        ([(148, 28, 172, 52)], 0),
        ([], 0),
    ],
)
def test_marks_on_the_enlarged_image_are_selective_by_the_groups_that_they_are_at(marks, selectivity: float) -> None:
    image = np.full((HEIGHT, WIDTH, 3), 200, np.uint8)
    image[30:50, 30:50] = image[80:100, 30:50] = image[30:50, 150:170] = 0
    boxes = (Box("square", 30, 30, 49, 49), Box("square", 30, 80, 49, 99))
    found = of(lambda shown: _enlarged_marks(shown, *marks), (image, boxes))
    assert found == pytest.approx(selectivity, abs=0.12)


@given(scenes(), st.sampled_from([cv2.INTER_NEAREST, cv2.INTER_LINEAR, cv2.INTER_CUBIC, cv2.INTER_LANCZOS4]))
@FEW
def test_an_enlarged_image_without_marks_has_none(scene, interpolation: int) -> None:
    """Neither the colours that resampling blends nor those that it overshoots at an edge are marks."""
    for scale in (1.1, 1.5, 2, 2.7, 4):
        found = cv2.resize(scene[0], None, fx=scale, fy=scale, interpolation=interpolation)
        assert not enlarged_marks(np.asarray(found, np.uint8), scene[0]).any()


CALLS = st.lists(
    st.builds(
        Execution,
        st.booleans(),
        st.sampled_from(["", "", "shows nothing"]),
        st.frozensets(st.integers(0, 3)),
        st.floats(0, 1),
    ),
    max_size=5,
)


@given(CALLS, CALLS)
@settings(max_examples=200)
def test_a_further_call_never_lowers_the_share_that_was_looked_at(first, second) -> None:
    def share(calls: list[Execution]) -> float:
        return Trajectory(tuple(calls), groups=4).looked_share

    both = share([*first, *second])
    assert both >= max(share(first), share(second)) - 1e-9
    assert both == pytest.approx(share([*second, *first])) and 0 <= both <= 1


def test_a_group_counts_by_the_most_selective_call() -> None:
    overview, detail = Execution(True, "", frozenset({0, 1}), 0.5), Execution(True, "", frozenset({1}), 1.0)
    assert Trajectory((overview,), groups=2).looked_share == 0.5
    assert Trajectory((overview, detail), groups=2).looked_share == 0.75
