"""Counting by pointing: what a question counts, the pairing of points and instances, and when no verdict is given."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.errors import CallError, Failure
from inference.grounding import Mask, encode_mask
from rewards.locating import ObjectMasks, Served
from rewards.scorers.counting import Pairing, counted_points, counted_words, distinct, is_counted, pair, score_counting
from schemas.geometry import Point

DETECTS = Served(frozenset({"detector", "segmenter"}))


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("How many yellow squares are there in the image?", {"yellow", "square"}),
        ("how many of the red cars are parked?", {"red", "car"}),
        ("How many objects are there?", set()),
        ("How many black or blue squares touch the edge?", {"black", "blue", "square", "touch", "edge"}),
        ("What is the total number of boxes on the shelf?", {"box"}),
        ("Count the people in the photo.", {"person"}),
        ("Count all of the berries", {"berry"}),
        ("How many dishes?", {"dish"}),
        ("How many glasses do you see?", {"glass"}),
        ("How many red squares, if any, are there?", {"red", "square"}),
        ("How many more squares than circles are there?", None),
        ("Is there a square?", None),
        ("What is the value of the tallest bar?", None),
        ("", None),
    ],
)
def test_what_a_question_counts(question, words) -> None:
    assert counted_words(question) == words


@pytest.mark.parametrize(
    ("label", "words", "counted"),
    [
        ("yellow square", {"yellow", "square"}, True),
        ("Yellow Squares", {"yellow", "square"}, True),
        ("blue triangle", {"blue"}, True),
        ("blue triangle", set(), True),
        ("small red car", {"red", "car"}, True),
        ("car", {"red", "car"}, True),
        ("blue square", {"black", "blue", "square"}, True),
        ("blue square", {"yellow", "square"}, False),
        ("table", {"apple"}, False),
        ("object", {"red", "car"}, False),
        ("", {"car"}, False),
    ],
)
def test_which_labels_are_counted(label, words, counted) -> None:
    assert is_counted(label, frozenset(words)) is counted


def test_which_points_are_counted() -> None:
    points = (Point("apple", 1, 1), Point("table", 2, 2))
    assert counted_points("How many apples are on the table?", points) == points[:1]
    assert counted_points("Is there an apple?", points) is None


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


def boxes(*xs: int) -> str:
    return json.dumps({"boxes": [[x, 10, x + 10, 20] for x in xs]})


def cut(*xs: int) -> str:
    return json.dumps({"masks": [encode_mask(x, 10, np.ones((10, 10), bool)) for x in xs]})


@pytest.fixture
def score(run, question):
    """Score points at these x (y = 15) for a question with this answer."""

    def build(caller, answer: str | None, *points: Point, entities: tuple[str, ...] = (), **changes):
        masks = ObjectMasks(question(**changes), caller, DETECTS)
        return run(score_counting(points, answer, entities, masks))

    return build


def at(*xs: float, label: str = "yellow square") -> list[Point]:
    return [Point(label, x, 15) for x in xs]


@pytest.mark.parametrize(
    ("xs", "value", "said"),
    [
        ((15, 55), 1.0, "2 points for 2 instances"),
        ((15,), 0.5, "1 points for 2 instances; 1 without a point"),
        ((15, 16), 1 / 3, "2 points for 2 instances; 1 without a point; 1 pointed at twice"),
        ((15, 55, 90), 2 / 3, "3 points for 2 instances; 1 points on none"),
    ],
)
def test_a_count_whose_instances_are_the_answer(score, scripted, xs, value, said) -> None:
    verdict = score(scripted(detector=[boxes(10, 50)], segmenter=[cut(10, 50)]), "2", *at(*xs))
    assert (verdict.name, verdict.value, verdict.reason) == ("counting", pytest.approx(value), said)
    (evidence,) = verdict.evidence
    assert json.loads(evidence)["instances"] == 2


def test_a_class_passed_over_altogether_is_seen_by_the_entities(score, scripted) -> None:
    caller = scripted(detector=[boxes(10), boxes(50)], segmenter=[cut(10), cut(50)])
    asked = {"question": "How many yellow objects are there?"}
    verdict = score(caller, "2", *at(15), entities=("yellow circle", "yellow square", "blue square"), **asked)
    assert (verdict.value, verdict.reason) == (0.5, "1 points for 2 instances; 1 without a point")
    assert [prompt.variable("label") for role, prompt, _ in caller.asked if role == "detector"] == [
        "yellow square",
        "yellow circle",
    ]


def test_a_class_that_nobody_named_is_seen_by_the_questions_own_words(score, scripted) -> None:
    caller = scripted(detector=[boxes(10), boxes(10, 50)], segmenter=[cut(10), cut(10, 50)])
    asked = {"question": "How many of the yellow shapes are there?"}
    verdict = score(caller, "2", *at(15, 16), **asked)
    assert (verdict.value, verdict.reason) == (
        pytest.approx(1 / 3),
        "2 points for 2 instances; 1 without a point; 1 pointed at twice",
    )
    assert caller.asked[2][1].variable("label") == "yellow shape"


def test_words_that_the_detector_does_not_know_change_nothing(score, scripted) -> None:
    caller = scripted(detector=[boxes(10), CallError(Failure.UNSUPPORTED, "unknown")], segmenter=[cut(10)])
    verdict = score(caller, "2", *at(15), question="How many yellow shapes are there?")
    assert (verdict.value, verdict.reason) == (None, SOME.format(1, 2))


def test_things_in_general_are_not_looked_for(score, scripted) -> None:
    caller = scripted(detector=[boxes(10)], segmenter=[cut(10)])
    assert score(caller, "2", *at(15), question="How many objects are there?").reason == SOME.format(1, 2)


SOME = "{} are found where the answer is {}: not all of them may be meant"


def test_an_object_under_two_labels_counts_once(score, scripted) -> None:
    caller = scripted(detector=[boxes(10), boxes(10, 50)], segmenter=[cut(10), cut(10, 50)])
    asked = {"question": "How many squares are there?"}
    assert score(caller, "2", *at(15), *at(55, label="square"), **asked).value == 1.0


def test_points_on_other_things_are_left_alone(score, scripted) -> None:
    caller = scripted(detector=[boxes(10, 50)], segmenter=[cut(10, 50)])
    assert score(caller, "2", *at(15, 55), *at(90, label="table")).value == 1.0


def test_points_on_media_that_are_not_there_are_on_none(score, scripted) -> None:
    caller = scripted(detector=[boxes(10, 50)], segmenter=[cut(10, 50)])
    verdict = score(caller, "2", *at(15, 55), Point("yellow square", 15, 15, media_index=4))
    assert verdict.value == pytest.approx(2 / 3)


UNSCORED = {
    "some of them only": ("3", boxes(10, 50), "2 are found where the answer is 3"),
    "no number": ("two or three", boxes(10, 50), "the answer is not a whole number"),
    "half": ("2.5", boxes(10, 50), "the answer is not a whole number"),
    "no answer": (None, boxes(10, 50), "the answer is not a whole number"),
    "a failed detector": ("2", CallError(Failure.TIMEOUT, "no reply"), "'yellow square': "),
    "a detector's prose": ("2", "two squares", "'yellow square': "),
}


@pytest.mark.parametrize("case", UNSCORED)
def test_when_it_cannot_be_told_there_is_no_verdict(score, scripted, case) -> None:
    answer, detector, said = UNSCORED[case]
    verdict = score(scripted(detector=[detector], segmenter=[cut(10, 50)]), answer, *at(15))
    assert verdict.value is None
    assert said in verdict.reason


@pytest.mark.parametrize("changes", [{"question": "Is it so?"}, {"question": "How many dogs are there?"}])
def test_points_on_what_is_not_counted_ask_nobody(score, scripted, changes) -> None:
    caller = scripted()
    assert score(caller, "1", *at(15), **changes).value is None
    assert caller.asked == []


@pytest.mark.parametrize(
    ("points", "value"),
    [
        ([(45, 35), (215, 65)], 1.0),
        ([(45, 35)], 0.5),
        ([(45, 35), (46, 35)], 1 / 3),
        ([(45, 35), (215, 65), (120, 35)], 2 / 3),
    ],
)
def test_counting_on_a_drawn_scene(with_models, question, points, value) -> None:
    placed = [Point("yellow square", *place) for place in points]
    verdict = with_models(lambda models: score_counting(placed, "2", (), ObjectMasks(question(), models, DETECTS)))
    assert verdict.value == pytest.approx(value), verdict.reason
