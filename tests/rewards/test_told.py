"""Code that prints an answer which its author wrote into it."""

import pytest

from groundtrace.rewards.pretence import Output
from groundtrace.rewards.told import is_told, with_next_number

CHANGED = {
    "print(n, 5)": "print(n, 6)",
    "count = 5.0": "count = 6.0",
    "print('circles: 5')": "print('circles: 6')",
    "print(f'{n} px, 5 circles')": "print(f'{n} px, 6 circles')",
    "x = ['o'] * 5": "x = ['o'] * 6",
}
SAME = ["print(n)", "x = 15", "print('15', '5.5', 'v5')", "print(", "x = True", "print(b'5')"]


@pytest.mark.parametrize(("code", "changed"), CHANGED.items())
def test_each_constant_that_is_the_answer_becomes_the_next_number(code: str, changed: str) -> None:
    assert with_next_number(code, "5") == changed


@pytest.mark.parametrize("code", SAME)
def test_other_code_stays_as_it_is(code: str) -> None:
    assert with_next_number(code, "5") == code


@pytest.mark.parametrize("answer", ["yes", "", "-5", "5.5", "5 or 6", "9" * 10])
def test_only_whole_numbers_are_replaced(answer: str) -> None:
    assert with_next_number("print(5)", answer) == "print(5)"


def test_true_and_false_are_not_one_and_zero() -> None:
    assert with_next_number("print(True)", "1") == "print(True)"


@pytest.mark.parametrize(
    ("answer", "shown", "changed", "without", "told"),
    [
        ("5", "812 px, 5 circles", "812 px, 6 circles", ["700 px, 5 circles"], True),
        ("5", "812 px, 5 circles", "812 px, 6 circles", ["0"], True),
        ("5", "5", "5", ["4"], False),
        ("5", "box 5, count 5", "box 6, count 5", ["box 5, count 4"], False),
        ("5", "5 parts", "3 parts", ["4 parts"], False),
        ("5", "812 px", "812 px", ["700 px"], False),
        ("1", "1 (20, 30)", "2 (20, 30)", [""], False),
        ("1", "20 px, 1 circle", "20 px, 2 circles", ["0 px, 1 circle"], True),
    ],
)
def test_an_answer_that_follows_its_constant_is_told(
    answer: str, shown: str, changed: str, without: list[str], told: bool
) -> None:
    assert is_told(answer, Output(shown), Output(changed), [Output(each) for each in without]) == told
