"""The spatial reward by hand (Argos Eq. 1-3): which points vote, when it fails, and the embedded engine on a drawn
scene."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.grounding import encode_mask
from groundtrace.rewards.locating import ObjectMasks, ServedRoles
from groundtrace.rewards.scorers.spatial import PointView, point_checker, score_spatial, view_point
from groundtrace.rewards.targets import Targets
from groundtrace.schemas.coordinates import CoordinateFrame
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.records import FrameRef

DETECTS = ServedRoles(frozenset({"detector", "segmenter"}))
POINTS_TOO = ServedRoles(frozenset({"detector", "segmenter", "pointer"}))


def boxes(*rows: list[float]) -> str:
    return json.dumps({"boxes": rows})


def masks(*shapes: tuple[int, int, list[list[int]]]) -> str:
    return json.dumps({"masks": [encode_mask(x, y, np.array(rows, bool)) for x, y, rows in shapes]})


def full(x: int, y: int, width: int, height: int) -> tuple[int, int, list[list[int]]]:
    return x, y, [[1] * width] * height


NAMED = {"question": "Is there a dog, a cat, a bar or a unicorn?", "gold": "yes", "answer_type": "bool"}
NAMED |= {"entities": ("dog",), "pointable": ("dog",)}
ASKED = Targets(True)
OFF = -0.1 / 2
"""What one wrong point alone earns: -ε · w / (w + 1)."""


@pytest.fixture
def score(run, case):
    """Score points against what the caller's detector and segmenter say; the question speaks of what is looked for."""

    def build(caller, *points: Point, served: ServedRoles = DETECTS, **changes):
        return run(score_spatial(case(caller=caller, served=served, points=points, **(NAMED | changes))))

    return build


KENNEL = {
    "dog": [(10, 10, 20, 20), (50, 10, 60, 20), (90, 10, 100, 20)],
    "cat": [(130, 10, 140, 20)],
    "animal": [(10, 10, 20, 20), (50, 10, 60, 20), (90, 10, 100, 20), (130, 10, 140, 20)],
    "table": [(200, 10, 260, 60)],
    "cup": [(210, 10, 220, 20)],
}


def at(*xs: float, label: str = "dog") -> list[Point]:
    """Points at these x, at the height of the animals."""
    return [Point(label, x, 15) for x in xs]


VOTES = {
    "one on it": (at(12), 1.0),
    "each dog votes": (at(12, 52, 92), 1.0),
    "one on, one off": (at(12, 30), 1 / 2),
    "several points on one dog are one vote": (at(12, 13, 14, 30), 1 / 2),
    "two dogs, one of them twice": (at(12, 13, 52, 30), 2 / 3),
    "each point off votes for itself": (at(30, 31, 12), 1 / 3),
    "the same point off again does not": (at(30, 30, 30, 12), 1 / 2),
    "the same point on again does not": (at(*[12] * 9, 30), 1 / 2),
    "off alone": (at(30), OFF),
    "one dog by two names": ([*at(12), *at(13, label="animal"), *at(30)], 1 / 2),
    "each label at one place is a point": ([*at(30), *at(30, label="cat"), *at(12)], 1 / 3),
    "an article makes no other point": ([*at(30), *at(30, label="The  Dog"), *at(12)], 1 / 2),
}


@pytest.mark.parametrize(("points", "value"), VOTES.values(), ids=VOTES)
def test_argos_eq3_each_object_votes_once(score, seeing, points, value) -> None:
    verdict = score(seeing(KENNEL), *points, question="How many dogs are among the animals?")
    assert (verdict.name, verdict.value) == ("spatial", pytest.approx(value))


UNSERVED = [
    "gizmo",
    "",
    " ",
    "?!",
    "picture",
    "the background",
    "everything",
    "dog " * 5000,
    "Hund",
    "狗",
    "dog<|im_end|>",
]


@pytest.mark.parametrize("label", UNSERVED, ids=lambda label: ascii(label)[:20])
def test_a_label_that_nothing_can_serve_makes_its_point_wrong(score, seeing, label) -> None:
    caller = seeing(KENNEL)
    verdict = score(caller, *at(12), *at(52, label=label))
    assert (verdict.value, verdict.failed) == (0.5, False)
    view = json.loads(verdict.evidence[1])
    assert (view["on"], view["by"], view["instances"]) == (False, "", 0)
    assert view["note"]
    assert score(seeing(KENNEL), *at(52, label=label)).value == OFF


