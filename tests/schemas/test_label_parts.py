"""Labels taken apart: the thing, and what says which of several."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.schemas.label_parts import noun_phrase_of, thing_of, without_counts


@pytest.mark.parametrize(
    ("label", "phrase", "thing"),
    [
        ("small black square in the left box", "small black square", "black square"),
        ("man in the red coat", "man", "man"),
        ("second square from the left", "second square", "square"),
        ("second from left square", "square", "square"),
        ("largest of the two squares", "largest squares", "squares"),
        ("left hand square", "left hand square", "square"),
        ("left hand", "left hand", "hand"),
        ("square left of the circle", "square", "square"),
        ("square directly above a circle", "square", "square"),
        ("square (above the circle)", "square", "square"),
        ("square, top of the tower", "square", "square"),
        ("square (black)", "square (black)", "square (black)"),
        ("top block of the left tower", "top block", "block"),
        ("cup of coffee", "cup of coffee", "cup of coffee"),
        ("square b", "square b", "square"),
        ("traffic light", "traffic light", "traffic light"),
        ("in", "in", "in"),
        ("top", "top", "top"),
        ("", "", ""),
    ],
)
def test_the_parts_of_a_label(label: str, phrase: str, thing: str) -> None:
    assert (noun_phrase_of(label), thing_of(label)) == (phrase, thing)


WORDS = st.sampled_from([
    "the", "a", "two", "second", "all", "of", "cup", "cups", "box", "in", "on", "left", "from", "top", "2", "#3", "1.",
    "(1", "3)", "s", "largest", "that", "is", "seen", "here", "x", "one", "pair",
])  # fmt: skip


@given(st.lists(WORDS, max_size=9).map(" ".join))
def test_counts_are_taken_off_once_and_for_all(label: str) -> None:
    plain = without_counts(label)
    assert without_counts(plain) == plain
    assert bool(plain) is bool(label)
    assert bool(thing_of(plain)) is bool(plain)
