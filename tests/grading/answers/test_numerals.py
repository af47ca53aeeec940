from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.answers.numerals import Numeral, is_qualified, read_numerals, same_number


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("3", ["3"]),
        ("3.0", ["3"]),
        ("1,234.50", ["2469/2"]),
        ("12,345,678", ["12345678"]),
        ("1,23", ["1", "23"]),
        ("−3", ["-3"]),
        ("- 3", ["-3"]),
        ("3-5", ["3", "5"]),
        ("3–5", ["3", "5"]),
        ("1/2", ["1/2"]),
        ("1 1/4", ["5/4"]),
        ("1½", ["3/2"]),
        (r"1\frac{1}{4}", ["5/4"]),
        (r"\dfrac{3}{2}", ["3/2"]),
        ("3/0", []),
        (".5", ["1/2"]),
        ("5.", ["5"]),
        ("1e3", ["1000"]),
        ("8:40", []),
        ("18/06/2018", []),
        ("1.2.4", []),
        ("B2", []),
        ("RM105.00", ["105"]),
        ("US$5", ["5"]),
        ("$57.36", ["1434/25"]),
        ("12 cm²", ["12"]),
        ("12 cm^2", ["12"]),
        ("zero", ["0"]),
        ("twenty-one", ["21"]),
        ("ninety nine", ["99"]),
        ("minus three", ["-3"]),
        ("one of 3", ["3"]),
        ("two hundred and five", ["205"]),
        ("one million two hundred thousand", ["1200000"]),
        ("a dozen", ["12"]),
        ("5 million", ["5000000"]),
        ("three and five", ["3", "5"]),
        ("five or 6", ["6", "5"]),
        ("6 to five", ["6", "5"]),
        ("the correct one", []),
        ("no one", []),
        ("the answer is one", ["1"]),
        ("someone", []),
        (r"\number{10500}", ["10500"]),
        ("10{,}500", ["10500"]),
        ("**5**", ["5"]),
        ("", []),
        ("n/a", []),
        ("10^2", ["100"]),
        ("3×10⁸", ["300000000"]),
        (r"$2.5 \times 10^{-4}$", ["1/4000"]),
        ("12 345", ["12345"]),
        ("12 345 6", ["12345", "6"]),
        ("12’345", ["12345"]),
        ("12,34,567", ["1234567"]),
        ("1.234.567", ["1234567"]),
        ("1.234,5", ["2469/2"]),
        ("$1.2bn", ["1200000000"]),
        ("$3m + 2m$", ["3", "2"]),
        ("two thirds", ["2/3"]),
        ("two and a half", ["5/2"]),
    ],
)
def test_values(text: str, values: list[str]) -> None:
    assert [numeral.value for numeral in read_numerals(text).numerals] == [Fraction(value) for value in values]


@pytest.mark.parametrize("text", ["2·10^2 + 1n", "10^x", "5n-4", r"\sqrt{2}", "2π", "3×4", "5!", "2**3"])
def test_calculations_name_no_single_number(text: str) -> None:
    assert read_numerals(text).is_expression
    assert read_numerals(text).single is None


@pytest.mark.parametrize(
    ("predicted", "gold", "same"),
    [
        ("5", "5.0", True),
        ("5.0", "5", True),
        ("5.1", "5", False),
        ("5", "5.1", False),
        ("5.1", "5.2", True),
        ("1/3", "0.33", True),
        ("50%", "0.5", True),
        ("50%", "50", True),
        ("0.5%", "0.5", False),
        ("0.5", "0.5%", True),
        ("200%", "2", False),
        ("1/8", "1/6", False),
        ("2/3", "0.67", True),
        ("2/3", "0.7", False),
        ("6.0e-23", "1.6e-19", False),
        ("500%", "50", False),
        ("-5.0", "5.0", False),
    ],
)
def test_same_number(predicted: str, gold: str, same: bool) -> None:
    one, other = read_numerals(predicted).single, read_numerals(gold).single
    assert one is not None
    assert other is not None
    assert same_number(one, other) is same


@pytest.mark.parametrize(
    "text", ["not 5", "more than 5", "at least 5", "5+", "≥ 5", "it isn't 5.", "5 or more", "not five"]
)
def test_a_bound_or_denial_is_seen(text: str) -> None:
    assert is_qualified(text)


@pytest.mark.parametrize("text", ["5", "about 5", "5 dogs, not all brown", "over the door: 5", "2+3", ""])
def test_other_words_do_not_qualify(text: str) -> None:
    assert not is_qualified(text)


@given(st.text(max_size=80) | st.text("0123456789.,/-+eE %:$\\{}^", max_size=40))
def test_any_text_is_read(text: str) -> None:
    assert all(isinstance(numeral, Numeral) for numeral in read_numerals(text).numerals)


@given(st.fractions(-(10**6), 10**6, max_denominator=10**6))
def test_fractions_round_trip(value: Fraction) -> None:
    single = read_numerals(f"{value.numerator}/{value.denominator}").single
    assert single is not None
    assert single.value == value
