"""Sentences that say a thing is there although the answer is that there is none."""

import pytest

from groundtrace.embedded.marked_text import read_marked
from groundtrace.embedded.stated_presence import states_presence
from groundtrace.schemas.records import Question

CIRCLES, CIRCLE = "How many circles are there in the image?", "Is there a circle in the image? Answer yes or no."
IN_LEFT = "Is there a circle in the left box? Answer yes or no."
BLACK = "Is there any black square?"
B = '<points x1="10" y1="5" alt="blue square">blue square</points>'


@pytest.mark.parametrize(
    ("reasoning", "question", "answer"),
    [
        (f"Two circles are visible in the middle box, next to {B}.", CIRCLES, "0"),
        ("There is a circle in the left box.", CIRCLES, "0"),
        ("I see three yellow circles on the right.", CIRCLES, "0"),
        ("The right box contains two circles.", CIRCLE, "no"),
        ("The circle lies in the left box.", CIRCLE, "no"),
        ("A yellow circle appears at the top. So no.", CIRCLE, "no"),
        ("In the middle box we can see a black square.", BLACK, "no"),
    ],
)
def test_presence(reasoning: str, question: str, answer: str) -> None:
    assert states_presence(read_marked(reasoning), Question("q", "", "", (), question, answer, "text")) is not None


@pytest.mark.parametrize(
    ("reasoning", "question", "answer"),
    [
        ("Two squares are visible in the middle box. There are no circles.", CIRCLES, "0"),
        ("A circle appears in the middle box. So no.", IN_LEFT, "no"),
        ("I look for a circle. There are only squares.", CIRCLES, "0"),
        ("None of them is a circle.", CIRCLES, "0"),
        ("If there is a circle, I count it. The boxes hold squares.", CIRCLES, "0"),
        ("Two circles are in the left box.", CIRCLES, "2"),
        ("Two circles are in the left box.", CIRCLE, "yes"),
        ("There is a yellow square and a black circle.", BLACK, "no"),
        ("There is a square in the left box, which is blue.", BLACK, "no"),
        ("Is there a circle? There are 0 circles.", CIRCLES, "0"),
        ("There is a circle on the left? No.", CIRCLES, "0"),
        ("I see a circle. Wait, it is a triangle, so 0.", CIRCLES, "0"),
        ("There is a circle in the middle box.", "How many circles are touching the edge?", "0"),
        ("There is a circle in the box.", "Is there a circle touching the edge?", "no"),
        ("There is a circle in the box.", "Is the circle blue?", "no"),
        ("A shape that could be a circle is in the middle box.", CIRCLES, "0"),
    ],
)
def test_no_presence(reasoning: str, question: str, answer: str) -> None:
    assert states_presence(read_marked(reasoning), Question("q", "", "", (), question, answer, "text")) is None