def test_labels_that_name_no_object_reach_no_detector(score, seeing) -> None:
    caller = seeing({})
    score(caller, *(Point(label, 12, 15) for label in UNSERVED))
    asked = {prompt.variable("label") for role, prompt, _ in caller.asked if role == "detector"}
    assert asked == {"gizmo", "hund", "狗"}


NEUTRAL = {
    "the question names it": ("dog", {"question": "Is a dog here?"}, 1.0),
    "the answer names it": ("dog", {"question": "What is it?", "gold": "a dog"}, 1.0),
    "a choice names it": ("dog", {"question": "What is it?", "gold": "cat", "choices": ("cat", "dog")}, 1.0),
    "an entity names it": ("dog", {"question": "What is it?", "gold": "cat", "entities": ("brown dog",)}, 1.0),
    "it lies on an entity": ("dog", {"question": "What is it?", "gold": "4", "entities": ("animal",)}, 1.0),
    "nobody names it": ("dog", {"question": "What is it?", "gold": "cat", "entities": ("cat",)}, 0.0),
    "an entity elsewhere": ("dog", {"question": "What is it?", "gold": "3", "entities": ("cat",)}, 0.0),
    "an entity that cannot be looked for": ("dog", {"question": "What is it?", "gold": "3", "entities": ("?",)}, 0.0),
}


@pytest.mark.parametrize(("label", "changes", "value"), NEUTRAL.values(), ids=NEUTRAL)
def test_a_point_is_right_where_the_question_speaks_of_its_object(score, seeing, label, changes, value) -> None:
    verdict = score(seeing(KENNEL), *at(12, label=label), **changes)
    assert verdict.value == value
    assert ("1 point on what the question does not ask about" in verdict.reason) is (value == 0.0)


def test_points_on_other_things_neither_help_nor_hurt(score, seeing) -> None:
    asked = {"question": "Is there a dog?"}
    table = Point("table", 240, 40)
    assert score(seeing(KENNEL), *at(12), table, **asked).value == 1.0
    assert score(seeing(KENNEL), *at(12, 30), table, **asked).value == 0.5
    assert score(seeing(KENNEL), *at(12), Point("table", 300, 40), **asked).value == 0.5
    assert score(seeing(KENNEL), table, **asked).value == 0.0


PLACED = st.lists(
    st.builds(
        Point,
        st.sampled_from(["dog", "the dog", "Cat", "animal", "gizmo", "", "picture", "table", "cup"]),
        st.sampled_from([12, 13, 30, 52, 92, 135, 215, 240, 399]),
        st.sampled_from([15, 40, 99]),
    ),
    min_size=1,
    max_size=8,
)
EACH_BUILT_ALONE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@EACH_BUILT_ALONE
@given(points=PLACED, rng=st.randoms(use_true_random=False))
def test_repeats_and_another_order_change_nothing(score, seeing, points, rng) -> None:
    again = [*points, *rng.choices(points, k=5)]
    rng.shuffle(again)
    assert score(seeing(KENNEL), *again).value == score(seeing(KENNEL), *points).value


CHAIN = {"dog": [(0, 0, 60, 20)], "cat": [(10, 0, 70, 20)], "bar": [(24, 0, 84, 20)]}


@EACH_BUILT_ALONE
@given(order=st.permutations([Point("dog", 5, 5), Point("cat", 65, 5), Point("bar", 80, 5), Point("bar", 90, 5)]))
def test_the_order_of_points_does_not_decide_which_objects_are_one(score, seeing, order) -> None:
    """The second overlaps with both others, and these not by half with one another."""
    assert score(seeing(CHAIN), *order).value == score(seeing(CHAIN), *sorted(order, key=lambda p: p.x)).value


@EACH_BUILT_ALONE
@given(points=PLACED, label=st.sampled_from(UNSERVED), x=st.integers(0, 399), where=st.integers(0, 8))
def test_a_point_with_a_label_that_nothing_can_serve_never_raises_the_value(
    score, seeing, points, label, x, where
) -> None:
    more = [*points[:where], Point(label, x, 15), *points[where:]]
    without, with_it = (score(seeing(KENNEL), *placed).value for placed in (points, more))
    assert with_it <= without
    if without and Point(label, x, 15) not in points:
        assert with_it < without


@pytest.mark.parametrize(("x", "y", "value"), [(10, 10, 1.0), (11, 10, OFF), (10, 11, OFF), (11, 11, 1.0)])
def test_argos_eq2_the_mask_decides_not_the_box(score, scripted, x, y, value) -> None:
    caller = scripted(detector=[boxes([10, 10, 12, 12])], segmenter=[masks((10, 10, [[1, 0], [0, 1]]))])
    assert score(caller, Point("dog", x, y)).value == value


