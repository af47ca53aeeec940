"""Defines a section (a titled table) of a comparison, and formats its numbers.

The terminal and the HTML page show the same sections.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"[-+−–]?(\d|$)")


@dataclass(frozen=True)
class Section:
    """Holds a titled table of a comparison of two runs.

    Attributes:
        name: the anchor of the table on the HTML page.
        title: the heading of the table.
        note: a text on how to read the table.
        columns: the names of the columns.
        rows: the cells of each row.
        more: a line below the table, such as the number of rows that are left out; "" for no line.
    """

    name: str
    title: str
    note: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    more: str = ""

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Return for each column whether all its cells are numbers, so that the page aligns the column to the right."""
        return tuple(
            all(isinstance(row[index], int | float) or _NUMBER.match(str(row[index])) for row in self.rows)
            for index in range(len(self.columns))
        )

    @property
    def differs(self) -> bool:
        """Return whether a value of run A differs from the value of run B beside it.

        These values are in columns whose names end in A and B, such as "share A" and "share B".
        """
        at = {name: index for index, name in enumerate(self.columns)}
        pairs = [(at[name], at[f"{name[:-1]}B"]) for name in at if name[-1] == "A" and f"{name[:-1]}B" in at]
        return any(row[of_a] != row[of_b] for row in self.rows for of_a, of_b in pairs)


def share_text(hits: int, of: int) -> str:
    """Return the share ``hits / of`` as text in percent, such as "12.5 %"; a dash if ``of`` is 0."""
    return f"{100 * hits / of:.1f} %" if of else "–"


def points_text(middle: float | None, interval: tuple[float, float] | None) -> str:
    """Return a difference of two shares as text in percentage points, such as "+2.5 [+1.0, +4.0]".

    ``middle`` is the difference as a fraction (0.025 in the example); for None, the text is a dash. ``interval`` holds
    the lower and the upper bound of the difference as fractions; None gives a text without bounds.
    """
    if middle is None:
        return "–"
    within = "" if interval is None else f" [{100 * interval[0]:+.1f}, {100 * interval[1]:+.1f}]"
    return f"{100 * middle:+.1f}{within}".replace("-", "−")


def number_text(value: float | None, signed: bool = False) -> str:
    """Return a number as text with four significant digits; a dash for None.

    From 10,000 on, the number is rounded to an integer. If ``signed`` is True, a positive number gets a plus sign.
    """
    if value is None:
        return "–"
    if not value:
        return "0"
    text = f"{value:{'+' if signed else ''}.4g}" if abs(value) < 1e4 else f"{value:{'+' if signed else ''}.0f}"
    return text.replace("-", "−")
