"""Prints tables on the terminal, such as those of ``beam inspect`` and of a comparison of two runs.

Columns are aligned, long cells are cut, and control characters are shown as escapes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from groundtrace.schemas.text import printable

MAX_CELL_CHARS = 80

Rows = Sequence[Sequence[object]]


@dataclass(frozen=True)
class FigureTable:
    """Holds a table for ``beam inspect``: its title, the names of its columns, and its rows.

    Each row is a sequence with one value for each column. ``note`` is a text on how to read the table, which is printed
    below it; "" for none.
    """

    title: str
    columns: tuple[str, ...]
    rows: Rows
    note: str = ""

    def as_objects(self) -> list[dict[str, object]]:
        """Return a list with one dict per row, for JSON output. A dict maps column names to the row's values."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def print_table(console: Console, title: str | None, columns: Sequence[str], rows: Rows) -> bool:
    """Print a table on ``console``, which writes to the terminal or to a string. Return whether a cell was cut.

    A column of numbers is aligned to the right. Long cells are cut. If the output is not a terminal, the table has no
    border lines. ``title`` is a heading above the table; None prints no heading. ``columns`` are the names of the
    columns. ``rows`` holds the values of each row, in the order of the columns.
    """
    plain = not console.is_terminal
    if title is not None:
        console.print(Text(f"\n{title}", style="bold"))
    table = Table(box=None if plain else box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        table.add_column(Text(printable(name)), justify="right" if numbers else "left", no_wrap=plain)
    is_cut = False
    for row in rows:
        cells = [value_text(value, MAX_CELL_CHARS) for value in row]
        is_cut |= any(len(cell) == MAX_CELL_CHARS and cell.endswith("…") for cell in cells)
        table.add_row(*map(Text, cells))
    console.print(table)
    return is_cut


def value_text(value: object, max_chars: int | None) -> str:
    """Return the value of a table's cell as text that is safe to print: control characters are shown as escapes.

    ``value`` may have any type; a bytes value is shown as its length, such as ``<12 bytes>``, and None as ``null``.
    ``max_chars`` is the maximum length of the text; a longer text is cut and ends with "…". None means that the text is
    not cut.
    """
    text = printable(value if isinstance(value, str) else _nested_text(value, max_chars))
    return text if max_chars is None or len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def _nested_text(value: object, max_chars: int | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, list):
        shown = value if max_chars is None else value[:max_chars]
        return f"[{', '.join(_nested_text(item, max_chars) for item in shown)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_nested_text(item, max_chars)}" for key, item in value.items()) + "}"
    return str(value)