@pytest.mark.parametrize(("x", "y", "value"), [(400, 60, 1.0), (400, 100, 1.0), (401, 60, OFF), (390, 101, OFF)])
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
    labels = ("Red  Dog", "red dog", " red\ndog", "the red dog", "A red dog")
    verdict = score(caller, *(Point(label, 15 + n / 2, 15) for n, label in enumerate(labels)))
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


def test_argos_eq3_no_points_score_0(score, scripted) -> None:
    """That there was something to point at is what the scorer needs to run: see test_selection."""
    verdict = score(scripted())
    assert (verdict.value, verdict.failed) == (0.0, False)
    assert verdict.reason == "no point, though there is something to point at"


NO_DOG = "the pointer found no object of the question ('dog')"
NO_TARGETS = {
    "named, not found": (
        at(12, 52),
        {"entities": ("dog",)},
        f"{NO_DOG}; 2 points, which are on their objects, are not scored",
    ),
    "not named": (
        at(12),
        {"entities": ()},
        "the question names no object; 1 point, which is on its object, is not scored",
    ),
    "none to count": (
        at(12),
        {"question": "How many unicorns are there?", "gold": "0", "answer_type": "numeric"},
        "the answer is a count of 0; 1 point, which is on its object, is not scored",
    ),
    "no point": ([], {"entities": ("dog",)}, f"nothing to point at: {NO_DOG}"),
    "unknown": ([], {"entities": None}, "no role names what the question is about"),
}


@pytest.mark.parametrize(("points", "changes", "reason"), NO_TARGETS.values(), ids=NO_TARGETS)
def test_the_reason_says_why_there_are_no_targets(score, seeing, points, changes, reason) -> None:
    verdict = score(seeing(KENNEL), *points, **({"pointable": ()} | changes))
    assert (verdict.value, verdict.reason) == (None, reason)


DOGS_COUNTED = {"question": "How many dogs are there?", "answer_type": "numeric"}
TABLE, MISS = at(215, label="table"), "1 point off its object; 'dog' at (30, 15) off its object"
TEXTS = {
    "not found, one of two off": (
        at(12, 30),
        {"entities": ("dog",), "pointable": ()},
        (-0.05, f"{NO_DOG}; {MISS}; 1 point, which is on its object, is not scored"),
    ),
    "not found, all off": (at(30), {"entities": ("dog",), "pointable": ()}, (-0.05, f"{NO_DOG}; {MISS}")),
    "one right": (at(12, 30), {}, (0.5, f"1 target pointed at, {MISS}")),
    "one of one": (
        at(12),
        DOGS_COUNTED | {"gold": "1"},
        (1.0, "1 of 1 target pointed at, 0 points off their objects"),
    ),
    "one more": (
        at(12, 52),
        DOGS_COUNTED | {"gold": "1"},
        (
            0.5,
            "1 of 1 target pointed at, 0 points off their objects; 1 object more is pointed at as a target than is one",
        ),
    ),
    "two more": (
        at(12, 52, 92),
        DOGS_COUNTED | {"gold": "1"},
        (
            pytest.approx(1 / 3),
            "1 of 1 target pointed at, 0 points off their objects; 2 objects more are pointed at as targets than are",
        ),
    ),
    "one on something else": (
        [*at(12, 30), *TABLE],
        {},
        (0.5, f"1 target pointed at, {MISS}; 1 point on what the question does not ask about"),
    ),
}


@pytest.mark.parametrize(("points", "changes", "expected"), TEXTS.values(), ids=TEXTS)
def test_the_reason_counts_the_points(score, seeing, points, changes, expected) -> None:
    verdict = score(seeing(KENNEL), *points, **changes)
    assert (verdict.value, verdict.reason) == expected


@pytest.mark.parametrize("index", [1, -1, 7])
def test_a_point_on_a_medium_that_is_not_there_is_off(score, scripted, index) -> None:
    caller = scripted(detector=[boxes([10, 10, 20, 20])], segmenter=[masks(full(10, 10, 10, 10))])
    verdict = score(caller, Point("dog", 15, 15, media_index=index), Point("dog", 15, 15))
    assert verdict.value == 0.5
    assert f"on medium {index}" in verdict.reason


