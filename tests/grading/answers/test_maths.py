import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.grading.answers.maths import MathsMatch, compare_maths, is_maths

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


SUM = "+".join
RUNAWAYS = {
    "a power of a sum": "(a+b+c+d+f+g+h)^{20}",
    "powers of sums": "(a+b+c+d)^{10}(k+l+m+n)^{2}",
    "a power of roots": r"(\sqrt{2}+\sqrt{3}+\sqrt{5})^{1000}",
    "a power of powers": "(2^{1/2}+3^{1/3}+5^{1/5})^{99}",
    "sines of numbers": r"\sin(1)\sin(2)\sin(3)\sin(4)\sin(5)" * 5,
    "a product of sums": "*".join(f"({a}+{b})" for a, b in zip("abcdfghjklmnpqr", "bcdfghjklmnpqrs", strict=True)),
    "sines": SUM(rf"\sin({n}x)" for n in range(2, 40)),
    "fractions": SUM(rf"\frac{{{n}}}{{x-{n}}}" for n in range(1, 20)),
    "quotients": SUM(f"1/(x+{n})" for n in range(1, 20)),
    "negative powers": SUM(f"(x+{n})^{{-1}}" for n in range(1, 20)),
    "unions": r"\cup".join(f"({n},{n + 1})" for n in range(1, 80, 2)),
}


@pytest.mark.parametrize("name", RUNAWAYS)
@pytest.mark.parametrize("gold", ["$3$", r"$\sqrt{2}+x$"])
def test_what_would_run_for_minutes_is_refused(name: str, gold: str) -> None:
    """One such answer of forty characters would keep a whole training waiting."""
    assert compare_maths(gold, f"${RUNAWAYS[name]}$") is MathsMatch.PREDICTION_UNREADABLE


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        ("$(x+1)^{20}$", "$(1+x)^{20}$"),
        ("$(a+b+c)^{2}$", "$(c+b+a)^2$"),
        ("$(x-1)(x-2)(x-3)(x-4)$", "$(x-4)(x-3)(x-2)(x-1)$"),
        (r"$\frac{1}{x}+\frac{1}{y}$", r"$\frac{x+y}{xy}$"),
        (r"$\sin^2(x)+\cos(x)$", r"$\cos(x)+\sin^2(x)$"),
        (r"$\frac{-1+\sqrt{5}}{2}$", r"$\frac{\sqrt{5}-1}{2}$"),
        (r"$(-\infty,1)\cup(2,3)$", r"$(2,3)\cup(-\infty,1)$"),
        ("$x^{-2}y^{-3}$", r"$\frac{1}{x^2y^3}$"),
    ],
)
def test_what_people_write_is_compared(gold: str, predicted: str) -> None:
    assert compare_maths(gold, predicted) is MathsMatch.EQUAL


@settings(max_examples=150)
@given(*[st.lists(st.sampled_from(PIECES), max_size=10).map("".join)] * 2)
def test_any_notation_is_compared(gold: str, predicted: str) -> None:
    assert isinstance(compare_maths(gold, predicted), MathsMatch)
    assert compare_maths(gold, gold) is MathsMatch.EQUAL
