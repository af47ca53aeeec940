"""The spatial reward by hand (Argos Eq. 1-3), its degenerate cases, and the embedded engine on a drawn scene."""

import json

import numpy as np
import pytest

from inference.errors import CallError, Failure
from inference.grounding import encode_mask
from rewards.spatial import ObjectMasks, score_spatial
from schemas.frames import Frame
from schemas.geometry import Point


def boxes(*rows: list[float]) -> str:
    return json.dumps({"boxes": rows})


def masks(*shapes: tuple[int, int, list[list[int]]]) -> str:
    return json.dumps({"masks": [encode_mask(x, y, np.array(rows, bool)) for x, y, rows in shapes]})


def full(x: int, y: int, width: int, height: int) -> tuple[int, int, list[list[int]]]:
    return x, y, [[1] * width] * height


@pytest.fixture
def score(run, question):
    """Score points against what the caller's detector and segmenter say."""

    def build(caller, *points: Point, pointer_found_any: bool = True):
        return run(score_spatial(tuple(points), pointer_found_any, ObjectMasks(question(), caller)))

    return build


@pytest.mark.parametrize(
    ("xs", "expected"),
    [([12], 1.0), ([12, 19.9], 1.0), ([12, 30], 0.5), ([12, 13, 14, 30], 0.75), ([30, 31, 12], 1 / 3), ([30], 0.0)],
)
def test_argos_eq3_mean_over_the_points(score, scripted, xs, expected) -> None:
    """The mask is the square from 10 to 20; a point left of its right edge is in it."""
    caller = scripted(detector=[boxes([10, 10, 20, 20])], segmenter=[masks(full(10, 10, 10, 10))])
    verdict = score(caller, *(Point("dog", x, 15) for x in xs))
    assert (verdict.name, verdict.value) == ("spatial", pytest.approx(expected))


@pytest.mark.parametrize(("x", "y", "value"), [(10, 10, 1.0), (11, 10, 0.0), (10, 11, 0.0), (11, 11, 1.0)])
def test_argos_eq2_the_mask_decides_not_the_box(score, scripted, x, y, value) -> None:
    caller = scripted(detector=[boxes([10, 10, 12, 12])], segmenter=[masks((10, 10, [[1, 0], [0, 1]]))])
    assert score(caller, Point("dog", x, y)).value == value


def test_argos_eq1_one_mask_per_box_and_any_instance_will_do(score, scripted) -> None:
    caller = scripted(
        detector=[boxes([10, 10, 20, 20], [50, 50, 60, 60])],
        segmenter=[masks(full(10, 10, 10, 10), full(50, 50, 10, 10))],
    )
    assert score(caller, Point("dog", 15, 15), Point("dog", 55, 55), Point("dog", 35, 35)).value == pytest.approx(2 / 3)
    segment = caller.asked[1][1]
    assert json.loads(segment.variable("boxes")) == [[10, 10, 20, 20], [50, 50, 60, 60]]


def test_argos_eq1_each_label_has_its_own_masks(score, scripted) -> None:
    caller = scripted(
        detector=[boxes([10, 10, 20, 20]), boxes([50, 50, 60, 60])],
        segmenter=[masks(full(10, 10, 10, 10)), masks(full(50, 50, 10, 10))],
    )
    verdict = score(caller, Point("dog", 15, 15), Point("cat", 15, 15))
    assert verdict.value == 0.5
    assert "'cat' at (15, 15) off its object" in verdict.reason


def test_a_label_is_looked_for_once_however_it_is_written(score, scripted) -> None:
    caller = scripted(detector=[boxes([10, 10, 20, 20])], segmenter=[masks(full(10, 10, 10, 10))])
    verdict = score(caller, Point("Red  Dog", 15, 15), Point("red dog", 16, 15), Point(" red\ndog", 17, 15))
    assert verdict.value == 1.0
    assert [(role, prompt.name) for role, prompt, _ in caller.asked] == [
        ("detector", "detect.v1"),
        ("segmenter", "segment.v1"),
    ]
    assert caller.asked[0][1].variable("label") == "red dog"


def test_the_detectors_frame_is_converted(score, scripted) -> None:
    caller = scripted(Frame.NORM1000, detector=[boxes([100, 100, 200, 200])], segmenter=[masks(full(40, 10, 40, 10))])
    assert score(caller, Point("dog", 60, 15)).value == 1.0
    assert json.loads(caller.asked[1][1].variable("boxes")) == [[40, 10, 80, 20]]


def test_a_label_that_is_not_detected_scores_its_points_0(score, scripted) -> None:
    caller = scripted(detector=[boxes(), boxes([10, 10, 20, 20])], segmenter=[masks(full(10, 10, 10, 10))])
    verdict = score(caller, Point("unicorn", 15, 15), Point("dog", 15, 15))
    assert verdict.value == 0.5
    assert "'unicorn' at (15, 15) not detected" in verdict.reason


def test_argos_eq3_no_points_scores_0_where_there_was_something_to_point_at(score, scripted) -> None:
    assert score(scripted(), pointer_found_any=True).value == 0.0


def test_argos_eq3_no_points_is_unscored_where_there_was_nothing(score, scripted) -> None:
    verdict = score(scripted(), pointer_found_any=False)
    assert (verdict.value, verdict.reason) == (None, "nothing to point at")


@pytest.mark.parametrize("index", [1, -1, 7])
def test_a_point_on_a_medium_that_is_not_there_is_off(score, scripted, index) -> None:
    caller = scripted(detector=[boxes([10, 10, 20, 20])], segmenter=[masks(full(10, 10, 10, 10))])
    verdict = score(caller, Point("dog", 15, 15, media_index=index), Point("dog", 15, 15))
    assert verdict.value == 0.5
    assert f"on medium {index}" in verdict.reason


@pytest.mark.parametrize(
    ("detector", "segmenter"),
    [
        (CallError(Failure.UNSUPPORTED, "unknown label"), None),
        ("I see a dog.", None),
        (boxes([0, 0, 900, 900]), None),
        (boxes([10, 10, 20, 20]), CallError(Failure.TIMEOUT, "no reply in time")),
        (boxes([10, 10, 20, 20]), "no mask"),
        (boxes([10, 10, 20, 20]), masks()),
    ],
)
def test_a_failed_detector_or_segmenter_leaves_the_response_unscored(score, scripted, detector, segmenter) -> None:
    verdict = score(scripted(detector=[detector], segmenter=[segmenter]), Point("dog", 15, 15))
    assert verdict.value is None
    assert "'dog'" in verdict.reason


def test_a_long_list_of_misses_is_cut(score, scripted) -> None:
    verdict = score(scripted(detector=[boxes()]), *(Point("dog", x, 1) for x in range(9)))
    assert verdict.value == 0.0
    assert verdict.reason.count("not detected") == 5
    assert verdict.reason.endswith("and more")


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([("yellow square", 45, 35), ("yellow square", 215, 65)], 1.0),
        ([("yellow square", 45, 35), ("yellow square", 335, 25)], 0.5),
        ([("blue square", 335, 25), ("square", 45, 35), ("square", 120, 35)], 2 / 3),
        ([("green square", 45, 35)], 0.0),
        ([("dog", 45, 35)], None),
    ],
)
def test_argos_eq3_on_a_drawn_scene(with_models, question, points, expected) -> None:
    placed = tuple(Point(*point) for point in points)
    verdict = with_models(lambda models: score_spatial(placed, True, ObjectMasks(question(), models)))
    assert verdict.value == (None if expected is None else pytest.approx(expected)), verdict.reason
