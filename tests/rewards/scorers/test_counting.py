"""Counting by pointing: when points and instances are paired, when no point is 0, when it fails, and when it does not
apply."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.grounding import encode_mask
from groundtrace.rewards.locating import ServedRoles
from groundtrace.rewards.scorers.counting import score_counting
from groundtrace.schemas.geometry import Point

DETECTS = ServedRoles(frozenset({"detector", "segmenter"}))


def boxes(*xs: int) -> str:
    return json.dumps({"boxes": [[x, 10, x + 10, 20] for x in xs]})


def cut(*xs: int) -> str:
    return json.dumps({"masks": [encode_mask(x, 10, np.ones((10, 10), bool)) for x in xs]})


@pytest.fixture
def score(run, case):
    """Score points at these x (y = 15) for a question with this answer."""

    def build(caller, answer: str | None, *points: Point, **changes):
        return run(score_counting(case(caller=caller, served=DETECTS, answer=answer, points=points, **changes)))

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
    caller = scripted(detector=[boxes(10), CallError(Failure.UNKNOWN_LABEL, "unknown")], segmenter=[cut(10)])
    verdict = score(caller, "2", *at(15), question="How many yellow shapes are there?")
    assert (verdict.value, verdict.failed, verdict.reason) == (None, False, SOME.format(1, 2))


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


def box(x: int) -> tuple[int, int, int, int]:
    return x, 10, x + 10, 20


SCENE = {
    "yellow square": [box(10), box(50)],
    "yellow squares": [box(10), box(50)],
    "square": [box(10), box(50), box(90)],
    "blue square": [box(90)],
    "small yellow square": [box(10)],
    "table": [(200, 10, 260, 60)],
}


@pytest.mark.parametrize(("label", "known"), [("yellow square", False), ("block", True)])
def test_the_far_edge_counts_to_the_last_pixel(score, seeing, label, known) -> None:
    """As it does for the spatial score."""
    caller = seeing({"yellow square": [(390, 10, 400, 20)]})
    expected = {"entities": ("yellow square",), "pointable": ("yellow square",)} if known else {}
    assert score(caller, "1", *at(400, label=label), **expected).value == 1.0
    assert score(caller, "1", *at(401, label=label), **expected).value == 0.0


@pytest.mark.parametrize(
    "again",
    [at(15, 15, 55, 55, 55), at(55, 15), [*at(15, 55), *at(15, label="Yellow Squares"), *at(55, label="square")]],
    ids=["repeated", "in another order", "under another name"],
)
def test_a_point_that_is_mentioned_again_is_one_point(score, seeing, again) -> None:
    assert score(seeing(SCENE), "2", *again).value == score(seeing(SCENE), "2", *at(15, 55)).value == 1.0


def test_of_more_instances_than_the_answer_as_many_must_be_pointed_at(score, seeing) -> None:
    """3 squares, of which 2 touch the edge: which ones no detector says."""
    asked = {"question": "How many squares touch the edge?"}
    verdict = score(seeing(SCENE), "2", *at(15, label="square"), **asked)
    assert (verdict.value, verdict.reason) == (0.5, "1 are pointed at where the answer is 2")
    enough = score(seeing(SCENE), "2", *at(15, 55, label="square"), **asked)
    assert (enough.value, enough.failed, enough.reason) == (None, False, SOME.format(3, 2))
    twice = score(seeing(SCENE), "2", *at(15, 16, label="square"), **asked)
    assert twice.value == 0.5


@pytest.mark.parametrize(
    ("xs", "value"),
    [((15, 55), 1.0), ((15, 95), 1 / 3), ((95, 96), 0.5), ((15, 55, 95), 2 / 3)],
    ids=["those counted", "another one", "only others", "all"],
)
def test_a_label_of_more_than_what_is_counted_does_not_take_the_check_away(score, seeing, xs, value) -> None:
    """Two yellow squares and a blue one, all called square."""
    assert score(seeing(SCENE), "2", *at(*xs, label="square")).value == pytest.approx(value)


EXPECTED = {"pointable": ("table", "yellow square"), "entities": ("table", "yellow square")}


@pytest.mark.parametrize(
    "points",
    [(), at(230, label="table"), at(95, label="blue square"), at(300, label="gizmo"), at(300, label="")],
    ids=["no point", "on another thing", "on another square", "by no name that is served", "nowhere"],
)
def test_without_a_point_on_what_is_counted_the_score_is_0_where_the_pointer_found_such_a_thing(
    score, seeing, points
) -> None:
    verdict = score(seeing(SCENE), "2", *points, **EXPECTED)
    assert (verdict.value, verdict.failed) == (0.0, False)
    assert verdict.reason == "the answer is 2, and no point is on what is counted (yellow square)"


def test_points_that_lie_on_what_is_counted_count_by_any_name(score, seeing) -> None:
    """Whether the name is right is left to the spatial scorer."""
    named = at(15, 55, label="block")
    assert score(seeing(SCENE | {"block": [box(10), box(50)]}), "2", *named, **EXPECTED).value == 1.0
    assert score(seeing(SCENE), "2", *at(15, 55, label="block")).value == 1.0


@pytest.mark.parametrize(
    ("answer", "changes"),
    [
        ("0", EXPECTED),
        ("2", {"pointable": ("table",), "entities": ("table", "yellow square")}),
        ("2", {"entities": ("yellow square",)}),
        ("2", {}),
    ],
    ids=["none are counted", "the pointer found another thing", "the pointer found nothing", "nothing was proposed"],
)
def test_without_a_point_on_what_is_counted_it_does_not_apply_where_there_is_none_to_be_expected(
    score, seeing, answer, changes
) -> None:
    verdict = score(seeing(SCENE), answer, *at(230, label="table"), **changes)
    assert (verdict.value, verdict.failed, verdict.reason) == (None, False, "no point is on what is counted")


NOT_APPLICABLE = {
    "some of them only": ("3", boxes(10, 50), "2 are found where the answer is 3"),
    "a label that the detector does not know": ("2", CallError(Failure.UNKNOWN_LABEL, "unknown"), "0 are found"),
    "no number": ("two or three", boxes(10, 50), "the answer is not a whole number"),
    "half": ("2.5", boxes(10, 50), "the answer is not a whole number"),
    "no answer": (None, boxes(10, 50), "the answer is not a whole number"),
}


@pytest.mark.parametrize(("answer", "detector", "said"), NOT_APPLICABLE.values(), ids=NOT_APPLICABLE)
def test_where_instances_and_answer_cannot_be_paired_it_does_not_apply(score, scripted, answer, detector, said) -> None:
    verdict = score(scripted(detector=[detector] * 2, segmenter=[cut(10, 50)] * 2), answer, *at(15))
    assert (verdict.value, verdict.failed) == (None, False)
    assert said in verdict.reason


@pytest.mark.parametrize("failure", [Failure.TIMEOUT, Failure.CONNECTION, Failure.SERVER_ERROR, Failure.UNAUTHORISED])
@pytest.mark.parametrize("role", ["detector", "segmenter"])
def test_a_server_that_is_down_fails_the_verdict(score, scripted, role, failure) -> None:
    replies = {"detector": [boxes(10, 50)]} | {role: [CallError(failure, "no reply")]}
    verdict = score(scripted(**replies), "2", *at(15))
    assert (verdict.value, verdict.failed) == (None, True)
    assert "no reply" in verdict.reason


def test_a_server_that_is_down_when_other_names_are_tried_fails_the_verdict(score, scripted) -> None:
    caller = scripted(detector=[CallError(Failure.TIMEOUT, "no reply")])
    assert score(caller, "2", *at(15, label="block"), **EXPECTED).failed


def test_a_question_that_does_not_count_asks_nobody(score, scripted) -> None:
    caller = scripted()
    verdict = score(caller, "1", *at(15), question="Is it so?")
    assert (verdict.value, verdict.failed) == (None, False)
    assert caller.asked == []


@pytest.mark.parametrize(
    ("points", "value"),
    [
        ([(45, 35), (215, 65)], 1.0),
        ([(45, 35), (215, 65), (45, 35)], 1.0),
        ([(45, 35)], 0.5),
        ([(45, 35), (46, 35)], 1 / 3),
        ([(45, 35), (215, 65), (120, 35)], 2 / 3),
        ([], 0.0),
    ],
)
def test_counting_on_a_drawn_scene(with_models, case, points, value) -> None:
    placed = tuple(Point("yellow square", *place) for place in points)
    known = {"entities": ("yellow square",), "pointable": ("yellow square",)}
    verdict = with_models(lambda models: score_counting(case(caller=models, served=DETECTS, points=placed, **known)))
    assert verdict.value == pytest.approx(value), verdict.reason


PLACED = st.lists(
    st.builds(
        Point,
        st.sampled_from(["yellow square", "square", "blue square", "gizmo", "", "picture", "table"]),
        st.sampled_from([12, 15, 30, 55, 95, 230, 399]),
        st.just(15),
    ),
    max_size=8,
)
EACH_BUILT_ALONE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@EACH_BUILT_ALONE
@given(points=PLACED, answer=st.sampled_from("0123"), rng=st.randoms(use_true_random=False), known=st.booleans())
def test_repeats_and_another_order_change_nothing(score, seeing, points, answer, rng, known) -> None:
    again = [*points, *(rng.choices(points, k=5) if points else [])]
    rng.shuffle(again)
    expected = EXPECTED if known else {}
    one, other = (score(seeing(SCENE), answer, *placed, **expected) for placed in (points, again))
    assert (one.value, one.failed) == (other.value, other.failed)


@EACH_BUILT_ALONE
@given(points=PLACED, answer=st.sampled_from("0123"), label=st.sampled_from(["gizmo", "", "picture", "全部"]))
def test_a_point_with_a_label_that_nothing_can_serve_raises_no_value_that_there_is(
    score, seeing, points, answer, label
) -> None:
    """Where others are named as what is counted, it does not count itself."""
    named = [*at(15), *points]
    one = score(seeing(SCENE), answer, *named, **EXPECTED)
    other = score(seeing(SCENE), answer, *named, *at(55, label=label), **EXPECTED)
    assert (one.value, one.failed) == (other.value, other.failed)
