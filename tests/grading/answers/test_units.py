from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.answers.units import convert, is_rounded_conversion, may_be_same_dimension, unit_at


def unit(name: str):
    found, _, end = unit_at(name, 0)
    assert found is not None, name
    assert end == len(name)
    return found


@pytest.mark.parametrize(
    ("value", "given", "wanted", "expected"),
    [
        ("12", "cm", "m", "3/25"),
        ("1", "inch", "cm", "127/50"),
        ("1", "mile", "km", "1609344/1000000"),
        ("1", "km/h", "m/s", "5/18"),
        ("1", "m^2", "cm^2", "10000"),
        ("1", "L", "cm3", "1000"),
        ("1", "cubic metres", "litres", "1000"),
        ("1", "sq ft", "square inches", "144"),
        ("1", "kWh", "J", "3600000"),
        ("1", "lb", "kg", "45359237/100000000"),
        ("68", "°F", "°C", "20"),
        ("0", "K", "°C", "-5463/20"),
        ("1", "hour", "s", "3600"),
        ("1", "m/s^2", "cm/s^2", "100"),
        ("1", "USD", "dollars", "1"),
        ("50", "cents", "$", "1/2"),
        ("1", "g/cm^3", "kg/m^3", "1000"),
        ("1", "cm", "cm^2", None),
        ("1", "cm", "kg", None),
        ("1", "EUR", "USD", None),
        ("1", "°C", "degrees", None),
    ],
)
def test_conversion(value: str, given: str, wanted: str, expected: str | None) -> None:
    assert convert(Fraction(value), unit(given), unit(wanted)) == (None if expected is None else Fraction(expected))


@pytest.mark.parametrize("name", ["apples", "squares", "xyz", "mJx", "in the box", "GAL", "pounds", "Mg"])
def test_unknown_units_are_unknown(name: str) -> None:
    found, word, _ = unit_at(name, 0)
    assert found is None
    assert word


@pytest.mark.parametrize(
    ("shouted", "usual"), [("KG", "kg"), ("Hours", "hours"), ("CM", "cm"), ("Kg", "kg"), ("FT", "ft")]
)
def test_capitals_are_read_where_they_decide_nothing(shouted: str, usual: str) -> None:
    assert unit(shouted) == unit(usual)


def test_capitals_decide_between_milli_and_mega() -> None:
    assert convert(Fraction(1), unit("MW"), unit("mW")) == 10**9


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("degrees", "°C", True),
        ("months", "days", True),
        ("deg", "rad", True),
        ("cm", "kg", False),
        ("cm", "cm^2", False),
    ],
)
def test_doubtful_dimensions(one: str, other: str, expected: bool) -> None:
    assert may_be_same_dimension(unit(one), unit(other)) is expected
    assert may_be_same_dimension(unit(other), unit(one)) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("cm", "m", False),
        ("m", "km", False),
        ("cm", "cm", False),
        ("mile", "km", True),
        ("min", "s", True),
        ("°C", "°F", True),
    ],
)
def test_rounded_conversions(one: str, other: str, expected: bool) -> None:
    assert is_rounded_conversion(unit(one), unit(other)) is expected


@given(
    st.text(max_size=30)
    | st.lists(st.sampled_from(["km", "/", "h", "^", "2", " ", "sq", "°", "per", "·", "$"])).map("".join)
)
def test_any_text_is_read(text: str) -> None:
    _, _, end = unit_at(text, 0)
    assert 0 <= end <= len(text)


@given(
    st.fractions(-(10**6), 10**6, max_denominator=1000),
    st.sampled_from([("cm", "inch"), ("°C", "°F"), ("km/h", "mph"), ("L", "mL"), ("kWh", "kcal")]),
)
def test_conversion_round_trip(value: Fraction, pair: tuple[str, str]) -> None:
    there = convert(value, unit(pair[0]), unit(pair[1]))
    assert there is not None
    assert convert(there, unit(pair[1]), unit(pair[0])) == value