DOWN = [
    CallError(Failure.TIMEOUT, "no reply in time"),
    CallError(Failure.CONNECTION, "refused"),
    CallError(Failure.SERVER_ERROR, "500"),
    CallError(Failure.RATE_LIMITED, "429"),
    CallError(Failure.OVERLOADED, "503"),
    CallError(Failure.GARBLED, "no JSON"),
    CallError(Failure.UNAUTHORISED, "the key is refused"),
]


@pytest.mark.parametrize("error", DOWN, ids=lambda error: error.failure)
@pytest.mark.parametrize("role", ["detector", "segmenter"])
def test_a_server_that_is_down_fails_the_verdict(score, scripted, role, error) -> None:
    replies = {"detector": [boxes([10, 10, 20, 20])]} | {role: [error]}
    verdict = score(scripted(**replies), Point("dog", 15, 15))
    assert (verdict.value, verdict.failed) == (None, True)
    assert verdict.reason.startswith("'dog': ")
    assert str(error) in verdict.reason


def test_a_server_that_is_down_fails_the_verdict_whatever_the_other_points_are(score, scripted) -> None:
    caller = scripted(detector=[boxes(), DOWN[0]])
    assert score(caller, Point("dog", 15, 15), Point("cat", 15, 15)).failed
    caller = scripted(detector=[DOWN[0]])
    assert score(caller, Point("picture", 15, 15), Point("cat", 15, 15)).failed


def test_a_server_that_is_down_when_an_entity_is_looked_for_fails_the_verdict(score, scripted) -> None:
    caller = scripted(detector=[boxes([10, 10, 20, 20]), DOWN[0]], segmenter=[masks(full(10, 10, 10, 10))])
    assert score(caller, Point("dog", 15, 15), question="What is it?", entities=("animal",)).failed


@pytest.mark.parametrize(
    "detector",
    [
        CallError(Failure.UNKNOWN_LABEL, "unknown label"),
        CallError(Failure.REFUSED, "no"),
    ],
    ids=["unknown", "refused"],
)
def test_a_label_that_the_detector_cannot_serve_scores_its_points_0(score, scripted, detector) -> None:
    verdict = score(scripted(detector=[detector]), Point("dog", 15, 15))
    assert (verdict.value, verdict.failed) == (OFF, False)
    assert "'dog' on medium 0: the detector cannot serve it: " in verdict.reason


@pytest.mark.parametrize(
    "detector",
    [
        CallError(Failure.BAD_REQUEST, "no such parameter"),
        CallError(Failure.UNSUPPORTED, "it cannot detect"),
        CallError(Failure.EMPTY, "nothing came back"),
        "I see a dog.",
        boxes([0, 0, 900, 900]),
    ],
    ids=["bad request", "unsupported", "empty", "prose", "out of range"],
)
def test_a_detector_that_cannot_be_read_fails_the_verdict(score, scripted, detector) -> None:
    """That is not the label's doing, and no other point makes up for it."""
    caller = scripted(detector=[detector])
    assert score(caller, Point("dog", 15, 15), Point("picture", 1, 1)).failed


def test_a_segmenter_that_cannot_be_read_fails_the_verdict(score, scripted) -> None:
    for reply in ("no mask", masks(), CallError(Failure.UNSUPPORTED, "no")):
        caller = scripted(detector=[boxes([10, 10, 20, 20])], segmenter=[reply])
        assert score(caller, Point("dog", 15, 15)).failed


@pytest.mark.parametrize(
    ("box", "value"),
    [([0, 0, 400, 100], OFF), ([0, 0, 400, 91], OFF), ([0, 0, 400, 90], 1.0), ([0, 0, 200, 100], 1.0)],
)
def test_a_box_over_nearly_the_whole_image_serves_no_label(score, seeing, box, value) -> None:
    """Up to 0.9 of 400 x 100 px."""
    verdict = score(seeing({"dog": [tuple(box)]}), Point("dog", 15, 15))
    assert (verdict.value, verdict.failed) == (value, False)


def test_such_a_box_leaves_the_others(score, seeing) -> None:
    caller = seeing({"dog": [(0, 0, 400, 100), (10, 10, 20, 20)]})
    assert score(caller, Point("dog", 15, 15), Point("dog", 200, 50)).value == 0.5


