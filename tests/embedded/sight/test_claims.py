"""What texts claim to be seen, and whether it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.embedded.sight.claims import MAX_CLAIMS, read_claims, read_nouns
from groundtrace.embedded.sight.query import Amount
from groundtrace.embedded.sight.shapes import FoundShape

WALLS = ((0.0, 0.0, 400.0, 100.0),)
SEEN = [
    FoundShape("yellow", "square", (0, 20, 30, 50), (15, 35), 900),
    FoundShape("yellow", "square", (200, 50, 230, 80), (215, 65), 900),
    FoundShape("blue", "circle", (320, 10, 350, 40), (335, 25), 700),
]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("There are 2 yellow squares.", [("yellow square", Amount("bare", 2))]),
        ("I see two squares, one blue circle and no triangles.",
         [("square", Amount("bare", 2)), ("blue circle", Amount("bare", 1)), ("triangle", Amount("exactly", 0))]),
        ("It shows a circle", [("circle", Amount("at least", 1))]),
        ("The yellow squares are large.", [("yellow square", None)]),
        ("At least 3 circles; at most 4 blue or black blocks",
         [("circle", Amount("at least", 3)), ("blue or black block", Amount("at most", 4))]),
        ("The answer is 3.", []),
        ("1 of the 3 towers meets it", []),
        # nothing is claimed of what is asked or supposed
        ("The statement is that there are 5 squares.", []),
        ("I check whether there is a circle. There are 2 squares.", [("square", Amount("bare", 2))]),
        ("", []),
    ],
)  # fmt: skip
def test_reading(text, read) -> None:
    assert [(claim.noun.phrase, claim.amount) for claim in read_claims(text)] == read


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("2 yellow squares", True),
        ("3 yellow squares", False),
        ("1 yellow square", False),
        ("two squares and one circle", True),
        ("3 objects", True),
        ("no triangles", True),
        ("no squares", False),
        ("at least 1 square", True),
        ("at most 1 square", False),
        ("a circle", True),
        ("a triangle", False),
        # those that touch are counted, and what stands in some place is at most all of them
        ("1 yellow square touching an edge", True),
        ("2 yellow squares touching an edge", False),
        ("1 square on the left", True),
        ("3 squares on the left", False),
        ("no circles in the left box", True),
    ],
)
def test_holding(text, holds) -> None:
    claims = read_claims(text)
    assert claims
    assert all(claim.holds(SEEN, WALLS) for claim in claims) is holds


@pytest.mark.parametrize(
    ("text", "rightly"),
    [("5 squares", True), ("the circle", True), ("a triangle", False), ("no triangle", True), ("no circle", False)],
)
def test_naming_looks_at_kinds_and_not_at_numbers(text, rightly) -> None:
    [claim] = read_claims(text)
    assert claim.named_rightly(SEEN, WALLS) is rightly


def test_the_nouns_of_a_question_are_read_whatever_it_says_of_them() -> None:
    nouns = read_nouns("Is it true that there is a tower with a black block on a blue block?")
    assert [noun.phrase for noun in nouns] == ["black block", "blue block"]


@given(st.text(st.sampled_from("a 2 no black square circles. ;at most touching edge\n"), max_size=300))
def test_any_text_is_read(text) -> None:
    assert len(read_claims(text)) <= MAX_CLAIMS
    assert all(claim.holds(SEEN, WALLS) in (True, False) for claim in read_claims(text))


def test_a_long_text_is_read_up_to_a_bound() -> None:
    assert len(read_claims("There are 2 squares. " * 5_000)) == MAX_CLAIMS
