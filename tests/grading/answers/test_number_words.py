from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.answers.number_words import is_number_in_words, locate_words, read_count_words


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("third", 3),
        ("The 3rd.", 3),
        ("third floor", 3),
        ("twenty-first", 21),
        ("none", 0),
        ("There are none.", 0),
        ("No dogs", 0),
        ("There are no red circles in the image", 0),
        ("no", 0),
        ("no idea", None),
        ("no clues", None),
        ("no answer", None),
        ("no doubt seven birds", None),
        ("no fewer than seven cats", None),
        ("no more than two cats", None),
        ("one third", None),
        ("third from the left", None),
        ("nonetheless", None),
        ("three", None),
        ("", None),
    ],
)
def test_what_counts_as_a_whole_answer_only(text: str, number: int | None) -> None:
    assert read_count_words(text) == number


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("two thirds", ["2/3"]),
        ("a half", ["1/2"]),
        ("half of them", ["1/2"]),
        ("one and a half", ["3/2"]),
        ("minus three quarters", ["-3/4"]),
        ("three and five", ["3", "5"]),
        ("a dog", []),
    ],
)
def test_fractions_in_words(text: str, values: list[str]) -> None:
    assert [value for value, _, _ in locate_words(text)] == [Fraction(value) for value in values]


@pytest.mark.parametrize(
    ("text", "is_number"),
    [
        ("seven", True),
        ("two thirds", True),
        ("third", True),
        ("none", False),
        ("seven dwarfs", False),
        ("a dog", False),
    ],
)
def test_numbers_that_are_all_of_a_text(text: str, is_number: bool) -> None:
    assert is_number_in_words(text) is is_number


@given(st.text(max_size=60))
def test_offsets_are_those_of_the_text(text: str) -> None:
    assert all(0 <= start < end <= len(text.lower()) for _, start, end in locate_words(text))
