"""Reads the filters of a view from the address of its page, and writes them as SQL.

An address such as ``set=rejected&reason=too_hard&score final=..0.5&q=red&sort=-pass_rate`` holds the whole state of a
page. A category may be given several times (any of the values). A number has the form ``LOW..HIGH``, where each side
may be left out.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from groundtrace.storage.views import quoted_name

FLAG, TAGS = "flagged", "tags"
"""The dimensions of a reviewer's own marks."""
NO_VALUE = ""
"""The class of the rows without a value, and the word for them in a range."""
MAX_TEXT_CHARS = 400


class BadFilter(ValueError):
    """Raised for an address that names an unknown column or a malformed value. The message names it."""


@dataclass(frozen=True)
class Dimension:
    """Holds a column that rows can be filtered and sorted by. It is a number or a category."""

    name: str
    is_number: bool

    @property
    def column(self) -> str:
        """Return the column's name as an identifier of SQL."""
        return quoted_name(self.name)

    @property
    def sql(self) -> str:
        """Return the column as SQL; in a category, rows without a value have the class :data:`NO_VALUE`."""
        return self.column if self.is_number else f"coalesce({self.column}::VARCHAR, '')"


@dataclass(frozen=True)
class Filters:
    """Holds which rows a page shows, and in which order.

    ``classes`` are the wanted values by category, ``ranges`` the wanted (low, high) by number; None leaves a side open.
    ``text`` is looked for in a row's id, question, answer, detail and traces, without regard to case.
    """

    text: str = ""
    classes: Mapping[Dimension, tuple[str, ...]] = field(default_factory=dict)
    ranges: Mapping[Dimension, tuple[float | None, float | None]] = field(default_factory=dict)
    sort: Dimension | None = None
    descends: bool = False

    def where(self, without: str = "") -> tuple[str, list[Any]]:
        """Return the condition in SQL with its values; the filter on the dimension ``without`` is left out.

        ``text`` is not part of the condition.
        """
        parts, values = ["true"], list[Any]()
        for dimension, wanted in self.classes.items():
            if dimension.name != without:
                parts.append(f"{dimension.sql} IN ({', '.join('?' for _ in wanted)})")
                values += wanted
        for dimension, (low, high) in self.ranges.items():
            if dimension.name != without:
                for sign, bound in ((">=", low), ("<=", high)):
                    if bound is not None:
                        parts.append(f"{dimension.column} {sign} ?")
                        values.append(bound)
        return " AND ".join(parts), values

    @property
    def order_sql(self) -> str:
        """Return the order in SQL. Rows with equal values are in the order of the run."""
        if self.sort is None:
            return "n"
        return f"{self.sort.column} {'DESC' if self.descends else 'ASC'} NULLS LAST, n"


def read_filters(items: Iterable[tuple[str, str]], dimensions: Sequence[Dimension]) -> Filters:
    """Return the filters of an address, given as its (name, value) pairs.

    ``q`` is the text, and ``sort`` a dimension's name, after a minus for the descending order. Raises BadFilter.
    """
    known = {each.name: each for each in dimensions}
    text, sort, descends = "", None, False
    classes = dict[Dimension, tuple[str, ...]]()
    ranges = dict[Dimension, tuple[float | None, float | None]]()
    for name, value in items:
        if name == "q":
            text = value.strip()[:MAX_TEXT_CHARS]
        elif name == "sort":
            descends = value.startswith("-")
            sort = _known(value.removeprefix("-"), known)
        else:
            dimension = _known(name, known)
            if dimension.is_number:
                ranges[dimension] = _range(name, value)
            else:
                classes[dimension] = (*classes.get(dimension, ()), value)
    return Filters(text, classes, ranges, sort, descends)


def _known(name: str, known: Mapping[str, Dimension]) -> Dimension:
    if name not in known:
        raise BadFilter(f"the run has no column {name!r} to filter by; it has {', '.join(known)}")
    return known[name]


def _range(name: str, value: str) -> tuple[float | None, float | None]:
    low, dots, high = value.partition("..")
    try:
        bounds = (float(low) if low.strip() else None, float(high) if high.strip() else None)
    except ValueError:
        bounds = (math.nan, None)
    if not dots or any(bound is not None and math.isnan(bound) for bound in bounds):
        raise BadFilter(f"{name} has the range {value!r}: write it as LOW..HIGH, such as 0.5..1 or ..0.5")
    return bounds
