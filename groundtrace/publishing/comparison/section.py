"""Defines a section of a comparison, which the terminal and the page show alike, and how its figures are written."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"[-+−–]?(\d|$)")


@dataclass(frozen=True)
class Section:
    """Holds a titled table of a comparison, with a note on how to read it.

    ``name`` is its anchor on the page. ``more`` is a line below the table, such as the number of rows left out.
    """

    name: str
    title: str
    note: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    more: str = ""

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Return for each column whether all its cells are numbers, so that it can be aligned to the right."""
        return tuple(
            all(isinstance(row[index], int | float) or _NUMBER.match(str(row[index])) for row in self.rows)
            for index in range(len(self.columns))
        )


def share_text(hits: int, of: int) -> str:
    """Return a share in percent, or a dash if there is nothing to have a share of."""
    return f"{100 * hits / of:.1f} %" if of else "–"


def points_text(middle: float | None, interval: tuple[float, float] | None) -> str:
    """Return a difference of shares in percentage points, with its interval if there is one."""
    if middle is None:
        return "–"
    within = "" if interval is None else f" [{100 * interval[0]:+.1f}, {100 * interval[1]:+.1f}]"
    return f"{100 * middle:+.1f}{within}".replace("-", "−")


def number_text(value: float | None, signed: bool = False) -> str:
    """Return a number with four significant digits, with its sign if ``signed``; a dash if it is None."""
    if value is None:
        return "–"
    if not value:
        return "0"
    text = f"{value:{'+' if signed else ''}.4g}" if abs(value) < 1e4 else f"{value:{'+' if signed else ''}.0f}"
    return text.replace("-", "−")
