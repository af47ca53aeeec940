"""Reads dates and times of day in answers, and compares them without guessing.

Written numbers often have several readings: 03/04/2021 is the third of April or the fourth of March, "21" may be 1921
or 2021, and 3:05 may be in the morning or the afternoon. All readings of an answer are kept.

Two answers are the same if each has one reading, and the two readings are equal. They are also the same if both have
the same fields in the same order (05/08/2017 and 5/8/2017). Two answers are different if each reading of the first
contradicts each reading of the second. All other cases are undecided, such as a missing year, or 03/04/2021 against "3
April 2021".

A library that parses dates leniently (python-dateutil) is not used, because it fills in missing fields and chooses one
reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from datetime import date
from itertools import product

MAX_CHARS = 80
"""Longer text is not read as a date or a time."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4}|['’]?\d{2})"
_GAP = r"[\s,/-]*"
_NAMED = (
    re.compile(rf"(?:the\s+)?{_DAY}{_GAP}(?:of\s+)?{_MONTH}(?:{_GAP}{_YEAR})?"),
    re.compile(rf"{_MONTH}[\s-]*(?:the\s+)?{_DAY}(?:{_GAP}(?P<year>\d{{4}}))?"),
    re.compile(rf"{_MONTH}{_GAP}(?P<year>\d{{4}})"),
    re.compile(rf"(?P<year>\d{{4}}){_GAP}{_MONTH}(?:[\s-]*{_DAY})?"),
    re.compile(r"(?P<year>\d{4})\s?年\s?(?P<number>\d{1,2})\s?月(?:\s?(?P<day>\d{1,2})\s?[日号])?"),
)
_NUMERIC = re.compile(r"(\d{1,4})\s?([-/.])\s?(\d{1,2})\s?\2\s?(\d{4}|\d{2})")
_MONTH_OF_YEAR = (
    re.compile(r"(?P<month>\d{1,2})\s?[/.-]\s?(?P<year>(?:1[89]|20)\d\d)"),
    re.compile(r"(?P<year>(?:1[89]|20)\d\d)\s?-\s?(?P<month>\d\d)"),
)
_ISO = re.compile(r"(\d{4})\s?([-/.])\s?(\d{1,2})\s?\2\s?(\d{1,2})")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKDAY = re.compile(
    r"(mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs?(?:day)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?)\b\.?,?\s*"
)
_CLOCK = (
    re.compile(r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?(?:\s?(?P<half>[ap])\.?\s?m\b\.?)?"),
    re.compile(r"(?P<hour>\d{1,2})(?:\.(?P<minute>\d{2}))?\s?(?P<half>[ap])\.?\s?m\b\.?"),
    re.compile(r"(?P<hour>\d{1,2})\s?o['’]?clock(?:\s?(?P<half>[ap])\.?\s?m\b\.?)?"),
)
_NAMED_TIMES = {"noon": 12, "midday": 12, "midnight": 0}
_BETWEEN = re.compile(r"(?:\s|,|\bat\b|\bon\b|(?<=\d)t(?=\d))*")


@dataclass(frozen=True)
class DateFields:
    """Holds the fields of a date, a time of day or both. A field that is not given is None. Hours are from 0 to 23."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    hour: int | None = None
    minute: int | None = None
    second: int | None = None

    def conflicts(self, other: DateFields) -> bool:
        """Return whether two dates differ in a field that both have: "3 April" and "3 May 2021" differ in the month."""
        pairs = [(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)]
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)


@dataclass(frozen=True)
class WrittenDate:
    """Holds a date or time as it is written, with all its possible meanings.

    ``spelling`` is a tuple that describes how the date or time is written. Its first value is a text for the notation.
    The other values are the fields:

    - A date of three numbers has its separator, and then the numbers in their written order: 03/04/2021 has the
      spelling ("/", 3, 4, 2021).
    - A date with the name of its month, or with 年 and 月, has "named", the year (a text), the month and the day: "3
      April 2021" has ("named", "2021", 4, 3). A month and a year in digits (03/2021) also have this form. A missing
      year is "", and a missing day is 0.
    - A time has "clock", the hour, the minute and the other written fields: 5:30 has ("clock", 5, 30), and 5 pm has
      ("clock", 5, 0, "p").

    If a date has a weekday, the number of the weekday (0 for Monday) follows the date. If a date has a time, the values
    of the time are the last ones: "Saturday, 03/04/2021, 5:30" has ("/", 3, 4, 2021, 5, "clock", 5, 30).

    ``readings`` are all dates or times that the written text may mean. ``weekday`` is the number of the written
    weekday; None if there is none.
    """

    spelling: tuple[str | int, ...]
    readings: frozenset[DateFields]
    weekday: int | None = None


def read_date(text: str) -> WrittenDate | None:
    """Return the date or the time of day (or both) that a short text consists of, with all its possible meanings.

    Returns None if the text has other words, or is neither a date nor a time. Never raises.
    """
    text = re.sub(r"\s+", " ", text.casefold()).strip().rstrip(".。").strip()
    if not text or len(text) > MAX_CHARS:
        return None
    for time, rest in _times(text):
        day = _date(_without_links(rest)) if rest else WrittenDate((), frozenset({DateFields()}))
        if day is not None:
            return _together(day, time)
    return _date(text)


def same_date(predicted: WrittenDate, gold: WrittenDate) -> bool | None:
    """Return whether a predicted date or time is the same as the gold (correct) one.

    Returns None if this cannot be decided: one of the two has several meanings (03/04/2021 and "3 April 2021"), or does
    not have a field that the other has ("3 April" and "3 April 2021"). The result is also None for two different times
    that may be meant as equal ratios (1:15 and 2:30).
    """
    if None not in (predicted.weekday, gold.weekday) and predicted.weekday != gold.weekday:
        return False
    if predicted.spelling == gold.spelling:
        return True
    if len(predicted.readings) == len(gold.readings) == 1 and predicted.readings == gold.readings:
        return True
    if all(one.conflicts(other) for one, other in product(predicted.readings, gold.readings)):
        return None if _same_ratio(predicted.spelling, gold.spelling) else False
    return None


def _same_ratio(one: tuple[str | int, ...], other: tuple[str | int, ...]) -> bool:
    """Return whether two different times may be meant as equal ratios: 1:15 and 2:30 may, because 1/15 = 2/30.

    ``one`` and ``other`` are the spellings of the times (``WrittenDate.spelling``). The result is False if one of them
    has more than hours and minutes, such as seconds, am or a date.
    """
    if not (one[0] == other[0] == "clock" and len(one) == len(other) == 3):
        return False
    (a, b), (c, d) = one[1:], other[1:]
    return int(a) * int(d) == int(b) * int(c)


def _together(day: WrittenDate, time: WrittenDate) -> WrittenDate:
    readings = frozenset(
        DateFields(d.year, d.month, d.day, t.hour, t.minute, t.second) for d, t in product(day.readings, time.readings)
    )
    return WrittenDate(day.spelling + time.spelling, readings, day.weekday)


def _without_links(text: str) -> str:
    """Return a date without the commas and words that join it to a time: "3 april" for "3 april at"."""
    start = _BETWEEN.match(text)
    text = text[start.end() :] if start is not None else text
    return re.sub(r"(?:,|\bat|\bon|(?<=\d)t)$", "", text.strip()).strip(" ,")


def _times(text: str) -> list[tuple[WrittenDate, str]]:
    """Return the times with which a text begins or ends, each with the rest of the text."""
    found: list[tuple[WrittenDate, str]] = []
    for name, hour in _NAMED_TIMES.items():
        if text in {name, f"12 {name}"}:
            found.append((WrittenDate(("clock", hour, 0, "named"), frozenset({DateFields(hour=hour, minute=0)})), ""))
    for pattern in _CLOCK:
        for match in pattern.finditer(text):
            time = _time(match)
            if time is not None and (match.start() == 0 or match.end() == len(text)):
                found.append((time, (text[: match.start()] + text[match.end() :]).strip()))
    return found


def _time(match: re.Match[str]) -> WrittenDate | None:
    """Return a time of day with all its readings (possible meanings); None for a time such as 25:00.

    ``match`` holds the parts of the written time. An hour from 1 to 12 without am or pm has two readings.
    """
    part = match.groupdict()
    hour, minute, half = int(part["hour"]), int(part.get("minute") or 0), part["half"]
    second = int(part["second"]) if part.get("second") else None
    if hour > 24 or minute > 59 or (second or 0) > 59 or (half and not 1 <= hour <= 12):
        return None
    hours = [hour % 24]
    if half:
        hours = [hour % 12 + (12 if half == "p" else 0)]
    elif 1 <= hour <= 12:
        hours = [hour % 12, hour % 12 + 12]
    spelling = ("clock", hour, minute, *([] if second is None else [second]), *([half] if half else []))
    return WrittenDate(spelling, frozenset(DateFields(hour=h, minute=minute, second=second) for h in hours))


def _date(text: str) -> WrittenDate | None:
    """Return the date that a text consists of, with all its readings (possible meanings); None for any other text.

    For example, 03/04/2021 has two readings: 3 April and 4 March. If the text begins with a weekday ("Saturday,
    03/04/2021"), the readings that fall on another weekday are removed. Returns None if no reading is left.
    """
    weekday = _WEEKDAY.match(text)
    rest = text if weekday is None else text[weekday.end() :]
    written = _numeric_date(rest) or _month_of_year(rest) or _named_date(rest)
    if written is None or weekday is None:
        return written
    wanted = _WEEKDAYS.index(weekday.group(1)[:3])
    readings = frozenset(m for m in written.readings if _falls_on(m, wanted))
    return WrittenDate((*written.spelling, wanted), readings, wanted) if readings else None


def _falls_on(moment: DateFields, weekday: int) -> bool:
    if moment.year is None or moment.month is None or moment.day is None:
        return True
    return date(moment.year, moment.month, moment.day).weekday() == weekday


def _numeric_date(text: str) -> WrittenDate | None:
    """Read three numbers with the same separator, such as 03/04/2021, as a date with all its possible meanings.

    Each usual order of day, month and year that gives a date is one meaning. Return None if no order gives a date, or
    for any other text.
    """
    match = _ISO.fullmatch(text)
    if match is not None:
        a, separator, b, c = match.groups()
        orders = [(a, b, c)]
    else:
        match = _NUMERIC.fullmatch(text)
        if match is None or len(match.group(1)) > 2:
            return None
        a, separator, b, c = match.groups()
        # Two-digit years after dots are as likely a version or a section number.
        if separator == "." and len(c) == 2:
            return None
        orders = [(c, b, a), (c, a, b)] + ([(a, b, c)] if len(a) == len(c) == 2 else [])
    readings = {m for year, month, day in orders for m in _days(year, int(month), int(day))}
    return WrittenDate((separator, int(a), int(b), int(c)), frozenset(readings)) if readings else None


def _month_of_year(text: str) -> WrittenDate | None:
    """Read a month and a year in digits, such as 03/2021 or 2021-03; return None for any other text."""
    found = next((match for pattern in _MONTH_OF_YEAR if (match := pattern.fullmatch(text))), None)
    if found is None or not 1 <= int(found["month"]) <= 12:
        return None
    return WrittenDate(
        ("named", found["year"], int(found["month"]), 0), frozenset(_days(found["year"], int(found["month"]), None))
    )


def _named_date(text: str) -> WrittenDate | None:
    """Read a date with the name of its month ("3 April 2021"), or with 年 and 月; return None for any other text.

    The day may be missing. The year may be missing if the month has a name and the day is given.
    """
    for pattern in _NAMED:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        part = match.groupdict()
        month = _MONTHS.index(part["month"][:3]) + 1 if part.get("month") else int(part["number"])
        day = int(part["day"]) if part.get("day") else None
        year = (part.get("year") or "").strip("'’")
        readings = _days(year or None, month, day)
        if readings:
            return WrittenDate(("named", year, month, day or 0), frozenset(readings))
    return None


def _days(year: str | None, month: int, day: int | None) -> list[DateFields]:
    """Return the dates that a year, a month and a day may mean, without dates that do not exist (30 February).

    A year of two digits has two meanings: 21 may be 1921 or 2021. The year or the day is None if it is not given.
    """
    years = [None] if year is None else [int(year)] if len(year) == 4 else [1900 + int(year), 2000 + int(year)]
    return [DateFields(y, month, day) for y in years if _exists(y, month, day)]


def _exists(year: int | None, month: int, day: int | None) -> bool:
    try:
        date(2000 if year is None else year, month, 1 if day is None else day)
    except ValueError:
        return False
    return True
