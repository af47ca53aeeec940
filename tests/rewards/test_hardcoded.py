"""Code that prints an answer which its author wrote into it."""

import pytest

from groundtrace.rewards.hardcoded import is_hardcoded, is_uncalculated, with_next_number, with_other_numbers
from groundtrace.rewards.pretence import Output

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
    ("answer", "shown", "changed", "without", "hardcoded"),
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
def test_an_answer_that_follows_its_constant_is_hardcoded(
    answer: str, shown: str, changed: str, without: list[str], hardcoded: bool
) -> None:
    assert is_hardcoded(answer, Output(shown), Output(changed), [Output(each) for each in without]) == hardcoded


def test_all_other_numbers_change_in_two_directions() -> None:
    code = "print(max(340, 391, 5.5), 1, 0, True, '340')"
    assert with_other_numbers(code, "391") == (
        "print(max(1027, 391, 23.5), 1, 0, True, '340')",
        "print(max(-340, 391, -5.5), 1, 0, True, '340')",
    )
    assert with_other_numbers("print(", "391") == ("print(", "print(")


UNCALCULATED = {
    "print(391)": True,
    "print(391 * 1 + 0)": True,
    "print(391 // 1)": True,
    "print(sum([391]))": True,
    "print(len('x' * 391))": True,
    "print(int('391'))": True,
    "a = 17 * 23\nprint(391)": True,
    "a = 17 * 23\nprint(a, 391)": False,
    "print(17 * 23)": False,
    "print(max(340, 391, 51))": False,
    "print(min(400, 391, 510))": False,
    "print(sorted([340, 391, 400])[1])": False,
    "print(392 - 1)": False,
    "print(391 if 17 * 23 == 391 else 400)": False,
    "print(len([391] * 391))": True,
}
"""Code that prints 391, and whether it has this number from its author."""


@pytest.mark.parametrize(("code", "uncalculated"), UNCALCULATED.items())
def test_code_that_prints_the_answer_whatever_else_it_holds_did_not_calculate_it(
    code: str, uncalculated: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(code: str) -> Output:
        exec(code, {})  # the programs above
        return Output(capsys.readouterr().out)

    others = [printed(each) for each in with_other_numbers(code, "391")]
    shown, changed = printed(code), printed(with_next_number(code, "391"))
    assert is_uncalculated("391", shown, changed, others, ()) is uncalculated
    assert not is_uncalculated("391", shown, changed, others, [Output("391")])


def test_a_list_that_is_counted_may_hold_the_count() -> None:
    code = "print(len([5, 9, 4, 8]))"
    assert with_next_number(code, "4") == "print(len([5, 9, 5, 8]))"
    assert not is_uncalculated("4", Output("4"), Output("4"), [Output("4"), Output("4")], ())
