"""The spatial reward by hand (Argos Eq. 1-3), its degenerate cases, and the embedded engine on a drawn scene."""

import json

import numpy as np
import pytest

from inference.errors import CallError, Failure
from inference.grounding import BadReply, encode_mask
from rewards.locating import ObjectMasks, Served
from rewards.scorers.spatial import PointView, point_checker, score_spatial, view_points
from schemas.coordinates import CoordinateFrame
from schemas.geometry import Point
from schemas.records import FrameRef

DETECTS = Served(frozenset({"detector", "segmenter"}))
POINTS_TOO = Served(frozenset({"detector", "segmenter", "pointer"}))


def boxes(*rows: list[float]) -> str:
    return json.dumps({"boxes": rows})


def masks(*shapes: tuple[int, int, list[list[int]]]) -> str:
    return json.dumps({"masks": [encode_mask(x, y, np.array(rows, bool)) for x, y, rows in shapes]})


def full(x: int, y: int, width: int, height: int) -> tuple[int, int, list[list[int]]]:
    return x, y, [[1] * width] * height


@pytest.fixture
def score(run, question):
    """Score points against what the caller's detector and segmenter say."""

    def build(caller, *points: Point, pointer_found_any: bool = True, served: Served = DETECTS, **changes):
        masks = ObjectMasks(question(**changes), caller, served)
        return run(score_spatial(tuple(points), pointer_found_any, masks))

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


@pytest.mark.parametrize(("x", "y", "value"), [(400, 60, 1.0), (400, 100, 1.0), (401, 60, 0.0), (390, 101, 0.0)])
def test_the_far_edge_counts_to_the_last_pixel(score, scripted, x, y, value) -> None:
    """A pointer's 1000 of 1000 is the picture's width."""
    caller = scripted(detector=[boxes([390, 50, 400, 100])], segmenter=[masks(full(390, 50, 10, 50))])
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
        ("detector", "detect.v2"),
        ("segmenter", "segment.v1"),
    ]
    assert caller.asked[0][1].variable("label") == "red dog"


def test_the_detectors_frame_is_converted(score, scripted) -> None:
    caller = scripted(
        CoordinateFrame.NORM1000, detector=[boxes([100, 100, 200, 200])], segmenter=[masks(full(40, 10, 40, 10))]
    )
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
    verdict = with_models(lambda models: score_spatial(placed, True, ObjectMasks(question(), models, POINTS_TOO)))
    assert verdict.value == (None if expected is None else pytest.approx(expected)), verdict.reason


def test_argos_eq2_each_point_has_its_own_view(score, scripted) -> None:
    caller = scripted(
        detector=[boxes([10, 10, 20, 20], [50, 50, 60, 60])],
        segmenter=[masks(full(10, 10, 10, 10), full(50, 50, 10, 10))],
    )
    verdict = score(caller, Point("dog", 55, 55), Point("dog", 35, 35), Point("dog", 1, 1, media_index=3))
    fields = {"label": "dog", "media_index": 0, "frame": None, "by": "detector", "note": "", "instances": 2}
    assert [json.loads(view) for view in verdict.evidence] == [
        fields | {"number": 1, "x": 55, "y": 55, "on": True, "instance": 1},
        fields | {"number": 2, "x": 35, "y": 35, "on": False, "instance": None},
        fields
        | {"number": 3, "x": 1, "y": 1, "media_index": 3, "on": False, "instance": None, "instances": 0}
        | {"by": "", "note": "no such picture"},
    ]


def test_of_nested_masks_the_smallest_is_meant(run, scripted, question) -> None:
    caller = scripted(
        detector=[boxes([0, 0, 60, 60], [10, 10, 20, 20])],
        segmenter=[masks(full(0, 0, 60, 60), full(10, 10, 10, 10))],
    )
    found = ObjectMasks(question(), caller, DETECTS)
    views = run(view_points((Point("part", 15, 15), Point("part", 40, 40)), found))
    assert [view.instance for view in views] == [1, 0]


def test_an_empty_mask_is_no_instance(score, scripted) -> None:
    caller = scripted(detector=[boxes([10, 10, 12, 12])], segmenter=[masks((10, 10, [[0, 0], [0, 0]]))])
    assert "not detected" in score(caller, Point("dog", 10, 10)).reason


