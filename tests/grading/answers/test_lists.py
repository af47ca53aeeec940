from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.grading.answers.lists import AnswerTuple, read_list, read_tuple, same_list, same_tuple

WORDS = st.lists(st.sampled_from(["red", "blue", "green", "big dog"]), min_size=2, max_size=5)
PIECES = ["A", "b c", ",", " and ", "→", " ", "\n", "1,234", "or", "-"]
TEXT = st.text(max_size=40) | st.lists(st.sampled_from(PIECES)).map("".join)


@pytest.mark.parametrize(
    ("text", "items", "is_sequence"),
    [
        ("A, B and C", ("a", "b", "c"), False),
        ("red; dark blue", ("red", "dark blue"), False),
        ("1,234 and five", (Fraction(1234), Fraction(5)), False),
        ("A → B -> C", ("a", "b", "c"), True),
        ("A \\to B", ("a", "b"), True),
    ],
)
def test_items(text: str, items: tuple, is_sequence: bool) -> None:
    read = read_list(text)
    assert read is not None
    assert (read.items, read.is_sequence) == (items, is_sequence)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "red",
        "red or blue",
        "a\nb",
        "Because a baby is reading, and he is so cute!",
        "1,234",
        "R&C VENTURE",
        "a,, b",
    ],
)
def test_what_is_no_list(text: str) -> None:
    assert read_list(text) is None


@pytest.mark.parametrize(
    ("gold", "predicted", "same"),
    [
        ("red, blue", "blue and red", True),
        ("red, blue", "1. blue\n2. red", True),
        ("red, red, blue", "red, blue, blue", False),
        ("red, blue", "red", False),
        ("red, blue", "dark red, blue", None),
        ("red, blue", "It shows red, blue", None),
        ("red, blue", "red or blue", None),
        ("Salt and Pepper House", "Pepper", None),
        ("A → B", "A, B", True),
        ("A → B", "B → A", False),
    ],
)
def test_comparison(gold: str, predicted: str, same: bool | None) -> None:
    listed = read_list(gold)
    assert listed is not None
    assert same_list(predicted, listed) is same


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(5, 6)", AnswerTuple((Fraction(5), Fraction(6)), "()")),
        ("5,6", AnswerTuple((Fraction(5), Fraction(6)), "")),
        ("[1, 2, 3]", AnswerTuple((Fraction(1), Fraction(2), Fraction(3)), "[]")),
        ("(−1, 1/2]", AnswerTuple((Fraction(-1), Fraction(1, 2)), "(]")),
        ("(5, 6", None),
        ("5", None),
        ("(a, b)", None),
    ],
)
def test_tuples(text: str, expected: AnswerTuple | None) -> None:
    assert read_tuple(text) == expected


@pytest.mark.parametrize(
    ("predicted", "gold", "same"),
    [
        ("[1,3)", "[1, 3)", True),
        ("[1,3]", "[1,3)", False),
        ("(1,3]", "[1,3)", False),
        ("1, 3", "[1,3)", None),
        ("[1,3]", "(1,3)", None),
        ("1, 3", "(1,3)", True),
        ("3, 1", "1, 3", None),
        ("3, 1", "(1, 3)", False),
        ("[1,2,3]", "(1,2,3)", True),
        ("x", "(1,3)", False),
        ("x", "1, 3", None),
    ],
)
def test_brackets_count_where_they_may_be_an_interval(predicted: str, gold: str, same: bool | None) -> None:
    wanted = read_tuple(gold)
    assert wanted is not None
    assert same_tuple(read_tuple(predicted), wanted) is same


@given(WORDS.flatmap(lambda words: st.tuples(st.just(words), st.permutations(words))))
def test_order_matters_with_arrows_only(lists: tuple[list[str], list[str]]) -> None:
    words, shuffled = lists
    enumeration, sequence = read_list(", ".join(words)), read_list(" → ".join(words))
    assert enumeration is not None
    assert sequence is not None
    assert same_list(", ".join(shuffled), enumeration) is True
    assert same_list(" → ".join(shuffled), sequence) is (words == shuffled)


@settings(max_examples=300)
@given(TEXT, TEXT)
def test_any_text_is_compared(gold: str, predicted: str) -> None:
    listed = read_list(gold)
    if listed is not None:
        assert same_list(predicted, listed) in {True, False, None}
        assert same_list(gold, listed) is True
