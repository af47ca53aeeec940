"""Boxes on the things that they name, by gold boxes and by a detector; and what is written to pass without being so."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundtrace.inference.errors import CallError, Failure
from groundtrace.rewards.form import BOXED_FORM, TEXTUAL_FORM
from groundtrace.rewards.locating import ServedRoles
from groundtrace.rewards.scorers import boxes, boxes_counted, boxes_located
from groundtrace.rewards.scorers.boxes_located import MAX_BOXES, score_located
from groundtrace.rewards.selection import choose
from groundtrace.schemas.geometry import Box

DETECTS = ServedRoles(frozenset({"detector"}))
PARK = {
    "dog": [(10, 10, 30, 30), (50, 10, 70, 30), (90, 10, 110, 30)],
    "cat": [(130, 10, 150, 30)],
    "animal": [(10, 10, 30, 30), (50, 10, 70, 30), (90, 10, 110, 30), (130, 10, 150, 30)],
    "bench": [(200, 10, 260, 60)],
}
ASKED = {"question": "Is there a dog, a cat or an animal?", "gold": "yes", "answer_type": "bool"}


def at(*lefts: float, label: str = "dog", side: float = 20, top: float = 10) -> list[Box]:
    """Square boxes from these left edges on."""
    return [Box(label, left, top, left + side, top + side) for left in lefts]


GOLD = (*at(10, 50, 90, label="brown dog"), *at(130, label="cat"))


@pytest.fixture
def score(run, case):
    """Score boxes against what the caller's detector says, and against gold boxes where there are some."""

    def build(caller, *written: Box, **changes):
        made = case(caller=caller, served=DETECTS, boxes=written, form=BOXED_FORM, **(ASKED | changes))
        return run(score_located(made))

    return build


RIGHT = {
    "one": at(10),
    "each dog": at(10, 50, 90),
    "not quite on it": at(15),
    "two kinds": [*at(10), *at(130, label="cat")],
    "by a more general name": at(10, label="animal"),
}


@pytest.mark.parametrize("gold", [None, GOLD], ids=["detector", "gold"])
@pytest.mark.parametrize("written", RIGHT.values(), ids=RIGHT)
def test_boxes_on_what_they_name_are_right(score, seeing, written, gold) -> None:
    assert score(seeing(PARK), *written, gold_boxes=gold).value == 1.0


ATTACKS = {
    "no box": ([], 0.0),
    "a copy": (at(10, 10), 1 / 2),
    "one box for three dogs": (at(10, 10, 10), 1 / 3),
    "a near copy": (at(10, 11), 1 / 2),
    "one dog by two names": ([*at(10), *at(10, label="animal")], 1 / 2),
    "the whole image": ([Box("dog", 0, 0, 400, 100)], 0.0),
    "all dogs in one box": ([Box("dog", 10, 10, 110, 30)], 0.0),
    "labels swapped": ([*at(10, label="cat"), *at(130, label="dog")], 0.0),
    "shifted by half a width": (at(20, 60, 100), 0.0),
    "shifted by half a height": (at(10, top=20), 0.0),
    "half as wide and high": (at(10, side=10), 0.0),
    "on nothing": (at(300), 0.0),
    "what nobody asked about": ([*at(10), Box("bench", 200, 10, 260, 60)], 1 / 2),
    "no name": (at(10, label=""), 0.0),
    "a name of the whole": (at(10, label="picture"), 0.0),
    "what the detector does not know": (at(10, label="gizmo"), 0.0),
    "another image": ([Box("dog", 10, 10, 30, 30, media_index=1)], 0.0),
    "corners in one place": ([Box("dog", 10, 10, 10, 10)], 0.0),
    "more than anybody needs": (at(*range(MAX_BOXES + 1)), 0.0),
}


