"""Tests of what a clause says about the question's statement and about the objects that are not counted."""

import pytest

from groundtrace.embedded.statements import is_excluded

BLUE_SQUARES, YELLOW, ALL = (
    f"How many {what} are there in the image?" for what in ("blue squares", "yellow objects", "objects")
)


@pytest.mark.parametrize(
    ("sentence", "question", "expected"),
    [
        ("the last one is a triangle, so [it does not count]", BLUE_SQUARES, True),
        ("a blue triangle, [which does not count ]because it is a triangle", BLUE_SQUARES, True),
        ("a blue triangle,[ which does not count]", BLUE_SQUARES, True),
        ("[the last one does not count], since it is not a square", BLUE_SQUARES, True),
        ("the third one is not blue, so [it is not counted]", BLUE_SQUARES, True),
        ("[the blue triangle does not count here]", BLUE_SQUARES, True),
        ("[the next is a yellow square and does not count]", BLUE_SQUARES, True),
        ("beside the blue square is one shape more,[ it does not count ]because it is a circle", BLUE_SQUARES, True),
        ("the black triangle is black, so [it does not qualify]", YELLOW, True),
        ("the last one is a square, so [it does not count]", BLUE_SQUARES, False),
        ("two blue squares,[ which do not count ]because they are triangles", BLUE_SQUARES, False),
        ("[the blue square does not count ]because it is a triangle", BLUE_SQUARES, False),
        ("the last one is not a triangle, so [it does not count]", BLUE_SQUARES, False),
        ("[it does not count ]because it is small", BLUE_SQUARES, False),
        ("[they do not count]", BLUE_SQUARES, False),
        ("the last one is a yellow triangle, so [it does not count]", YELLOW, False),
        ("the last one is a triangle, so [it does not count]", ALL, False),
    ],
)
def test_excluded_is_what_was_not_asked_for(sentence: str, question: str, expected: bool) -> None:
    clause, plain = sentence[sentence.find("[") + 1 : sentence.find("]")], sentence.replace("[", "").replace("]", "")
    assert is_excluded(clause, plain, question, ["blue square", "blue triangle"]) is expected
