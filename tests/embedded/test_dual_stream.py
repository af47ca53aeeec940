"""The embedded engine as the teacher of two streams: it boxes what it has found, and says what it cannot read."""

import json

import numpy as np
import pytest

from groundtrace.grading.messages import media_part
from groundtrace.grading.responses.response import parse_response
from groundtrace.prompts.loader import RenderedPrompt, load_prompt
from groundtrace.schemas.records import MediaRef

YELLOW, BLUE, GREY = (255, 255, 0), (0, 0, 255), (211, 211, 211)
SQUARES = [(30, 20, 60, 50), (200, 50, 230, 80)]
COUNT = "How many yellow squares are there?"
UNREADABLE = "What would the painter have thought of this?"


def scene() -> np.ndarray:
    """Two yellow squares and a blue one."""
    pixels = np.full((100, 400, 3), GREY, np.uint8)
    for x1, y1, x2, y2 in SQUARES:
        pixels[y1:y2, x1:x2] = YELLOW
    pixels[10:40, 320:350] = BLUE
    return pixels


def asked(name: str, medium: MediaRef, question: str = COUNT, **more: str) -> RenderedPrompt:
    prompt = load_prompt(name)
    values = dict.fromkeys(prompt.variables, "") | {"question": question} | more
    return prompt.render({"original": [media_part(medium)]}, **values)


def corners(text: str) -> list[tuple[str, int, int, int, int]]:
    boxes = parse_response(text).boxes
    return sorted((box.label, round(box.x1), round(box.y1), round(box.x2), round(box.y2)) for box in boxes)


def test_the_targets_are_those_that_the_question_speaks_of(engine, medium) -> None:
    said = engine("teacher", asked("name_targets.v1", medium(scene()), answer="17", max_targets="10")).text
    assert json.loads(said) == {"targets": ["yellow square"]}


def test_too_many_kinds_are_not_cut_short(engine, medium) -> None:
    everything = "How many squares are there?"
    for most, named in (("2", ["blue square", "yellow square"]), ("1", [])):
        said = engine("teacher", asked("name_targets.v1", medium(scene()), everything, max_targets=most)).text
        assert sorted(json.loads(said)["targets"]) == named


def test_nothing_is_named_for_what_it_cannot_read(engine, medium) -> None:
    said = engine("teacher", asked("name_targets.v1", medium(scene()), UNREADABLE, max_targets="10")).text
    assert json.loads(said) == {"targets": []}


def test_each_thing_counted_has_its_box(engine, medium) -> None:
    text = engine("teacher", asked("trace_boxes.v1", medium(scene()))).text
    assert parse_response(text).answer == "2"
    assert corners(text) == [("yellow square", *square) for square in SQUARES]


def test_what_was_looked_through_is_boxed_where_the_answer_rests_on_nothing(engine, medium) -> None:
    statement = 'Is the following statement about the image true? "There are 2 towers with a black block at the base"'
    text = engine("teacher", asked("trace_boxes.v1", medium(scene()), "How many blue circles are there?")).text
    assert (parse_response(text).answer, corners(text)) == ("0", [])
    assert parse_response(engine("teacher", asked("trace_boxes.v1", medium(scene()), statement)).text).has_format


def test_words_alone_hold_no_numbers_of_places(engine, medium) -> None:
    text = engine("teacher", asked("trace_textual.v1", medium(scene()))).text
    response = parse_response(text)
    assert (response.answer, response.boxes, response.points) == ("2", (), ())
    assert "[" not in text


@pytest.mark.parametrize("name", ["trace_boxes.v1", "trace_textual.v1"])
def test_it_says_what_it_cannot_read(engine, medium, name: str) -> None:
    response = parse_response(engine("teacher", asked(name, medium(scene()), UNREADABLE)).text)
    assert (response.answer, response.boxes) == ("cannot read", ())


FIRST = '<box alt="yellow square">[{},{},{},{}]</box>'.format(*SQUARES[0])


@pytest.mark.parametrize(
    ("reasoning", "supports"),
    [
        (f"{FIRST} {FIRST}", "yes"),
        (FIRST, "yes"),  # how many boxes there are is the boxes' check
        ('<box alt="yellow square">[1,1,9,9]</box>', "no"),  # nothing is there
        ('<box alt="a">[1,1,9,9]</box> So there is 1 yellow square.', "no"),
        ("Looking over the whole picture, there are 2 yellow squares.", "yes"),
        ("Looking over the whole picture, there are 3 yellow squares.", "no"),
        ("I see some.", "no"),
    ],
)
def test_the_judge_takes_what_is_boxed_or_the_words(engine, medium, reasoning: str, supports: str) -> None:
    prompt = asked("judge_reasoning.v3", medium(scene()), reasoning=reasoning, predicted="2", mark="m")
    assert json.loads(engine("judge", prompt).text)["supports"] == supports
