"""How figures of a comparison are written."""

import pytest

from groundtrace.publishing.comparison.section import Section, number_text, points_text, share_text


@pytest.mark.parametrize(
    ("value", "signed", "text"),
    [
        (None, True, "–"), (0.0, True, "0"), (1.0, False, "1"), (1 / 3, True, "+0.3333"), (-0.25, True, "−0.25"),
        (123456.7, False, "123457"), (1e-7, False, "1e−07"),
    ],
)  # fmt: skip
def test_numbers(value: float | None, signed: bool, text: str) -> None:
    assert number_text(value, signed) == text


def test_shares_and_points() -> None:
    assert (share_text(1, 3), share_text(0, 0)) == ("33.3 %", "–")
    assert points_text(-0.125, (-0.2, 0.01)) == "−12.5 [−20.0, +1.0]"
    assert (points_text(0.1, None), points_text(None, None)) == ("+10.0", "–")


@pytest.mark.parametrize(("row", "differs"), [(("x", 1, 1, "5 %", "5 %", "0"), False), (("x", 1, 1, 2, 3, "0"), True)])
def test_only_values_of_the_two_runs_differ(row: tuple[object, ...], differs: bool) -> None:
    assert Section("s", "s", "", ("set", "A", "B", "share A", "share B", "B − A"), [row]).differs == differs


def test_columns_of_numbers_are_aligned_as_numbers() -> None:
    rows = [("a", 1, "1.5 %", "–"), ("1b", 2, "", "−3 [−4, +5]")]
    assert Section("s", "s", "", ("t", "n", "p", "d"), rows).numeric == (False, True, True, True)
