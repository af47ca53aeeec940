"""Planted faults: each is what its kind says by the gold boxes, and the same one every time."""

import random

import pytest

from benchmarks.learning.faults import HIDDEN, WRONG_ANSWER, RightTrace, plant, wrong_answer, wrong_conclusion
from groundtrace.grading.responses.response import parse_points, parse_response
from groundtrace.schemas.geometry import Box

SQUARES = (Box("red square", 10, 10, 50, 50), Box("red square", 80, 10, 120, 50))
CIRCLE = Box("blue circle", 10, 80, 50, 120)


def tag(label: str, x: float, y: float) -> str:
    return f'<points x1="{x}" y1="{y}" alt="{label}">{label}</points>'


POINTED = ", ".join([tag("red square", 30.5, 30.5), tag("red square", 100.5, 30.5), tag("blue circle", 30.5, 100.5)])
COUNTED = f"<think>I find {POINTED}. Looking over the whole picture, there are 3 objects.</think>\n<answer>3</answer>"
NONE = "<think>Looking over the whole picture, there are 0 squares.</think>\n<answer>0</answer>"
STATED = (
    f"<think>I find {tag('red square', 30.5, 30.5)}. The picture shows 1 red square. That does not agree with "
    "at least 2. So the answer is no.</think>\n<answer>no</answer>"
)
RIGHT = RightTrace("a", COUNTED, "3", (*SQUARES, CIRCLE), ("red square", "blue circle"), 256, 256)
ABSENT = RightTrace("b", NONE, "0", (), ("square",), 256, 256)
STATEMENT = RightTrace("c", STATED, "no", SQUARES[:1], ("red square",), 256, 256)


def planted(right: RightTrace, kind: str) -> str | None:
    return HIDDEN[kind](right, random.Random(3))


def on(text: str) -> list[bool]:
    return [RIGHT.is_on(point) for point in parse_points(text)]


def test_the_right_trace_is_right() -> None:
    assert on(COUNTED) == [True] * 3 and parse_response(COUNTED).answer == "3"


@pytest.mark.parametrize(
    ("kind", "points", "off"),
    [
        ("point moved off its object", 3, 1),
        ("labels swapped", 3, 2),
        ("object missed", 2, 0),
        ("object doubled for another", 3, 0),
        ("point invented", 4, 1),
        ("wrong conclusion", 3, 0),
    ],
)
def test_a_hidden_fault_is_one_fault_behind_a_right_answer(kind: str, points: int, off: int) -> None:
    text = planted(RIGHT, kind)
    assert text is not None and text != COUNTED
    assert parse_response(text).answer == "3"
    assert (len(on(text)), on(text).count(False)) == (points, off)


def test_a_doubled_object_takes_the_point_of_another() -> None:
    text = planted(RIGHT, "object doubled for another")
    held = [
        [(p.label, b.x1, b.y1) for b in RIGHT.gold if b.x1 <= p.x < b.x2 and b.y1 <= p.y < b.y2]
        for p in parse_points(text or "")
    ]
    assert len(held) == 3 and len({tuple(boxes) for boxes in held}) == 2


def test_what_is_absent_can_only_be_invented_or_miscounted() -> None:
    possible = {kind for kind in HIDDEN if planted(ABSENT, kind) is not None}
    assert possible == {"point invented", "wrong conclusion"}
    (point,) = parse_points(planted(ABSENT, "point invented") or "")
    assert point.label == "square"


@pytest.mark.parametrize(
    ("right", "concludes", "answers"),
    [(RIGHT, ("there are 2 ", "there are 4 "), ("2", "4")), (ABSENT, ("there are 1 ",), ("1",))],
)
def test_a_count_is_off_by_one(right: RightTrace, concludes: tuple[str, ...], answers: tuple[str, ...]) -> None:
    hidden, wrong = wrong_conclusion(right, random.Random(1)) or "", wrong_answer(right, random.Random(1))
    assert any(said in hidden for said in concludes) and parse_response(hidden).answer == right.answer
    assert any(said in wrong for said in concludes) and parse_response(wrong).answer in answers


def test_a_statement_is_concluded_the_other_way() -> None:
    hidden, wrong = wrong_conclusion(STATEMENT, random.Random(1)) or "", wrong_answer(STATEMENT, random.Random(1))
    for text, answer in ((hidden, "no"), (wrong, "yes")):
        assert "That agrees with at least 2. So the answer is yes." in text
        assert parse_response(text).answer == answer


def test_the_draw_depends_on_id_and_seed_alone_and_half_of_it_are_wrong_answers() -> None:
    assert plant(RIGHT, 7) == plant(RIGHT, 7) and plant(RIGHT, 7) != plant(RIGHT, 8)
    drawn = [plant(RightTrace(str(n), COUNTED, "3", RIGHT.gold, RIGHT.entities, 256, 256), 7) for n in range(400)]
    assert {fault.kind for fault in drawn} == {*HIDDEN, WRONG_ANSWER}
    assert 0.42 < sum(fault.kind == WRONG_ANSWER for fault in drawn) / 400 < 0.58
    assert 0.32 < sum(fault.rank < 0.4 for fault in drawn) / 400 < 0.48
