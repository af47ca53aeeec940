"""Reads the filters of ``beam view`` from the address of its page, and converts them to SQL.

The address holds the whole state of a page, for example:

    set=rejected&reason=too_hard&score final=..0.5&q=red&sort=-pass_rate

This address shows the rejected records with the reason ``too_hard``, with a value of at most 0.5 in the column ``score
final``, and with the text "red". The highest pass rate comes first. If a column of categories is given several times, a
row must have one of the given values. The range of a column of numbers is a number, or has the form ``LOW..HIGH``.
``LOW`` or ``HIGH`` may be left out.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from groundtrace.schemas.text import storable
from groundtrace.storage.views import quoted_name

OPENING = "opening"
"""The parameter with which a page names the opening of the run from which it has its rows."""
TOKEN = "token"
"""The parameter with the secret of the view, in the address that ``beam view`` prints."""
TEXT, SORT = "q", "sort"
OF_ADDRESS = ("offset", "limit", "id", "view", OPENING)
"""The parameters in the address of a page that are neither filters nor the sort order."""
FLAG, TAGS, NOTED, OUTDATED = "flagged", "tags", "has a note", "changed since its mark"
"""The names of the columns that hold a reviewer's flag and tags, whether the reviewer has written a note, and whether
the row has changed since the reviewer set them."""
MARK_WORDS = "words of the mark"
"""The name of the column with the tags and the note in lower case, in which a search looks."""
NO_VALUE = ""
"""The category of the rows without a value."""
MAX_TEXT_CHARS = 400


class BadFilter(ValueError):
    """Raised if an address contains an unknown column or a malformed value. The message names this column or value."""


@dataclass(frozen=True)
class Dimension:
    """Describes a column by which the page of ``beam view`` can filter and sort the rows of a run.

    ``is_number`` is True if the column holds numbers, and False if it holds categories.
    """

    name: str
    is_number: bool

    @property
    def column(self) -> str:
        """Return the column's name as a quoted SQL identifier."""
        return quoted_name(self.name)

    @property
    def sql(self) -> str:
        """Return the SQL expression for the column's value. In a column of categories, a missing value becomes ""."""
        return self.column if self.is_number else f"coalesce({self.column}::VARCHAR, '')"


@dataclass(frozen=True)
class Filters:
    """Holds which rows a page shows, and in which order.

    Attributes:
        text: a text that must occur in a row's id, question, answer or traces, in the detail of its rejection, or in
            its tags or note; case is ignored.
        classes: the accepted values of each column of categories.
        ranges: the (low, high) bounds of each column of numbers, both inclusive; None means no bound.
        sort: the column to sort by; None means the order of the run.
        descends: True if the largest value comes first.
    """

    text: str = ""
    classes: Mapping[Dimension, tuple[str, ...]] = field(default_factory=dict)
    ranges: Mapping[Dimension, tuple[float | None, float | None]] = field(default_factory=dict)
    sort: Dimension | None = None
    descends: bool = False

    def where(self, without: str = "") -> tuple[str, list[Any]]:
        """Return the SQL condition for the categories and ranges, and the values of the condition's SQL placeholders
        (``?``).

        ``without`` is the name of a column whose filter is left out; "" to use all filters. The search for :attr:`text`
        is not in the condition.
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
        """Return the SQL for the order of the rows. Rows with equal values keep their order in the run."""
        if self.sort is None:
            return "n"
        return f"{self.sort.column} {'DESC' if self.descends else 'ASC'} NULLS LAST, n"


def read_filters(items: Iterable[tuple[str, str]], dimensions: Sequence[Dimension]) -> Filters:
    """Return the filters that an address of the page contains.

    ``items`` are the (name, value) pairs of the address. The name ``q`` gives the text to search for. ``sort`` gives
    the name of the column to sort by; a minus before this name means descending order. The names in :data:`OF_ADDRESS`
    are not filters, and are skipped. Every other name must be one of the ``dimensions``, which are the columns to
    filter by. A name may have underscores in place of its blanks, such as ``trace_points``. Only a column of categories
    may be given several times. Raises BadFilter for an unknown column, a malformed range, a second value of another
    parameter, and a value with half a character (a lone surrogate).
    """
    known = _by_name(dimensions)
    text, sort, descends = "", None, False
    classes = dict[Dimension, tuple[str, ...]]()
    ranges = dict[Dimension, tuple[float | None, float | None]]()
    given = set[str]()
    for written, value in items:
        name = known[written].name if written in known else written
        is_class = name in known and not known[name].is_number
        if name in given and not is_class:
            raise BadFilter(f"{name} is given several times: give it once")
        given.add(name)
        if storable(value) != value:
            raise BadFilter(f"the value {value!r:.60} of {name} is not a text in UTF-8: write it again")
        if name in OF_ADDRESS:
            continue
        if name == TEXT:
            text = value.strip()[:MAX_TEXT_CHARS]
        elif name == SORT:
            descends = value.startswith("-")
            sort = _known(value.removeprefix("-"), known)
        elif is_class:
            classes[known[name]] = (*classes.get(known[name], ()), value)
        else:
            column = _known(name, known)
            ranges[column] = _range(name, value)
    return Filters(text, classes, ranges, sort, descends)


def _by_name(dimensions: Sequence[Dimension]) -> dict[str, Dimension]:
    """Return the columns by each name that an address may have for them.

    These are the column's own name, and the name with underscores in place of blanks unless another column has it.
    """
    found = {each.name: each for each in dimensions}
    for each in dimensions:
        found.setdefault(each.name.replace(" ", "_"), each)
    return found


def _known(name: str, known: Mapping[str, Dimension]) -> Dimension:
    """Return the column with this name from ``known``, the columns by the names of :func:`_by_name`. Raises BadFilter
    if ``known`` has no such column.
    """
    if name not in known:
        names = ", ".join(dict.fromkeys(each.name for each in known.values()))
        raise BadFilter(f"the run has no column {name!r} to filter or sort by: use one of {names}")
    return known[name]


def _range(name: str, value: str) -> tuple[float | None, float | None]:
    """Return the bounds of a range such as ``0.5..1``; None for a bound that is left out. If ``value`` is a single
    number, both bounds are this number.

    ``name`` is the name of the column. Raises BadFilter if ``value`` is neither a number nor of the form ``LOW..HIGH``.
    """
    low, _, high = value.partition("..") if ".." in value else (value, "", value)
    try:
        bounds = (float(low) if low.strip() else None, float(high) if high.strip() else None)
    except ValueError:
        bounds = (math.nan, None)
    if not value.strip() or any(bound is not None and math.isnan(bound) for bound in bounds):
        raise BadFilter(
            f"the range {value!r} of {name} is malformed: write it as a number or as LOW..HIGH, such as 5, 0.5..1 or "
            "..0.5"
        )
    return bounds