def test_a_long_list_of_misses_is_cut(score, scripted) -> None:
    verdict = score(scripted(detector=[boxes()]), *(Point("dog", x, 1) for x in range(9)))
    assert verdict.value == pytest.approx(-0.1 * 9 / 10)
    assert verdict.reason.startswith("0 targets pointed at, 9 points off their objects; ")
    assert verdict.reason.count("not detected") == 5
    assert verdict.reason.endswith("and more")


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([("yellow square", 45, 35), ("yellow square", 215, 65)], 1.0),
        # one of two targets and one wrong point: 1/2 * (s + (1 - s) * 1/2)
        ([("yellow square", 45, 35), ("yellow square", 335, 25)], 0.375),
        ([("blue square", 335, 25), ("square", 45, 35), ("square", 120, 35)], 0.375),
        ([("yellow square", 45, 35), ("square", 46, 35), ("square", 120, 35)], 0.375),
        ([("blue square", 335, 25), ("square", 45, 35)], 0.75),
        ([("square", 335, 25)], 0.0),
        # a label that fits a blue square too claims all that it is put on, or says nothing
        ([("square", 45, 35), ("square", 215, 65), ("square", 335, 25)], 2 / 3),
        ([("object", 45, 35), ("thing", 215, 65), ("shape", 335, 25)], 2 / 3),
        ([("yellow square", 45, 35), ("yellow square", 215, 65), ("square", 335, 25)], 1.0),
        ([("yellow square", 45, 35), ("square", 215, 65), ("square", 335, 25)], 0.75),
        ([("square", 45, 35), ("square", 215, 65), ("blue square", 335, 25)], 1.0),
        # a place or a rank picks a thing out and does not tell it from the targets
        (
            [
                ("first object from the left", 45, 35),
                ("second object from the left", 215, 65),
                ("rightmost object", 335, 25),
            ],
            2 / 3,
        ),
        ([("lowest object", 215, 65), ("leftmost object", 45, 35), ("rightmost object", 335, 25)], 2 / 3),
        (
            [
                ("leftmost square", 45, 35),
                ("second square from the left", 215, 65),
                ("third square from the left", 335, 25),
            ],
            2 / 3,
        ),
        ([("yellow square", 45, 35), ("second shape from the left", 215, 65), ("rightmost shape", 335, 25)], 0.75),
        ([("first object from the left", 45, 35), ("second object from the left", 215, 65)], 1.0),
        ([("yellow square", 45, 35), ("yellow square", 215, 65), ("rightmost object", 335, 25)], 1.0),
        (
            [
                ("leftmost yellow square", 45, 35),
                ("yellow square", 215, 65),
                ("rightmost blue square", 335, 25),
            ],
            1.0,
        ),
        ([("rightmost object", 335, 25)], 0.0),
        ([], 0.0),
        ([("green square", 45, 35)], OFF),
        ([("dog", 45, 35)], OFF),
    ],
)
def test_argos_eq3_on_a_drawn_scene(with_models, case, points, expected) -> None:
    placed = tuple(Point(*point) for point in points)
    verdict = with_models(lambda models: score_spatial(case(caller=models, served=POINTS_TOO, points=placed)))
    assert (verdict.value, verdict.failed) == (pytest.approx(expected), False), verdict.reason


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
        | {"by": "", "note": "no such image"},
    ]


def test_of_nested_masks_the_smallest_is_meant(run, scripted, question) -> None:
    caller = scripted(
        detector=[boxes([0, 0, 60, 60], [10, 10, 20, 20])],
        segmenter=[masks(full(0, 0, 60, 60), full(10, 10, 10, 10))],
    )
    found = ObjectMasks(question(), caller, DETECTS)
    (inner, small), (outer, large) = (run(view_point(1, Point("part", x, x), found)) for x in (15, 40))
    assert (inner.instance, outer.instance) == (1, 0)
    assert (small.pixels.shape, large.pixels.shape) == ((10, 10), (60, 60))


def test_an_empty_mask_is_no_instance(score, scripted) -> None:
    caller = scripted(detector=[boxes([10, 10, 12, 12])], segmenter=[masks((10, 10, [[0, 0], [0, 0]]))])
    assert "not detected" in score(caller, Point("dog", 10, 10)).reason


@pytest.mark.parametrize(
    ("frame", "order"), [(CoordinateFrame.GEMINI, "[y1, x1, y2, x2]"), (CoordinateFrame.NORM1000, "[x1, y1, x2, y2]")]
)
def test_the_detector_is_asked_in_the_order_that_it_is_read_in(score, scripted, frame, order) -> None:
    """A 400x100 picture: y from 100 to 200 of 1000 is 10 to 20 px, x from 100 to 200 is 40 to 80 px."""
    caller = scripted(frame, detector=[boxes([100, 100, 200, 200])], segmenter=[masks(full(40, 10, 40, 10))])
    served = ServedRoles(frozenset({"detector", "segmenter"}))
    assert score(caller, Point("dog", 60, 15), served=served).value == 1.0
    assert order in caller.asked[0][1].user[1].text


