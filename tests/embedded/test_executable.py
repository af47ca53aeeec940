"""The embedded teacher's programs: they find the answer in the pixels, whatever image they run on."""

import contextlib
import io
from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image

from groundtrace.embedded.executable import act, judge_trajectory, one_image, reason, rewrite
from groundtrace.embedded.scenes import Scene
from groundtrace.grading.messages import MediaPart, TextPart
from groundtrace.grading.responses.turns import Turn, as_tags, read_rewritten, read_turn
from groundtrace.prompts.loader import RenderedPrompt, load_prompt

COLOURS = {"red": (220, 30, 30), "blue": (0, 153, 255), "yellow": (255, 255, 0), "black": (0, 0, 0)}
ORIGINAL = MediaPart("input:a.png", "0" * 64)


def scene_of(squares: Sequence[str]) -> np.ndarray:
    picture = np.full((80, 200, 3), 211, np.uint8)
    for index, colour in enumerate(squares):
        picture[30:50, 8 + 24 * index : 28 + 24 * index] = COLOURS[colour]
    return picture


def prompt(question: str, operation: str = "computation", written: str = "", choices: str = "") -> RenderedPrompt:
    return load_prompt("act.v1").render(
        {"original": [ORIGINAL], "written": [TextPart(written)] if written else []},
        question=question,
        choices=choices,
        answer_format="A number.",
        operation=operation,
        turns_left="5",
    )


def printed(code: str, image: np.ndarray, scope: dict[str, object] | None = None) -> str:
    """What a program of the engine prints about an image."""
    scope = {} if scope is None else scope
    scope["input_image"] = Image.fromarray(image)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, scope)
    return out.getvalue().strip()


QUESTIONS = {
    "How many squares are there?": {
        ("red", "blue"): "2",
        ("red",): "1",
        ("black", "blue", "yellow", "red"): "4",
        (): "0",
    },
    "How many blue squares are there?": {("red", "blue"): "1", ("red",): "0", ("blue", "blue", "blue"): "3"},
    "How many red or black squares are there?": {("red", "blue"): "1", ("black", "red", "red"): "3"},
    'Is the following statement about the image true? "There are at least 2 blue squares." Answer yes or no.': {
        ("red", "blue"): "no",
        ("blue", "blue"): "yes",
    },
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("seed", range(4))
def test_the_same_program_prints_each_images_answer(question: str, seed: int) -> None:
    """Written for the first image, in one turn or in two; run on all."""
    answers = QUESTIONS[question]
    first = scene_of(next(iter(answers)))
    codes, written = list[str](), ""
    for _ in range(3):
        reply = act(prompt(question, written=written), Scene(lambda: first), np.random.default_rng(seed), 0.0)
        turn = read_turn(reply)
        assert not turn.fault
        if not turn.code:
            break
        codes.append(turn.code)
        scope: dict[str, object] = {}
        output = [printed(code, first, scope) for code in codes][-1]
        written += as_tags([Turn(turn.text, turn.code, "ok", output)])
    assert turn.text.endswith(f"<answer>{answers[next(iter(answers))]}</answer>")
    for squares, answer in answers.items():
        scope = {}
        assert [printed(code, scene_of(squares), scope) for code in codes][-1].split("\n")[-1] == answer


@pytest.mark.parametrize(("operation", "part"), [("drawing", "draw.rectangle"), ("transforms", "input_image.crop")])
def test_objects_are_shown_before_they_are_counted(operation: str, part: str) -> None:
    scene, rng = Scene(lambda: scene_of(["red", "blue"])), np.random.default_rng(0)
    first = read_turn(act(prompt("How many squares are there?", operation), scene, rng, 0.0))
    assert part in first.code
    written = as_tags([Turn(first.text, first.code, "ok", "", 1)])
    last = act(prompt("How many squares are there?", operation, written), scene, rng, 0.0)
    assert last.endswith("<answer>2</answer>")


@pytest.mark.parametrize("operation", ["drawing", "transforms", "computation"])
def test_what_the_engine_cannot_read_it_does_not_guess(operation: str) -> None:
    scene, rng = Scene(lambda: scene_of(["red"])), np.random.default_rng(0)
    assert act(prompt("Who painted this?", operation), scene, rng, 0.0).endswith("<answer>cannot read</answer>")


JUDGED = {
    "printed": ([Turn("", "x()", "ok", "3")], "3", True),
    "printed, another answer": ([Turn("", "x()", "ok", "3")], "4", False),
    "the last line counts": ([Turn("", "x()", "ok", "a square\n2")], "2", True),
    "shown, and so it is": ([Turn("", "x()", "ok", "[result picture 1]")], "2", True),
    "shown, and it is not so": ([Turn("", "x()", "ok", "[result picture 1]")], "5", False),
}


@pytest.mark.parametrize(("turns", "answer", "agrees"), JUDGED.values(), ids=JUDGED)
def test_the_judge_compares_the_answer_with_the_results(turns: list[Turn], answer: str, agrees: bool) -> None:
    text = as_tags([*turns, Turn(f"<think>So it is.</think>\n<answer>{answer}</answer>")])
    asked = load_prompt("judge_trajectory.v1").render(
        {"original": [ORIGINAL], "results": []}, question="How many squares are there?", trajectory=text, mark="m"
    )
    reply = judge_trajectory(asked, Scene(lambda: scene_of(["red", "blue"])), np.random.default_rng(0), 0.0)
    assert (f'"agrees": {str(agrees).lower()}') in reply


def test_results_are_not_further_images_of_the_question() -> None:
    shown = TextPart("written"), ORIGINAL
    assert one_image(prompt("q"))
    several = load_prompt("act.v1").render(
        {"original": [ORIGINAL, ORIGINAL], "written": [*shown]},
        **dict.fromkeys(("question", "choices", "answer_format", "operation", "turns_left"), "x"),
    )
    assert not one_image(several)


@pytest.mark.parametrize(
    ("question", "outputs"),
    [
        ("How many squares are there?", ["3"]),
        ("How many yellow squares are there?", ["0"]),
        (
            'Is the following statement about the image true? "There are at least 2 blue squares." Answer yes or no.',
            ["2\nyes"],
        ),
        ("What is the colour of the leftmost square?", []),
    ],
)
def test_a_solution_is_rewritten_with_what_its_script_prints(question: str, outputs: list[str]) -> None:
    image = scene_of(("red", "blue", "blue"))
    asked = {"question": question, "choices": "", "answer_format": "A number."}
    scene, rng = Scene(lambda: image), np.random.default_rng(0)
    solution = reason(load_prompt("reason.v1").render({"original": [ORIGINAL]}, **asked), scene, rng, 0.0)
    to_rewrite = load_prompt("rewrite.v1").render({"original": [ORIGINAL]}, **asked, reasoning=solution)
    turns, fault = read_rewritten(rewrite(to_rewrite, scene, rng, 0.0))
    assert (fault, [turn.output for turn in turns[:-1]]) == ("", outputs)
    assert [printed(turn.code, image) for turn in turns[:-1]] == outputs
