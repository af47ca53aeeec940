from fractions import Fraction

import pytest

from groundtrace.grading.answers.pairs import grade_pair, read_pair


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3:2", "ratio", Fraction(3, 2)),
        ("$1 : 2$", "ratio", Fraction(1, 2)),
        ("three to two", "ratio", Fraction(3, 2)),
        ("4 out of 10", "share", Fraction(2, 5)),
        ("1920×1080", "size", Fraction(1920 * 1080)),
        ("3 by 4", "size", Fraction(12)),
    ],
)
def test_read_pair(text: str, kind: str, value: Fraction) -> None:
    pair = read_pair(text)
    assert pair is not None
    assert (pair.kind, pair.value) == (kind, value)


@pytest.mark.parametrize("text", ["3", "3:0", "a:b", "1:2:3", "3 - 2", "", "9" * 100])
def test_other_text_is_no_pair(text: str) -> None:
    assert read_pair(text) is None


@pytest.mark.parametrize(
    ("predicted", "gold", "is_number", "value"),
    [
        ("3 to 2", "3:2", False, 1.0),
        ("6:4", "3:2", True, 1.0),
        ("6:4", "3:2", False, None),
        ("2:3", "3:2", True, 0.0),
        ("3", "3:2", True, 0.0),
        ("1.5", "3:2", True, None),
        ("4", "4 out of 10", True, None),
        ("5 out of 10", "4 out of 10", True, 0.0),
        ("1080x1920", "1920x1080", False, None),
    ],
)
def test_grades(predicted: str, gold: str, is_number: bool, value: float | None) -> None:
    grade = grade_pair(predicted, gold, is_number)
    assert grade is not None
    assert grade.value == value


def test_other_golds_are_for_other_rules() -> None:
    assert grade_pair("3", "3", True) is None
    assert grade_pair("3", "3 to 2", True) is None
