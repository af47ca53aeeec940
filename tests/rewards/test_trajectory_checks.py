"""The checks of a trajectory that execute nothing."""

import pytest

from groundtrace.grading.responses.turns import Turn
from groundtrace.rewards.trajectory_checks import form_fault, operations_in, unused_results

ANSWER = Turn("<think>It printed 3.</think>\n<answer>3</answer>")
CALL = Turn("<think>I count.</think>", "n = len(shapes)\nprint(n)", "ok", "3")
FORMS = {
    "a call and an answer": ((CALL, ANSWER), ""),
    "an answer alone": ((Turn("<answer>3</answer>"),), ""),
    "two thoughts in a turn": ((Turn("<think>a</think>\n<think>b</think>", "x()"), ANSWER), ""),
    "no think section before code": ((Turn("", "x()"), ANSWER), ""),
    "nothing": ((), "the last turn has no answer"),
    "no answer": ((CALL,), "the last turn has no answer"),
    "words alone": ((CALL, Turn("It is 3.")), "turn 2 is not made of think sections and one answer at the end"),
    "two answers": ((CALL, Turn("<answer>3</answer><answer>4</answer>")), "turn 2 is not made of"),
    "an answer before the end": ((Turn("<answer>3</answer>", "x()"), ANSWER), "turn 1 is not made of think sections"),
    "a thought that is not closed": ((Turn("<think>a", "x()"), ANSWER), "turn 1 is not made of think sections"),
    "a turn without code": ((Turn("<think>a</think>"), ANSWER), "turn 1 has no code, and is not the last"),
    "an empty answer": ((Turn("<answer> </answer>"),), "the answer has 0 characters"),
    "a long answer": ((Turn(f"<answer>{'3' * 1000}</answer>"),), "the answer has 1000 characters"),
    "code behind the answer": ((Turn("<answer>5</answer>\n<code>print(1)</code>"),), "turn 1 is not made of"),
    "a call behind the answer": ((Turn("<answer>5</answer><tool_call>{}</tool_call>"),), "turn 1 is not made of"),
    "a forged result": (
        (Turn("<think>a</think>\n<interpreter>\n5\n</interpreter>", "x()"), ANSWER),
        "turn 1 is not made of",
    ),
    "a special token": ((CALL, Turn("<think><|im_end|></think><answer>3</answer>")), "the control text '<|im_end|>'"),
    "a long trajectory": ((Turn("<think>a</think>", "#" * 200_001), ANSWER), "more than 200,000 characters"),
}
UNUSED = {
    "the number is in a thought": ((CALL, ANSWER), set()),
    "a word is in a thought": (
        (Turn("", "p(x)", "ok", "red circle"), Turn("<think>A circle.</think><answer>1</answer>")),
        set(),
    ),
    "a later call uses the variable": (
        (CALL, Turn("", "print(n * 20)", "ok", "60"), Turn("<think>60.</think><answer>60</answer>")),
        set(),
    ),
    **{
        f"{output!r} in {later!r}": ((Turn("", "p(x)", "ok", output), Turn(f"<answer>{later}</answer>")), set())
        for output, later in (
            ("2.0", "2"),
            ("B", "B"),
            ("3.14159", "3.14"),
            ("1234", "1,234"),
            ("True", "yes"),
            ("3", "three"),
        )
    },
    **{
        code: ((Turn("", code, "ok", "77"), Turn("", later, "ok", "5"), Turn("<answer>5</answer>")), set())
        for code, later in (
            ("width, height = input_image.size", "print(width)"),
            ("def f(x): return x", "print(f(5))"),
            ("import math as m", "print(m.sqrt(25))"),
        )
    },
    "an argument's name is no variable": (
        (
            Turn("", "print(123, end='')", "ok", "123"),
            Turn("", "print(7, end='')", "ok", "7"),
            Turn("<answer>7</answer>"),
        ),
        {0},
    ),
    "images are for the model to see": ((Turn("", "display(x)", "ok", "", 1), Turn("<answer>9</answer>")), set()),
    "a failed call": ((Turn("", "x", "error", "NameError"), ANSWER), set()),
    "another number": (
        (CALL, Turn("<think>I know it.</think><answer>7</answer>")),
        {0},
    ),
    "part of another number": ((CALL, Turn("<answer>37</answer>")), {0}),
}


@pytest.mark.parametrize(("turns", "fault"), FORMS.values(), ids=FORMS)
def test_forms(turns: tuple[Turn, ...], fault: str) -> None:
    found = form_fault(turns)
    assert (fault in found) if fault else not found


@pytest.mark.parametrize(("turns", "unused"), UNUSED.values(), ids=UNUSED)
def test_results_that_no_turn_uses(turns: tuple[Turn, ...], unused: set[int]) -> None:
    assert unused_results(turns) == unused


def test_the_operations_of_all_turns() -> None:
    drawing = Turn("", "cv2.circle(image, (3, 4), 5, (255, 0, 0))")
    assert operations_in((drawing, CALL, ANSWER)) == ("computation", "drawing")
    assert operations_in((ANSWER,)) == ()
