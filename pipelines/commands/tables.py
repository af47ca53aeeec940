"""Prints tables on the terminal.

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
    """Holds a table of figures: its title, the names of its columns, and its rows."""

    title: str
    columns: tuple[str, ...]
    rows: Rows

    def as_objects(self) -> list[dict[str, object]]:
        """Return each row as a mapping from the names of the columns to the row's values."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def print_table(console: Console, title: str | None, columns: Sequence[str], rows: Rows) -> None:
    """Print a table, with numbers aligned to the right. Without a terminal, the table has no border lines."""
    plain = not console.is_terminal
    if title is not None:
        console.print(Text(f"\n{title}", style="bold"))
    table = Table(box=None if plain else box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        table.add_column(Text(printable(name)), justify="right" if numbers else "left", no_wrap=plain)
    for row in rows:
        table.add_row(*(Text(value_text(value, MAX_CELL_CHARS)) for value in row))
    console.print(table)


def value_text(value: object, max_chars: int | None) -> str:
    """Return a cell's value as text that is safe to print, cut to ``max_chars`` characters (None: not cut)."""
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
