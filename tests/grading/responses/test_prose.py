import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.prose import MAX_CHARS, stated_answer
from groundtrace.grading.responses.response import parse_response

LONG = "I look at the image. " * 40


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>2 and 3</think>The answer is B.", "B."),
        ("<think>2 and 3</think>\n\nSo the total is 5.", "So the total is 5."),
        ("<think>x</think>**Final answer:** 5", "5"),
        ("<think>x</think>There are 2 red. There are 3 blue. So the total is 5.", "So the total is 5."),
        ("<think>x</think>The answer is 4. No, the answer is 5.", "5."),
        ("<think>x</think>The answer is not B.", "not B."),
        ("<think>x</think>答案是B。", "答案是B。"),
        ("<think>x</think>Yes. There are two dogs.", "Yes. There are two dogs."),
        ("<think>x</think>B", "B"),
        ("<think>x</think>It costs $3.50 at St. Mary.", "It costs $3.50 at St. Mary."),
        ("<think>The answer is B.", None),
        ("<think>The answer is B.</think>", None),
        ("<think>x</think>" + LONG, None),
        (LONG + "So it is B.", "So it is B."),
        (LONG + "The answer is B.\nI am sure.", "B."),
        ("B", "B"),
        ("", None),
        ("<think>x</think><answer>B", "B"),
        ("<think>x</think>The answer is C. <answer>B</answer>", "B"),
        ("<think>x</think>So it is \\boxed{B}.", "B"),
        ('<think>x</think>So there are two <points x1="1" y1="2" alt="dogs">dogs</points>.', "So there are two dogs."),
    ],
)
def test_the_answer_that_prose_states(text: str, answer: str | None) -> None:
    assert stated_answer(text) == answer


PIECES = st.lists(st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", "B", ". ", "answer is "]))


@given(st.text(max_size=400) | PIECES.map("".join))
def test_a_marked_answer_stands(text: str) -> None:
    stated, marked = stated_answer(text), parse_response(text).answer
    assert marked is None or stated == marked
    assert stated is None or stated.strip() == stated


def test_a_megabyte_is_read() -> None:
    for piece in ("answer ", "The answer is 1. ", "<judge>", "So. ", "答案", "\n"):
        stated = stated_answer(piece * (1_000_000 // len(piece)))
        assert stated is None or len(stated) <= 4000
    assert MAX_CHARS < 1000