@pytest.mark.parametrize(
    ("frame", "order"), [(CoordinateFrame.GEMINI, "[y1, x1, y2, x2]"), (CoordinateFrame.NORM1000, "[x1, y1, x2, y2]")]
)
def test_the_detector_is_asked_in_the_order_that_it_is_read_in(score, scripted, frame, order) -> None:
    """A 400x100 picture: y from 100 to 200 of 1000 is 10 to 20 px, x from 100 to 200 is 40 to 80 px."""
    caller = scripted(frame, detector=[boxes([100, 100, 200, 200])], segmenter=[masks(full(40, 10, 40, 10))])
    served = Served(frozenset({"detector", "segmenter"}))
    assert score(caller, Point("dog", 60, 15), served=served).value == 1.0
    assert order in caller.asked[0][1].user[1].text


POINTED = '<point x="15" y="15" alt="bar">bar</point>'
CHARTS = Served(POINTS_TOO.roles, synthetic_sources=frozenset({"charts"}))


@pytest.mark.parametrize(("own", "marked"), [(True, True), (False, False)])
def test_argos_before_eq3_on_synthetic_pictures_a_pointer_prompts_the_segmenter(score, scripted, own, marked) -> None:
    caller = scripted(pointer=[POINTED], segmenter=[masks(full(10, 10, 10, 40))])
    served = Served(CHARTS.roles, own_pointer=own, synthetic_sources=CHARTS.synthetic_sources)
    verdict = score(caller, Point("bar", 12, 45), Point("bar", 60, 45), served=served, source="charts")
    assert verdict.value == 0.5
    assert [(role, prompt.name) for role, prompt, _ in caller.asked] == [
        ("pointer", "point.v1"),
        ("segmenter", "segment_points.v1"),
    ]
    assert json.loads(caller.asked[1][1].variable("points")) == [[15, 15]]
    assert "pointer: charts holds synthetic pictures" in verdict.reason
    assert ("by the endpoint that placed these points" in verdict.reason) is marked
    assert all(json.loads(view)["by"] == "pointer" for view in verdict.evidence)


def test_another_source_is_left_to_the_detector(score, scripted) -> None:
    caller = scripted(detector=[boxes([10, 10, 20, 20])], segmenter=[masks(full(10, 10, 10, 10))])
    assert score(caller, Point("bar", 15, 15), served=CHARTS).value == 1.0


@pytest.mark.parametrize("detector", [CallError(Failure.UNSUPPORTED, "unknown label"), "I see a bar."])
def test_where_the_detector_fails_the_pointer_stands_in_and_is_named(score, scripted, detector) -> None:
    caller = scripted(detector=[detector], pointer=[POINTED], segmenter=[masks(full(10, 10, 10, 10))])
    verdict = score(caller, Point("bar", 15, 15), served=POINTS_TOO)
    assert verdict.value == 1.0
    assert "pointer: the detector failed: " in verdict.reason
    assert "by the endpoint that placed these points" in verdict.reason


@pytest.mark.parametrize("pointer", ["There are none.", "no idea", CallError(Failure.TIMEOUT, "no reply")])
def test_a_pointer_that_finds_nothing_does_not_replace_a_failed_detector(score, scripted, pointer) -> None:
    caller = scripted(detector=[CallError(Failure.UNSUPPORTED, "unknown label")], pointer=[pointer])
    verdict = score(caller, Point("bar", 15, 15), served=POINTS_TOO)
    assert verdict.value is None
    assert "unknown label" in verdict.reason


def test_a_detector_that_finds_nothing_has_not_failed(score, scripted) -> None:
    verdict = score(scripted(detector=[boxes()]), Point("bar", 15, 15), served=POINTS_TOO)
    assert verdict.value == 0.0


def test_on_a_synthetic_picture_nothing_pointed_at_is_not_found(score, scripted) -> None:
    caller = scripted(pointer=["There are none."])
    assert score(caller, Point("bar", 15, 15), served=CHARTS, source="charts").value == 0.0