POINTED = '<point x="15" y="15" alt="bar">bar</point>'
CHARTS = ServedRoles(POINTS_TOO.roles, synthetic_sources=frozenset({"charts"}))


@pytest.mark.parametrize(("own", "marked"), [(True, True), (False, False)])
def test_argos_before_eq3_on_synthetic_images_a_pointer_prompts_the_segmenter(score, scripted, own, marked) -> None:
    caller = scripted(pointer=[POINTED], segmenter=[masks(full(10, 10, 10, 40))])
    served = ServedRoles(CHARTS.roles, own_pointer=own, synthetic_sources=CHARTS.synthetic_sources)
    verdict = score(caller, Point("bar", 12, 45), Point("bar", 60, 45), served=served, source="charts")
    assert verdict.value == 0.5
    assert [(role, prompt.name) for role, prompt, _ in caller.asked] == [
        ("pointer", "point.v1"),
        ("segmenter", "segment_points.v1"),
    ]
    assert json.loads(caller.asked[1][1].variable("points")) == [[15, 15]]
    assert "pointer: charts holds synthetic images" in verdict.reason
    assert ("by the endpoint that placed these points" in verdict.reason) is marked
    assert all(json.loads(view)["by"] == "pointer" for view in verdict.evidence)


def test_another_source_is_left_to_the_detector(score, scripted) -> None:
    caller = scripted(detector=[boxes([10, 10, 20, 20])], segmenter=[masks(full(10, 10, 10, 10))])
    assert score(caller, Point("bar", 15, 15), served=CHARTS).value == 1.0


OTHERS_POINTS = replace(POINTS_TOO, own_pointer=False)


@pytest.mark.parametrize(
    "detector", [CallError(Failure.UNKNOWN_LABEL, "unknown label"), CallError(Failure.REFUSED, "no")]
)
def test_where_the_detector_cannot_serve_a_label_the_pointer_stands_in_and_is_named(score, scripted, detector) -> None:
    caller = scripted(detector=[detector], pointer=[POINTED], segmenter=[masks(full(10, 10, 10, 10))])
    verdict = score(caller, Point("bar", 15, 15), served=OTHERS_POINTS)
    assert verdict.value == 1.0
    assert "pointer: the detector cannot serve it: " in verdict.reason


@pytest.mark.parametrize(
    "reply", [*DOWN, CallError(Failure.AWAY, "known to be down"), CallError(Failure.EMPTY, "no text"), "I see a bar."]
)
def test_no_pointer_replaces_a_detector_that_gives_no_answer(score, scripted, reply) -> None:
    caller = scripted(detector=[reply], pointer=[POINTED], segmenter=[masks(full(10, 10, 10, 10))])
    assert score(caller, Point("bar", 15, 15), served=OTHERS_POINTS).failed


@pytest.mark.parametrize(
    ("detector", "value"), [(CallError(Failure.UNKNOWN_LABEL, "unknown label"), OFF), ("I see a bar.", None)]
)
def test_a_pointer_does_not_confirm_its_own_points(score, scripted, detector, value) -> None:
    caller = scripted(detector=[detector], pointer=[POINTED], segmenter=[masks(full(10, 10, 10, 10))])
    verdict = score(caller, Point("bar", 15, 15), served=POINTS_TOO)
    assert (verdict.value, verdict.failed) == (value, value is None)
    assert [role for role, _, _ in caller.asked] == ["detector"]


@pytest.mark.parametrize("pointer", ["There are none.", CallError(Failure.UNKNOWN_LABEL, "unknown word")])
def test_what_neither_detector_nor_pointer_serves_makes_the_point_wrong(score, scripted, pointer) -> None:
    caller = scripted(detector=[CallError(Failure.UNKNOWN_LABEL, "unknown label")], pointer=[pointer])
    verdict = score(caller, Point("bar", 15, 15), served=OTHERS_POINTS)
    assert (verdict.value, verdict.failed) == (OFF, False)
    assert "unknown label" in verdict.reason


def test_a_pointer_that_is_down_fails_the_verdict(score, scripted) -> None:
    caller = scripted(detector=[CallError(Failure.UNKNOWN_LABEL, "unknown label")], pointer=[DOWN[0]])
    verdict = score(caller, Point("bar", 15, 15), served=OTHERS_POINTS)
    assert (verdict.value, verdict.failed) == (None, True)
    assert "no reply in time" in verdict.reason


