import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.answers.maths import MathsMatch, compare_maths, is_maths

PIECES = [
    "1",
    "2",
    "x",
    "n",
    "\\frac{",
    "}",
    "{",
    "\\sqrt{",
    "+",
    "-",
    "=",
    "^",
    "(",
    ")",
    "\\pi",
    "!",
    ",",
    "°",
    "$",
    ":",
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5\\sqrt{3}", True),
        ("x^2", True),
        ("a = b", True),
        ("$5n-4$", True),
        ("2π", True),
        ("x²", True),
        ("\\(5\\)", True),
        ("white", False),
        ("3/4", False),
        ("$57.36", False),
        ("R&C", False),
        ("", False),
        ("x=" * 300, False),
    ],
)
def test_is_maths(text: str, expected: bool) -> None:
    assert is_maths(text) is expected


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ("$\\frac{1}{2}$", "0.5", MathsMatch.EQUAL),
        ("$30^{\\circ}$", "30 degrees", MathsMatch.EQUAL),
        ("$1:\\sqrt{3}$", "\\frac{1}{\\sqrt{3}}", MathsMatch.EQUAL),
        ("\\(x+1\\)", "$1 + x$", MathsMatch.EQUAL),
        ("$e^{x^2}$", "$e^{x^{2}}$", MathsMatch.EQUAL),
        ("$\\frac{1}{2}$", "0.51", MathsMatch.DIFFERENT),
        ("$x+1$", "$x-1$", MathsMatch.DIFFERENT),
        ("$2$", "two of them", MathsMatch.PREDICTION_UNREADABLE),
        ("$2$", "$1$ and $2$", MathsMatch.PREDICTION_UNREADABLE),
        ("$2$ and $3$", "$2$", MathsMatch.GOLD_UNREADABLE),
        ("$2$ and $3$", "the answer is $2$ and $3$.", MathsMatch.EQUAL),
        ("$9^{9^{9}}$", "$3$", MathsMatch.GOLD_UNREADABLE),
        ("x" * 600, "$3$", MathsMatch.GOLD_UNREADABLE),
    ],
)
def test_compare(gold: str, predicted: str, expected: MathsMatch) -> None:
    assert compare_maths(gold, predicted) is expected


@settings(max_examples=150)
@given(*[st.lists(st.sampled_from(PIECES), max_size=10).map("".join)] * 2)
def test_any_notation_is_compared(gold: str, predicted: str) -> None:
    assert isinstance(compare_maths(gold, predicted), MathsMatch)
    assert compare_maths(gold, gold) is MathsMatch.EQUAL
