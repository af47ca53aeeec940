from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.answers.quantities import compare_quantity, read_quantities, whole_quantity

TEXT = st.text(max_size=40) | st.text("0123456789.,-/ cmkghins°CF%$€^{}²½and", max_size=30)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("12 cm", ["12"]),
        ("12cm by 3 in", ["12", "3"]),
        ("1 h 30 min", ["3/2"]),
        ("5 ft and 3 in", ["21/4"]),
        ("3 in 5 ft", ["3", "5"]),
        ("$5.50", ["11/2"]),
        ("$12$ cm", ["12"]),
        ("$12 \\mathrm{~cm}^{2}$", ["12"]),
        ("−5 °C", ["-5"]),
        ("½ m", ["1/2"]),
        ("5 million km", ["5000000"]),
        ("none", []),
        ("1 " * 2000, []),
    ],
)
def test_values(text: str, values: list[str]) -> None:
    assert [quantity.numeral.value for quantity in read_quantities(text)] == [Fraction(value) for value in values]


@pytest.mark.parametrize("text", ["12 cm", "12cm.", "$12$ cm", "RM105.00", "80 %", "80 per cent", "42°", "1 h 30 min"])
def test_whole(text: str) -> None:
    assert whole_quantity(text) is not None


@pytest.mark.parametrize("text", ["12", "12 apples", "about 12 cm", "12 cm or 13 cm", "$3m$", "5n-4", "", "12 in all"])
def test_not_whole(text: str) -> None:
    assert whole_quantity(text) is None


@pytest.mark.parametrize(
    ("gold", "predicted", "same"),
    [
        ("12 cm", "0.12 m", True),
        ("12 cm", "12 m", False),
        ("12 cm", "The 3 sides are 12 cm long", None),
        ("12 cm", "\\sqrt{144} cm", True),
        ("12 cm", "\\sqrt{144}", True),
        ("12 cm", "\\sqrt{144} m", None),
        ("12 cm", "\\sqrt{143} cm", False),
        ("12 cm", "twelve centimetres", True),
        ("6'2\"", "74 inches", True),
        ("6'2\"", "6 ft 2", True),
        ("6'2\"", "72 inches", False),
        ("$5,000,000", "$5 million", True),
        ("12 cm", "3 cm × 4 = 12 cm", True),
        ("£5", "5 pounds", True),
        ("5 kg", "5 pounds", None),
        ("12 cm", "no idea", False),
        ("12 cm", "12 " * 1000, False),
        ("20 °C", "68 degrees", None),
        ("20 °C", "293.15 K", True),
        ("1 mile", "1.6 km", None),
        ("5.0 miles", "8.05 km", True),
    ],
)
def test_comparison(gold: str, predicted: str, same: bool | None) -> None:
    compared = compare_quantity(predicted, gold)
    assert compared is not None
    assert compared.same is same
    assert compared.reason


def test_a_gold_without_a_unit_is_no_quantity() -> None:
    assert compare_quantity("12 cm", "12") is None


@given(TEXT, TEXT)
def test_any_text_is_compared(predicted: str, gold: str) -> None:
    compared = compare_quantity(predicted, gold)
    assert (compared is None) == (whole_quantity(gold) is None)
    own = compare_quantity(gold, gold)
    assert own is None or own.same is True
