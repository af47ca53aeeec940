from fractions import Fraction

import pytest

from groundtrace.grading.answers.quantities import quantity_or_number
from groundtrace.grading.answers.spans import may_be_within, read_span, same_span


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("10-15", "-", [10, 15]),
        ("10 – 15 years", "-", [10, 15]),
        ("between $10 and $20", "-", [10, 20]),
        ("ten to fifteen", "-", [10, 15]),
        ("7-8 million", "-", [7_000_000, 8_000_000]),
        ("-5 to -3", "-", [-5, -3]),
        ("13 or 12", "or", [12, 13]),
        ("at least 5", ">=", [5]),
        ("5+", ">=", [5]),
        ("more than 5 km", ">", [5]),
        ("up to 5", "<=", [5]),
        ("<5", "<", [5]),
    ],
)
def test_read_span(text: str, kind: str, values: list[int]) -> None:
    span = read_span(text)
    assert span is not None
    assert (span.kind, [side.numeral.value for side in span.sides]) == (kind, list(map(Fraction, values)))


@pytest.mark.parametrize(
    "text",
    ["15-10", "5", "-5", "5-", "2020-01-05", "1.6e-19", "10^-3", "5 and 6", "10 km - 15 kg", "", "a-b", "-" * 90],
)
def test_other_text_is_no_span(text: str) -> None:
    assert read_span(text) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10-15", "10 to 15", True),
        ("10-15 km", "10000-15000 m", True),
        ("10-15 km", "10-15 kg", False),
        ("10-15", "10-16", False),
        ("at least 5", "at most 5", False),
        ("more than 4", "at least 5", None),
        ("5-6", "5 or 6", None),
        ("5-10%", "5-10", None),
    ],
)
def test_same_span(one: str, other: str, same: bool | None) -> None:
    given, wanted = read_span(one), read_span(other)
    assert given is not None and wanted is not None
    assert same_span(given, wanted) is same


@pytest.mark.parametrize(
    ("number", "text", "within"),
    [
        ("12", "10-15", True),
        ("10", "10-15", False),
        ("12 kg", "10-15 km", False),
        ("5", "at least 5", True),
        ("5", "more than 5", False),
        ("12", "12 or 13", True),
    ],
)
def test_may_be_within(number: str, text: str, within: bool) -> None:
    quantity, span = quantity_or_number(number), read_span(text)
    assert quantity is not None and span is not None
    assert may_be_within(quantity, span) is within
