"""The embedded engine about images without a question: it asks about what it sees, and agrees only with that."""

import json
from collections.abc import Sequence

import numpy as np
import pytest

from groundtrace.embedded.endpoint import Handler
from groundtrace.embedded.images import ground_object, judge_image, judge_pair, write_question
from groundtrace.embedded.scenes import Scene
from groundtrace.grading.messages import MediaPart
from groundtrace.inference.errors import CallError
from groundtrace.prompts.loader import RenderedPrompt, load_prompt

COLOURS = {"red": (220, 30, 30), "blue": (0, 153, 255), "yellow": (255, 255, 0), "black": (0, 0, 0)}
NOISE = np.random.default_rng(0).integers(0, 255, (80, 200, 3)).astype(np.uint8)
NUMBERS = {"min_kinds": "4", "min_objects": "6", "max_percent": "30"}


def scene(squares: Sequence[str], side: int = 20) -> Scene:
    picture = np.full((80, 200, 3), 211, np.uint8)
    for index, colour in enumerate(squares):
        picture[4 : 4 + side, 4 + (side + 6) * index : 4 + (side + 6) * index + side] = COLOURS[colour]
    return Scene(lambda: picture)


def prompt(name: str, **variables: str) -> RenderedPrompt:
    return load_prompt(name).render({"original": [MediaPart("input:a.png", "0" * 64)]}, **variables)


def ask(handler: Handler, name: str, shown: Scene, seed: int = 0, **variables: str) -> str:
    return handler(prompt(name, **variables), shown, np.random.default_rng(seed), 0.0)


CASES = {
    "six of three classes": (["red", "blue", "black"] * 2, 16, ""),
    "four classes": (["red", "blue", "black", "yellow"], 16, ""),
    "two objects": (["red", "blue"], 16, "A"),
    "all alike": (["red"] * 6, 16, "B"),
    "one large object": (["red"], 70, "ABC"),
    "nothing": ([], 20, "ABCD"),
}


@pytest.mark.parametrize(("squares", "side", "failed"), CASES.values(), ids=CASES)
def test_the_conditions_follow_the_shapes(squares: list[str], side: int, failed: str) -> None:
    said = json.loads(ask(judge_image, "judge_image.v1", scene(squares, side), **NUMBERS))
    assert "".join(letter for letter in "ABCD" if not said[letter]) == failed


def test_what_cannot_be_read_is_fit_for_nothing() -> None:
    said = json.loads(ask(judge_image, "judge_image.v1", Scene(lambda: NOISE), **NUMBERS))
    assert not any(said[letter] for letter in "ABCD")
    said = json.loads(ask(write_question, "write_question.v1", Scene(lambda: NOISE)))
    assert set(said.values()) == {None}
    pair = {"question": "How many squares are there?", "answer": "0", "mark": "m"}
    assert ask(judge_pair, "judge_pair.v1", Scene(lambda: NOISE), **pair) == "BAD"


@pytest.mark.parametrize("seed", range(12))
def test_a_written_question_is_answered_by_the_pixels(seed: int) -> None:
    """The judge agrees on this image; the object's boxes are of the class that is asked about."""
    squares = ["red", "blue", "blue", "black", "yellow", "yellow"]
    shown = scene(squares)
    said = json.loads(ask(write_question, "write_question.v1", shown, seed))
    pair = {"question": said["question"], "answer": said["answer"], "mark": "m"}
    assert ask(judge_pair, "judge_pair.v1", shown, **pair) == "GOOD"
    other = {"yes": "no", "no": "yes"}.get(said["answer"], "9")
    assert ask(judge_pair, "judge_pair.v1", shown, **(pair | {"answer": other})) == "BAD"
    asked = {"question": said["question"], "label": said["object"], "form": "f", "mark": "m"}
    found = json.loads(ask(ground_object, "ground_object.v1", shown, **asked))["boxes"]
    colour = said["object"].split()[0]
    assert len(found) == (squares.count(colour) if colour in COLOURS else len(squares))


def test_questions_are_of_several_kinds_and_the_same_for_the_same_seed() -> None:
    shown = scene(["red", "blue", "blue", "black", "yellow"])
    asked = [json.loads(ask(write_question, "write_question.v1", shown, seed)) for seed in range(30)]
    assert {said["answer"] in ("yes", "no") for said in asked} == {True, False}
    assert {said["answer"] for said in asked} >= {"yes", "no", "1", "2"}
    assert asked[3] == json.loads(ask(write_question, "write_question.v1", shown, 3))


def test_a_class_that_the_engine_does_not_know_is_refused() -> None:
    asked = {"question": "How many?", "label": "teapot", "form": "f", "mark": "m"}
    with pytest.raises(CallError, match="teapot"):
        ask(ground_object, "ground_object.v1", scene(["red"]), **asked)
