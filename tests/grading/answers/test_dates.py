from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.grading.answers.dates import DateFields, read_date, same_date

TEXT = st.text(max_size=40) | st.text("0123456789-/.: ,apmTMarchJunthofd'年月日", max_size=25)


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("2021-03-04", {DateFields(2021, 3, 4)}),
        ("03/04/2021", {DateFields(2021, 3, 4), DateFields(2021, 4, 3)}),
        ("18/06/2018", {DateFields(2018, 6, 18)}),
        ("10 MAR 18", {DateFields(1918, 3, 10), DateFields(2018, 3, 10)}),
        ("March 2021", {DateFields(2021, 3)}),
        ("March 3rd", {DateFields(None, 3, 3)}),
        ("2021年3月4日", {DateFields(2021, 3, 4)}),
        ("3:05 pm", {DateFields(hour=15, minute=5)}),
        ("12 am", {DateFields(hour=0, minute=0)}),
        ("3:05", {DateFields(hour=3, minute=5), DateFields(hour=15, minute=5)}),
        ("15:05:09", {DateFields(hour=15, minute=5, second=9)}),
        ("2021-03-04T15:05", {DateFields(2021, 3, 4, 15, 5)}),
        ("3 pm on March 4, 2021", {DateFields(2021, 3, 4, 15, 0)}),
        ("Thursday, March 4, 2021", {DateFields(2021, 3, 4)}),
    ],
)
def test_readings(text: str, readings: set[DateFields]) -> None:
    read = read_date(text)
    assert read is not None
    assert read.readings == readings


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2021",
        "12",
        "May",
        "1.2.4.",
        "1.2.04",
        "31/02/2020",
        "2021-13-01",
        "25:00",
        "3:60",
        "13 pm",
        "Friday, March 4, 2021",
        "B & BEST RESTAURANT",
        "3-5",
        "between 3 pm and 4 pm",
        "1/2",
    ],
)
def test_what_is_no_date(text: str) -> None:
    assert read_date(text) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("March 3, 2021", "2021-03-03", True),
        ("05/08/2017", "5/8/2017", True),
        ("05/08/2017", "08/05/2017", None),
        ("05/08/2017", "05.08.2017", None),
        ("05/08/2017", "6/9/2017", False),
        ("March 3", "March 3, 2021", None),
        ("March 3", "April 3, 2021", False),
        ("3:05", "15:05", None),
        ("3:05", "4:05", False),
        ("1:15", "2:30", None),
        ("15:05", "15:05:30", None),
        ("2021-03-03", "3:05 pm", None),
    ],
)
def test_comparison(one: str, other: str, same: bool | None) -> None:
    first, second = read_date(one), read_date(other)
    assert first is not None
    assert second is not None
    assert same_date(first, second) is same
    assert same_date(second, first) is same


@settings(max_examples=300)
@given(TEXT, TEXT)
def test_any_text_is_read_and_compared(one: str, other: str) -> None:
    first, second = read_date(one), read_date(other)
    assert first is None or same_date(first, first) is True
    if first is not None and second is not None:
        assert same_date(first, second) is same_date(second, first)


@given(
    st.dates(min_value=date(1000, 1, 1)),
    st.times().map(lambda time: time.replace(second=0, microsecond=0, tzinfo=None)),
)
def test_unambiguous_forms_agree(day, time) -> None:
    forms = [f"{day:%Y-%m-%d} {time:%H:%M}", f"{day:%B} {day.day}, {day.year}, {time:%I:%M %p}"]
    one, other = map(read_date, forms)
    assert one is not None
    assert other is not None
    if time.hour == 0 or time.hour > 12:
        assert same_date(one, other) is True
    else:
        assert same_date(one, other) is None