def test_a_detector_that_is_down_is_not_replaced_by_the_pointer(score, scripted) -> None:
    caller = scripted(detector=[DOWN[0]], pointer=[POINTED])
    assert score(caller, Point("bar", 15, 15), served=POINTS_TOO).failed
    assert [role for role, _, _ in caller.asked] == ["detector"]


def test_a_detector_that_finds_nothing_has_not_failed(score, scripted) -> None:
    verdict = score(scripted(detector=[boxes()]), Point("bar", 15, 15), served=POINTS_TOO)
    assert verdict.value == OFF


def test_on_a_synthetic_image_nothing_pointed_at_is_not_found(score, scripted) -> None:
    caller = scripted(pointer=["There are none."])
    assert score(caller, Point("bar", 15, 15), served=CHARTS, source="charts").value == OFF


@pytest.mark.parametrize(("number", "value"), [(2, 1.0), (3, OFF), (None, OFF)])
def test_a_point_of_a_clip_is_looked_for_on_its_frame(score, scripted, question, number, value) -> None:
    frames = tuple(FrameRef(n, n / 2, f"run:f{n}.jpg", f"{n}" * 64, 1) for n in (1, 2))
    (medium,) = question().media
    clip = type(medium)(
        medium.uri, "video", *(medium.sha256, medium.pixel_sha256, medium.dhash), 400, 100, 1, 1, frames
    )
    caller = scripted(detector=[boxes([10, 10, 20, 20])], segmenter=[masks(full(10, 10, 10, 10))])
    verdict = score(caller, Point("dog", 15, 15, frame=number), media=(clip,))
    assert verdict.value == value
    assert [prompt.media[0].uri for _, prompt, _ in caller.asked] == ["run:f2.jpg"] * (2 if value > 0 else 0)


@pytest.mark.parametrize(("detector", "on"), [(boxes([10, 10, 20, 20]), True), (boxes(), False)])
def test_the_check_of_one_point(run, scripted, case, detector, on) -> None:
    caller = scripted(detector=[detector], segmenter=[masks(full(10, 10, 10, 10))])
    check = point_checker(case(caller=caller, served=DETECTS, **NAMED), 0, ASKED)
    assert run(check(Point("dog", 15, 15, media_index=3))) is on


def test_points_of_a_clip_without_a_vote(run, seeing, case) -> None:
    """Each object votes once, and only where the question speaks of it."""
    caller = seeing({"dog": [(10, 10, 20, 20)], "cat": [(40, 40, 50, 50)]})
    check = point_checker(case(caller=caller, served=DETECTS, **NAMED | {"question": "Where is the dog?"}), 0, ASKED)
    said = [run(check(Point(label, x, x))) for label, x in (("dog", 15), ("dog", 16), ("cat", 45), ("dog", 90))]
    assert said == [True, None, None, False]


DOG, ANIMALS = [(10, 10, 20, 20)], [(10, 10, 20, 20), (50, 10, 60, 20)]
CLIPS = {
    "one dog in each of two frames": ([("dog", 15, 1), ("dog", 15, 2)], [True, None]),
    "by a fuller name": ([("dog", 15, 1), ("brown dog", 15, 2)], [True, None]),
    "by a shorter name": ([("brown dog", 15, 1), ("dog", 15, 2)], [True, None]),
    "by its number": ([("dog 1", 15, 1), ("dog 2", 15, 2)], [True, None]),
    "by an ordinal": ([("first dog", 15, 1), ("the second dog", 15, 2)], [True, None]),
    "by its places": ([("leftmost dog", 15, 1), ("dog on the right", 15, 2)], [True, None]),
    "by places that exclude each other": ([("left dog", 15, 1), ("right dog", 15, 2)], [True, None]),
    "by its kind": ([("dog", 15, 1), ("animal", 15, 2)], [True, None]),
    "by its kind first": ([("animal", 15, 1), ("dog", 15, 2)], [True, None]),
    "as an object": ([("dog", 15, 1), ("object", 15, 2)], [True, None]),
    "twice in one frame": ([("dog", 12, 1), ("dog", 17, 1)], [True, None]),
    "two animals in one frame, one of them again": (
        [("dog", 15, 1), ("animal", 55, 1), ("animal", 55, 2)],
        [True, True, None],
    ),
}


