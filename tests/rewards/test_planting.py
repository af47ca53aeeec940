"""Planted faults: each changes what it is to change, or says that it cannot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.answers.grading import grade_answer
from groundtrace.rewards.planting import other_answer, with_wrong_claim, with_wrong_step
from groundtrace.schemas.records import Question


def asked(answer: str, kind: str = "text", choices: tuple[str, ...] | None = None) -> Question:
    return Question("q", "drawn", "CC0-1.0", (), "What is there?", answer, kind, choices)


@pytest.mark.parametrize(
    ("thought", "planted"),
    [
        ("I see 1 + 2 = 3 cups.", "I see 1 + 2 = 4 cups."),
        ("7 - 2 = 5. So five.", "7 - 2 = 6. So five."),
        ("1 + 1 = 3, but 2 + 2 = 4.", "1 + 1 = 3, but 2 + 2 = 5."),
        ("Two cups. One jug. So three.", "Two cups. One jug. Added up, 2 + 3 = 6. So three."),
        ("x + 2 = 5", "Added up, 2 + 3 = 6. x + 2 = 5"),
    ],
)
def test_a_wrong_step(thought: str, planted: str) -> None:
    assert with_wrong_step(thought) == planted


@pytest.mark.parametrize(
    ("thought", "planted"),
    [
        ("The red bus is behind a Red car.", "The brown bus is behind a brown car."),
        ("A brown dog.", "A pink dog."),
        ("It is on the left.", "It is on the right."),
        ("From left to right there are two.", None),
        ("Two things.", None),
    ],
)
def test_a_wrong_claim(thought: str, planted: str | None) -> None:
    assert with_wrong_claim(thought, asked("two")) == planted


def test_a_colour_that_the_question_names_is_not_put_in() -> None:
    choices = ("brown", "pink", "purple", "blue")
    assert with_wrong_claim("It is blue.", asked("blue", "mcq", choices)) == "It is cyan."


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (asked("3", "numeric"), "4"),
        (asked("-1", "numeric"), "0"),
        (asked("2.5", "numeric"), None),
        (asked("yes", "bool"), "no"),
        (asked("No", "bool"), "yes"),
        (asked("a dog", "mcq", ("a dog", "a cat")), "B"),
        (asked("a cat", "mcq", ("a dog", "a cat")), "A"),
        (asked("the bus"), None),
    ],
)
def test_another_answer(question: Question, answer: str | None) -> None:
    assert other_answer(question) == answer
    if answer is not None:
        assert grade_answer(answer, question.answer, question.answer_type, question.choices).value == 0


@given(st.text(min_size=1, max_size=200))
def test_no_thought_stays_without_the_wrong_step(thought: str) -> None:
    assert with_wrong_step(thought) != thought
