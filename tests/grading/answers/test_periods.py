import pytest

from groundtrace.grading.answers.periods import Years, holds_year, is_bare_tens, read_period, same_period

NINETIES = {(1890, 1900), (1990, 2000), (2090, 2100)}


@pytest.mark.parametrize(
    ("text", "periods"),
    [
        ("1990s", {(1990, 2000)}),
        ("the 1990's.", {(1990, 2000)}),
        ("in the 1920s", {(1920, 1930)}),
        ("'90s", NINETIES),
        ("the nineties", NINETIES),
        ("the 1800s", {(1800, 1810), (1800, 1900)}),
        ("19th century", {(1800, 1900)}),
        ("the nineteenth century", {(1800, 1900)}),
        ("1990", set()),
        ("early 1990s", set()),
        ("99th century", set()),
        ("century", set()),
        ("", set()),
    ],
)
def test_read_period(text: str, periods: set[Years]) -> None:
    assert read_period(text) == periods


def test_comparing() -> None:
    nineties, eighties, short = (read_period(text) for text in ("1990s", "1980s", "'90s"))
    assert same_period(nineties, nineties) is True
    assert same_period(eighties, nineties) is False
    assert same_period(short, nineties) is None
    assert [holds_year(nineties, year) for year in (1989, 1990, 1995, 2000)] == [False, False, True, False]
    assert is_bare_tens("90s")
    assert not is_bare_tens("'90s")