@pytest.mark.parametrize(("points", "expected"), CLIPS.values(), ids=CLIPS)
def test_one_object_of_several_frames_counts_once(run, seeing, case, question, points, expected) -> None:
    named = {"dog": DOG, "brown dog": DOG, "leftmost dog": DOG, "dog on the right": DOG, "left dog": DOG}
    named |= {"right dog": DOG, "animal": ANIMALS, "object": ANIMALS}
    frames = tuple(FrameRef(n, n / 2, f"run:f{n}.jpg", f"{n}" * 64, 1) for n in (1, 2))
    (medium,) = question().media
    clip = replace(medium, kind="video", frames=frames)
    asked = {"question": "What does the animal do, the dog?", "entities": ("animal",), "pointable": ("animal",)}
    given = case(caller=seeing(named), served=DETECTS, media=(clip,), **NAMED | asked)
    check = point_checker(given, 0, ASKED)
    assert [run(check(Point(label, x, 15, frame=n))) for label, x, n in points] == expected


def test_the_check_of_one_point_fails_with_the_detector(run, scripted, case) -> None:
    check = point_checker(case(caller=scripted(detector=[DOWN[0]]), served=DETECTS, **NAMED), 0, ASKED)
    with pytest.raises(CallError, match="no reply in time"):
        run(check(Point("dog", 15, 15)))


def test_the_check_of_one_point_is_false_where_its_label_cannot_be_served(run, scripted, case) -> None:
    reply = CallError(Failure.UNKNOWN_LABEL, "unknown label")
    check = point_checker(case(caller=scripted(detector=[reply]), served=DETECTS, **NAMED), 0, ASKED)
    assert run(check(Point("dog", 15, 15))) is False


def test_a_view_is_evidence_that_reads_back() -> None:
    view = PointView(1, 'the "dog"', 1.5, 2.0, 0, None, True, 0, 1, "detector")
    assert PointView(**json.loads(view.evidence)) == view


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        # the labels of two objects that are both there, swapped
        ([("blue square", 45, 35), ("yellow square", 335, 25)], -0.1 * 2 / 3),
        ([("yellow square", 45, 35), ("blue square", 335, 25)], 1.0),
        ([("yellow circle", 45, 35)], OFF),
    ],
)
def test_the_embedded_detector_tells_labels_apart(with_models, case, points, expected) -> None:
    placed = tuple(Point(*point) for point in points)
    asked = {"question": "Are there squares or circles?", "pointable": ("square",)}
    asked |= {"served": DETECTS, "points": placed}
    verdict = with_models(lambda models: score_spatial(case(caller=models, **asked)))
    assert verdict.value == pytest.approx(expected), verdict.reason


def test_the_embedded_engine_points_and_segments_on_synthetic_images(with_models, case) -> None:
    placed = (Point("yellow square", 31, 21), Point("yellow square", 228, 78), Point("yellow square", 120, 35))
    asked = {"source": "charts", "served": CHARTS, "points": placed}
    verdict = with_models(lambda models: score_spatial(case(caller=models, **asked)))
    assert verdict.value == pytest.approx(2 / 3), verdict.reason
    assert "charts holds synthetic images; by the endpoint" in verdict.reason


def test_without_a_segmenter_boxes_stand_for_masks(score, scripted) -> None:
    caller = scripted(detector=[boxes([10.5, 10, 20.2, 30], [50, 50, 50, 60])])
    served = ServedRoles(frozenset({"detector", "pointer"}))
    verdict = score(caller, Point("dog", 10, 29), Point("dog", 20.9, 12), Point("dog", 21, 12), served=served)
    assert verdict.value == pytest.approx(1 / 2)  # the pixels that the box touches; a box without width is no object
    assert "boxes replace masks: no segmenter" in verdict.reason
    assert [json.loads(view)["note"] for view in verdict.evidence] == ["boxes replace masks: no segmenter"] * 3
    assert [role for role, _, _ in caller.asked] == ["detector"]


def test_what_the_detector_calls_it_is_in_the_evidence(score, scripted) -> None:
    caller = scripted(detector=['{"boxes": [{"label": "puppy", "box": [10, 10, 20, 30]}]}'])
    verdict = score(caller, Point("dog", 15, 20), served=ServedRoles(frozenset({"detector"})))
    assert verdict.value == 1.0
    assert "no segmenter; the detector calls it 'puppy'" in verdict.reason
    assert "calls it 'puppy'" in json.loads(verdict.evidence[0])["note"]


def test_without_a_segmenter_a_pointer_does_not_stand_in(score, scripted) -> None:
    caller = scripted(detector=["no idea"])
    verdict = score(caller, Point("dog", 10, 29), served=ServedRoles(frozenset({"detector", "pointer"})))
    assert (verdict.value, verdict.failed) == (None, True)
    assert [role for role, _, _ in caller.asked] == ["detector"]