@pytest.mark.parametrize("gold", [None, GOLD], ids=["detector", "gold"])
@pytest.mark.parametrize(("written", "value"), ATTACKS.values(), ids=ATTACKS)
def test_what_is_not_on_what_it_names_stays_below_the_floor(score, seeing, written, value, gold) -> None:
    verdict = score(seeing(PARK), *written, gold_boxes=gold)
    assert (verdict.value, verdict.failed) == (pytest.approx(value), False)
    assert verdict.value < boxes_located.SCORER.floor


def test_gold_boxes_of_the_name_spare_the_detector(score, seeing) -> None:
    caller = seeing({})
    assert score(caller, *at(10, 50), gold_boxes=GOLD).value == 1.0
    assert caller.asked == []


@pytest.mark.parametrize("label", ["", "object", "dog"])
def test_a_gold_box_vouches_for_no_more_than_its_name_says(score, seeing, label) -> None:
    caller = seeing({"brown dog": [(10, 10, 30, 30)], "white dog": []})
    gold = tuple(at(10, label=label))
    assert score(caller, *at(10, label="brown dog"), gold_boxes=gold).value == 1.0
    assert score(caller, *at(10, label="white dog"), gold_boxes=gold).value == 0.0
    assert {prompt.variable("label") for _, prompt, _ in caller.asked} == {"brown dog", "white dog"}


def test_a_thing_that_the_gold_boxes_mark_is_spoken_of(score, seeing) -> None:
    bench = Box("bench", 200, 10, 260, 60)
    assert score(seeing(PARK), bench, gold_boxes=(bench,)).value == 1.0
    assert score(seeing(PARK), replace(bench, x1=205), gold_boxes=(replace(bench, label=""),)).value == 1.0


@pytest.mark.parametrize("failure", [Failure.CONNECTION, Failure.TIMEOUT])
def test_a_server_that_fails_fails_the_verdict(score, scripted, failure) -> None:
    verdict = score(scripted(detector=[CallError(failure, "gone")]), *at(10))
    assert (verdict.value, verdict.failed) == (None, True)


def test_each_box_has_its_view(score, seeing) -> None:
    views = [json.loads(each) for each in score(seeing(PARK), *at(10, 20)).evidence]
    assert [(view["number"], view["by"], view["iou"], view["fault"]) for view in views] == [
        (1, "detector", 1.0, ""),
        (2, "detector", 0.333, "off it (IoU 0.33)"),
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.permutations([*at(10, 50, 90, 12), *at(130, label="cat"), *at(300), *at(20, label="animal")]))
def test_the_order_of_writing_changes_nothing(score, seeing, written) -> None:
    assert score(seeing(PARK), *written).value == pytest.approx(4 / 7)


@pytest.mark.parametrize("scorer", [boxes_located.SCORER, boxes.OF_TRACES, boxes_counted.SCORER], ids=lambda s: s.name)
def test_they_are_not_applicable_where_no_boxes_were_asked_for(case, scorer) -> None:
    asked = case(question="How many dogs are there?", gold_boxes=GOLD, boxes=tuple(at(10)), served=DETECTS)
    assert choose(scorer, replace(asked, form=BOXED_FORM)).chosen
    left_out = choose(scorer, replace(asked, form=TEXTUAL_FORM))
    assert (left_out.chosen, left_out.failed, left_out.reason) == (False, False, "no boxes were asked for")


@pytest.mark.parametrize(
    ("written", "value"),
    [(at(10, 50, 90), 1.0), (at(10), 1 / 3), (at(10, 10, 10), 1 / 3), (at(10, 50, 300), 2 / 4)],
)
def test_a_count_takes_a_box_for_each_thing(run, case, seeing, written, value) -> None:
    made = case(
        "<answer>3</answer>", seeing(PARK), DETECTS, question="How many dogs are there?", gold="3",
        boxes=tuple(written), form=BOXED_FORM,
    )  # fmt: skip
    verdict = run(boxes_counted.score_counted(made))
    assert (verdict.name, verdict.value) == ("counting", pytest.approx(value))
