"""Tests of the parts of an image that headings and clauses name."""

import pytest

from groundtrace.embedded.parts import part_denied, with_headings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("left: a. right: b.", "in the left: a. in the right: b."),
        ("left – a; middle – b; right – c.", "in the left – a; in the middle – b; in the right – c."),
        ("left (a), right (b).", "in the left (a), in the right (b)."),
        ("- left: a\n- right: b", "- in the left: a\n- in the right: b"),
        ("left, middle, right: each has one.", "left, middle, the right: each has one."),
        ("top: a. right: b.", "in the top: a. in the right: b."),
        ("right: that is what it says.", "right: that is what it says."),
        ("left: a. verdict: right.", "in the left: a. verdict: right."),
        ("left: a. right, as the statement says.", "in the left: a. right, as the statement says."),
        ("left: a. the statement is right.", "in the left: a. the statement is right."),
    ],
)
def test_heading_of_a_side_is_a_place(text: str, expected: str) -> None:
    assert with_headings(text) == expected


@pytest.mark.parametrize(
    ("sentence", "clause", "asked", "expected"),
    [
        ("in the middle box there is no square", "in the middle box there is no square", "", True),
        ("in the middle box there is no square", "in the middle box there is no square", "middle", False),
        ("the middle box has a circle, but no square", " no square", "", True),
        ("the middle box has a circle, but no square", " no square", "middle", False),
        ("in the middle: no square", " no square", "", True),
        ("the left box has two squares, the right group circles, yet no square", " yet no square", "", True),
        ("on the right are circles, but there are no squares", "there are no squares", "", True),
        ("the middle box has a circle, but no square at all", " no square at all", "", True),
        ("the middle box has a square, but no square", " no square", "", False),
        ("two squares are in the left box, but no square", " no square", "", False),
        ("the middle box has a circle, so there is no square", "there is no square", "", False),
        ("the middle box has a circle, but the image has no square", " the image has no square", "", False),
        ("the middle box has a circle, and overall no square", " and overall no square", "", False),
        ("in the left box are circles, on the right stars, and no square", " and no square", "", False),
        ("in the left box is a circle, im bild no square", " im bild no square", "", False),
        ("there is a circle, but no square", " no square", "", False),
        ("there is no square", "there is no square", "", False),
    ],
)
def test_denial_of_a_part(sentence: str, clause: str, asked: str, expected: bool) -> None:
    assert (part_denied("square", clause, sentence, asked.split()) is not None) is expected
