"""Sums with their result in a sentence: the result remains, and a wrong sum stays."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.stated_sums import RESULT, value_of, without_addends


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Total: 3 + 2 = 5", "Total: ≡ 5"),
        ("3+2=5", "≡ 5"),
        ("3 and 2 make 5", "≡ 5"),
        ("3, 2 and 1 make 6", "≡ 6"),
        ("3 on the left + 2 on the right = 5 squares", "≡ 5 squares"),
        ("3 in the left box, 2 in the right box, so 5", "≡ 5"),
        ("so 1 + 1 + 1+1 = 4 circles", "so ≡ 4 circles"),
        ("3 plus two equals five", "≡ five"),
        ("7 - 2 = 5", "≡ 5"),
        ("2 x 3 = 6", "≡ 6"),
        ("3 * 2 - 1 = 5", "≡ 5"),
        ("Total 3 + 2 : 5", "Total ≡ 5"),
        ("I count 3 + 2, that is 5", "I count ≡ 5"),
        ("3 + 2 = 5 + 1 = 6", "≡ 6"),
        ("3 + 2 = 5 and 1 + 1 = 2", "≡ 5 and ≡ 2"),
        ("In box 2, 3 + 2 = 5", "In box 2, ≡ 5"),
        *((same, same) for same in ("There are 6 + squares", "Total: 6 + 0 = 5", "3 + 2 = 6", "3 + 2", "5 = 3 + 2")),
        *((same, same) for same in ("there are 3 blue circles and 6 yellow squares", "6 / 2 = 3", "a 3-2 win", "")),
    ],
)
def test_without_addends(sentence: str, expected: str) -> None:
    assert without_addends(sentence) == expected


@given(st.lists(st.integers(0, 999), min_size=2, max_size=20))
def test_the_sum_of_any_numbers(numbers: list[int]) -> None:
    written = " + ".join(map(str, numbers))
    assert without_addends(f"so {written} = {sum(numbers)}") == f"so {RESULT} {sum(numbers)}"
    assert RESULT not in without_addends(f"so {written} = {sum(numbers) + 1}")


@pytest.mark.parametrize("part", ["1 and ", "1 + ", "1, ", "+1", "1 a-", "1 a b c d ", "one ", "1 is ", "1 - one-"])
def test_long_texts_are_read_in_time(part: str) -> None:
    started = time.process_time()
    without_addends(part * 2000)
    assert time.process_time() - started < 3


@pytest.mark.parametrize(("written", "value"), [("5", 5), ("five", 5), ("1,200", 1200), ("no", 0), ("none", 0)])
def test_value_of(written: str, value: int) -> None:
    assert value_of(written) == value
