"""Stated colours and shapes against the labels of the tags."""

import pytest

from groundtrace.embedded.marked_text import read_marked
from groundtrace.embedded.pointed_colours import answers_otherwise, miscoloured
from groundtrace.grading.responses.tags import format_points_tag
from groundtrace.schemas.records import Question


def tag(label: str, x: float = 5, inner: str | None = None) -> str:
    return format_points_tag(label, [(x, 5)], inner=inner)


TRIANGLE, BLACK, YELLOW = tag("yellow triangle"), tag("black square", 50), tag("yellow square", 90)


@pytest.mark.parametrize(
    "reasoning",
    [
        f"In the right box there is {TRIANGLE}. The triangle is blue.",
        f"{tag('black square', 5, 'The left square')} is black and {YELLOW} is black too.",
        f"{TRIANGLE} is clearly black.",
        f"Here is {TRIANGLE}, so the triangle is black.",
        f"I look at {TRIANGLE}. It is blue.",
        f"There is {BLACK} in the left box. Its colour is yellow.",
        f"The color of {TRIANGLE} is blue.",
        f"{BLACK} and {YELLOW}. {YELLOW} is a blue square.",
        f"{TRIANGLE}: this triangle is grey, so the answer is grey.",
    ],
)
def test_another_colour(reasoning: str) -> None:
    assert miscoloured(read_marked(reasoning)) is not None


@pytest.mark.parametrize(
    "reasoning",
    [
        f"In the right box there is {TRIANGLE}. The triangle is yellow.",
        f"{BLACK} is black, while {YELLOW} is yellow.",
        f"{TRIANGLE} is not black.",
        f"The square below {YELLOW} is black. The square next to {BLACK} is yellow.",
        f"Below {BLACK} there is another square. It is yellow.",
        f"{BLACK} sits on a block. It is yellow.",
        f"{BLACK} and {YELLOW}. The square is black.",
        f"If the triangle is blue, the answer is blue. {TRIANGLE}.",
        f"{TRIANGLE}. The statement says that the triangle is blue.",
        f"{TRIANGLE}. The other triangle is blue.",
        f"{TRIANGLE}. Is the triangle blue? No.",
        f"At first the triangle is blue. Wait, {TRIANGLE} is yellow.",
        f'"The triangle is blue" was said. {TRIANGLE}.',
        f"{TRIANGLE}. That the triangle is blue is false.",
        f"{TRIANGLE}. The box is grey.",
        f"{tag('square')}. The square is blue.",
        f"{tag('gray circle')} is grey.",
        f"{TRIANGLE} is blue. This is not true.",
    ],
)
def test_the_same_colour_or_another_thing(reasoning: str) -> None:
    assert miscoloured(read_marked(reasoning)) is None


COLOUR = "What color is the triangle in the right box?"
BELOW = "What is the colour of the object below the black square?"
SHAPE = "What shape is the black object?"


@pytest.mark.parametrize(
    ("reasoning", "question", "answer", "is_wrong"),
    [
        (f"The triangle is {tag('black triangle')}. So the color is yellow.", COLOUR, "yellow", True),
        (f"{BLACK} is the one.", COLOUR, "yellow", True),
        (f"{tag('black triangle')} and {BLACK}.", COLOUR, "blue", True),
        (f"{YELLOW} and {BLACK}.", BELOW, "blue", True),
        (f"{tag('black triangle')} is the one.", SHAPE, "square", True),
        (f"The object is {BLACK}.", SHAPE, "circle", True),
        (f"{TRIANGLE} is here.", COLOUR, "yellow", False),
        (f"{tag('black triangle')}, {TRIANGLE}.", COLOUR, "yellow", False),
        (f"{tag('triangle')} is here.", COLOUR, "yellow", False),
        ("The triangle is yellow.", COLOUR, "yellow", False),
        (f"{BLACK} stands on a yellow object.", BELOW, "yellow", False),
        (f"Below {TRIANGLE} there is a black one.", COLOUR, "black", False),
        (f"{tag('gray circle')}.", "What colour is the circle?", "grey", False),
        (f"{tag('black object')}.", SHAPE, "square", False),
        (f"{BLACK} is the one.", SHAPE, "square", False),
        (f"{tag('black block')}.", SHAPE, "square", False),
        (f"{tag('dog')}.", COLOUR, "yellow", False),
        (f"{BLACK}.", "Which color do more of the squares have, black or blue?", "blue", False),
        (f"{BLACK}.", "How many black squares are there?", "1", False),
        (f"{BLACK}.", COLOUR, "cannot read", False),
    ],
)
def test_an_answer_that_no_label_has(reasoning: str, question: str, answer: str, is_wrong: bool) -> None:
    asked = Question("q", "", "", (), question, answer, "text")
    assert (answers_otherwise(read_marked(reasoning), asked) is not None) == is_wrong
