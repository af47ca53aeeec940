"""Pseudo-boxes: of what they are made, which questions stay without, and who is asked what."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.inference.grounding import BadReply
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Draft
from groundtrace.stages.locate_targets import (
    SAME_BOX_IOU,
    LocateSettings,
    LocateTargets,
    pseudo_boxes,
    targets_of_reply,
)

REPLIES = [
    ('{"targets": ["red square", "dog"]}', ("red square", "dog")),
    ('```json\n{"targets": [" red\\n square ", "red square"]}\n```', ("red square",)),
    ('{"targets": []}', ()),
    ('{"targets": ["", "?!", "picture", "dog"]}', ("dog",)),
    ('{"targets": ["a cat", "a dog", "a cow", "a pig"]}', ()),
]


@pytest.mark.parametrize(("text", "targets"), REPLIES)
def test_the_targets_of_a_reply(text: str, targets: tuple[str, ...]) -> None:
    assert targets_of_reply(text, 3) == targets


@pytest.mark.parametrize("text", ["", "a dog", '["dog"]', "{}", '{"targets": "dog"}', '{"targets": [1]}'])
def test_replies_of_the_wrong_form(text: str) -> None:
    with pytest.raises(BadReply):
        targets_of_reply(text, 3)


DOG, CAR, RED_CAR = Box("dog", 0, 0, 20, 20), Box("car", 50, 0, 90, 20), Box("red car", 51, 0, 90, 20)
CROWD = tuple(Box("bird", 30 * n, 50, 30 * n + 9, 59) for n in range(5))
FOUND = {
    "all": ([(DOG,), (CAR,)], (DOG, CAR)),
    "one thing by two names": ([(CAR,), (RED_CAR,)], (CAR,)),
    "one kind is not found": ([(DOG,), ()], None),
    "nothing is found": ([()], None),
    "nothing was named": ([], None),
    "a crowd": ([CROWD], None),
    "on another image it is another thing": ([(DOG, Box("dog", 0, 0, 20, 20, 1))], (DOG, Box("dog", 0, 0, 20, 20, 1))),
}


@pytest.mark.parametrize(("found", "boxes"), FOUND.values(), ids=FOUND)
def test_what_becomes_pseudo_boxes(found: list, boxes: tuple | None) -> None:
    assert pseudo_boxes(found, LocateSettings(max_boxes=4)) == boxes


def test_a_config_may_take_an_incomplete_set() -> None:
    assert pseudo_boxes([(DOG,), ()], LocateSettings(min_found=0.5)) == (DOG,)
    assert pseudo_boxes([(), ()], LocateSettings(min_found=0)) is None


SIDES = st.tuples(*[st.integers(0, 40)] * 2, *[st.integers(1, 20)] * 2)
BOX = st.builds(lambda at: Box("x", at[0], at[1], at[0] + at[2], at[1] + at[3]), SIDES)


@given(st.lists(st.lists(BOX, min_size=1, max_size=5).map(tuple), min_size=1, max_size=4))
def test_each_thing_is_boxed_once(found: list[tuple[Box, ...]]) -> None:
    boxes = pseudo_boxes(found, LocateSettings(max_boxes=100)) or ()
    assert boxes
    assert all(a.iou(b) < SAME_BOX_IOU for n, a in enumerate(boxes) for b in boxes[:n])
    assert all(any(box.iou(kept) >= SAME_BOX_IOU for kept in boxes) for each in found for box in each)


@pytest.fixture
def scene(tmp_path: Path, write_scene: Callable[..., Path], make_draft: Callable[..., Draft]) -> Callable[..., Draft]:
    """A draft about three squares: red, blue and black, from left to right."""
    write_scene(tmp_path / "a.png")
    return lambda name, **fields: make_draft(name, tmp_path, ["a.png"], **fields)


def corners(draft: Draft) -> Any:
    boxes = draft.pseudo_boxes
    return draft.id, boxes and sorted((box.label, round(box.x1), round(box.y1)) for box in boxes)


@pytest.mark.parametrize(
    ("named", "boxes"),
    [
        (["red square"], [("red square", 8, 30)]),
        (["red square", "black square"], [("black square", 56, 30), ("red square", 8, 30)]),
        (["red square", "square"], [("red square", 8, 30), ("square", 32, 30), ("square", 56, 30)]),
        (["red square", "green circle"], None),
        (["red square", "dog"], None),
        (["picture"], None),
        ([], None),
    ],
)
def test_the_detector_boxes_what_the_teacher_names(check_stage, models, scene, named, boxes) -> None:
    asked = models("teacher", says=lambda prompt, sample: json.dumps({"targets": named}))
    check_stage(LocateTargets(LocateSettings(), asked), [scene("q")], [("q", boxes)], [], show=corners)


def test_questions_with_boxes_of_their_own_cost_nothing(check_stage, models, scene) -> None:
    drafts = [scene("boxed", gold_boxes=(DOG,)), scene("empty", gold_boxes=())]
    stage = LocateTargets(LocateSettings(), models("teacher", "detector", says=lambda prompt, sample: "no"))
    check_stage(stage, drafts, [("boxed", None, 0), ("empty", None, 0)], [], show=lambda d: (*corners(d), len(d.calls)))


def test_what_cannot_be_located_ends_as_a_rejection(check_stage, models: Callable[..., ModelsSettings], scene) -> None:
    asked = models("teacher", says=lambda prompt, sample: "I would look at the squares.")
    answer_is_boxes = scene("b", answer="[[8, 30, 28, 50]]", answer_type="boxes")
    rejected = [("q", "locate", "unparsable_reply"), ("b", "locate", "answer_is_boxes")]
    check_stage(LocateTargets(LocateSettings(), asked), [scene("q"), answer_is_boxes], [], rejected)


def test_a_detector_that_fails_is_no_detector_that_finds_nothing(check_stage, models, scene) -> None:
    def says(prompt: str, sample: int) -> str:
        return "nothing here" if prompt.startswith("Locate") else '{"targets": ["red square"]}'

    asked = models("teacher", "detector", says=says)
    check_stage(LocateTargets(LocateSettings(), asked), [scene("q")], [], [("q", "locate", "unparsable_reply")])


def test_the_teacher_sees_the_gold_answer_and_no_box(check_stage, models, scene) -> None:
    seen: list[str] = []

    def says(prompt: str, sample: int) -> str:
        seen.append(prompt)
        return '{"targets": []}'

    draft = scene("q", answer="a teapot", answer_type="text", choices=None)
    check_stage(LocateTargets(LocateSettings(), models("teacher", says=says)), [draft], ["q"], [])
    assert "a teapot" in seen[0]