@pytest.mark.parametrize(("number", "value"), [(2, 1.0), (3, 0.0), (None, 0.0)])
def test_a_point_of_a_clip_is_looked_for_on_its_frame(score, scripted, question, number, value) -> None:
    frames = tuple(FrameRef(n, n / 2, f"run:f{n}.jpg", f"{n}" * 64, 1) for n in (1, 2))
    (medium,) = question().media
    clip = type(medium)(
        medium.uri, "video", *(medium.sha256, medium.pixel_sha256, medium.dhash), 400, 100, 1, 1, frames
    )
    caller = scripted(detector=[boxes([10, 10, 20, 20])], segmenter=[masks(full(10, 10, 10, 10))])
    verdict = score(caller, Point("dog", 15, 15, frame=number), media=(clip,))
    assert verdict.value == value
    assert [prompt.media[0].uri for _, prompt, _ in caller.asked] == ["run:f2.jpg"] * (2 if value else 0)


@pytest.mark.parametrize(("detector", "on"), [(boxes([10, 10, 20, 20]), True), (boxes(), False)])
def test_the_check_of_one_point(run, scripted, question, detector, on) -> None:
    caller = scripted(detector=[detector], segmenter=[masks(full(10, 10, 10, 10))])
    check = point_checker(ObjectMasks(question(), caller, DETECTS), 0)
    assert run(check(Point("dog", 15, 15, media_index=3))) is on


def test_the_check_of_one_point_fails_with_the_detector(run, scripted, question) -> None:
    check = point_checker(ObjectMasks(question(), scripted(detector=["a dog"]), DETECTS), 0)
    with pytest.raises(BadReply, match="'dog'"):
        run(check(Point("dog", 15, 15)))


def test_a_view_is_evidence_that_reads_back() -> None:
    view = PointView(1, 'the "dog"', 1.5, 2.0, 0, None, True, 0, 1, "detector")
    assert PointView(**json.loads(view.evidence)) == view


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        # the labels of two objects that are both there, swapped
        ([("blue square", 45, 35), ("yellow square", 335, 25)], 0.0),
        ([("yellow square", 45, 35), ("blue square", 335, 25)], 1.0),
        ([("yellow circle", 45, 35)], 0.0),
    ],
)
def test_the_embedded_detector_tells_labels_apart(with_models, question, points, expected) -> None:
    placed = tuple(Point(*point) for point in points)
    verdict = with_models(lambda models: score_spatial(placed, True, ObjectMasks(question(), models, DETECTS)))
    assert verdict.value == expected, verdict.reason


def test_the_embedded_engine_points_and_segments_on_synthetic_pictures(with_models, question) -> None:
    placed = (Point("yellow square", 31, 21), Point("yellow square", 228, 78), Point("yellow square", 120, 35))
    asked = question(source="charts")
    verdict = with_models(lambda models: score_spatial(placed, True, ObjectMasks(asked, models, CHARTS)))
    assert verdict.value == pytest.approx(2 / 3), verdict.reason
    assert "charts holds synthetic pictures; by the endpoint" in verdict.reason


def test_without_a_segmenter_boxes_stand_for_masks(score, scripted) -> None:
    caller = scripted(detector=[boxes([10.5, 10, 20.2, 30], [50, 50, 50, 60])])
    served = Served(frozenset({"detector", "pointer"}))
    verdict = score(caller, Point("dog", 10, 29), Point("dog", 20.9, 12), Point("dog", 21, 12), served=served)
    assert verdict.value == pytest.approx(2 / 3)  # the pixels that the box touches; a box without width is no object
    assert "boxes stand for masks: no segmenter" in verdict.reason
    assert [json.loads(view)["note"] for view in verdict.evidence] == ["boxes stand for masks: no segmenter"] * 3
    assert [role for role, _, _ in caller.asked] == ["detector"]


def test_without_a_segmenter_a_pointer_does_not_stand_in(score, scripted) -> None:
    caller = scripted(detector=["no idea"])
    verdict = score(caller, Point("dog", 10, 29), served=Served(frozenset({"detector", "pointer"})))
    assert verdict.value is None
    assert [role for role, _, _ in caller.asked] == ["detector"]
