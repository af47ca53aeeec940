"""Holds the rows of one output set (sft, rl or rejected) of a finished run, for Python programs and for notebooks."""

import sys
from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import pyarrow as pa

from groundtrace.publishing.reading import InspectError, input_folder
from groundtrace.publishing.row_text import row_text
from groundtrace.schemas.registry import near
from groundtrace.schemas.text import counted, printable

SHOWN_ROWS = 5
"""The number of rows that a notebook shows of a set."""
MAX_REPR_CHARS = 80
HEIGHT_PX = 560
"""The height of the frame in which a notebook shows rows."""


@dataclass(frozen=True, repr=False)
class Row:
    """Holds one row of an output set of a run. ``row["answer"]`` is the value of the column ``answer``.

    A notebook shows the row as the run's report does: with its images, its trace (a teacher's reasoning with its
    answer) and its scores. Two rows are equal if their sets and values are equal; the folders of their runs may differ.

    Attributes:
        folder: the run folder.
        set: the name of the output set: sft, rl or rejected.
        values: the values of the row by column.
        input: the value of the run's ``--input``, such as ``data/*.jsonl``. The images of rejected records are read
            from the folder that this value names, here ``data``.
    """

    folder: Path = field(compare=False)
    set: str
    values: Mapping[str, Any]
    input: str = field(compare=False)

    @property
    def id(self) -> str:
        """Return the id of the record in this row, which is the value of the column ``id``."""
        return self.values["id"]

    def __getitem__(self, column: str) -> Any:
        if column not in self.values:
            raise KeyError(f"the row has no column {column!r}: use one of {', '.join(self.values)}")
        return self.values[column]

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError. If the row has a column with this name, the message states how to read it:
        ``row["name"]``.
        """
        remedy = f': use row["{name}"]' if name in vars(self).get("values", ()) else ""
        raise AttributeError(f"the row has no attribute {name!r}{remedy}")

    def __contains__(self, column: object) -> bool:
        return column in self.values

    def keys(self) -> KeysView[str]:
        """Return the names of the row's columns."""
        return self.values.keys()

    def show(self, whole: bool = False) -> None:
        """Show the row: in a notebook with its images, elsewhere as text.

        Long texts are cut in a terminal, such as a trace of more than six lines; ``whole=True`` shows them whole.
        """
        _show(self, row_text(self.set, self.values, self.folder.name, None) if whole else None)

    def __repr__(self) -> str:
        """Return lines of text: question, answer, the reason of a rejection, the added columns, and the best trace with
        its verdicts.

        A trace is a teacher's reasoning with its answer. A verdict is the score of one aspect of a trace.
        """
        return row_text(self.set, self.values, self.folder.name)

    @property
    def line(self) -> str:
        """Return one line with the output set (sft, rl or rejected), the id, the question, and the answer or the reason
        of the rejection.
        """
        question = " ".join((self.values.get("question") or "no question").split())
        reason, answer = self.values.get("reason"), self.values.get("answer")
        ended = f"rejected: {reason}" if reason else f"answer {answer!r}"
        return printable(f"<{self.set} row {self.id}: {question:.{MAX_REPR_CHARS}} ({ended})>")

    def _repr_html_(self) -> str:
        return _framed([self], 1)


@dataclass(frozen=True, repr=False)
class Rows:
    """Holds rows of one output set of a run, to filter them with :meth:`where`, count them, iterate over them, or pick
    single rows.

    ``rows[0]`` and ``rows["an id"]`` are single rows. ``folder`` is the run folder, and ``set`` is the name of the
    output set: sft, rl or rejected. ``table`` is the Arrow table of the rows. ``input`` is the value of the run's
    ``--input``, such as ``data/*.jsonl``. The images of rejected records are read from the folder that this value
    names, here ``data``. ``known`` holds the values that a column can have, by column, for columns with few known
    values. Two objects are equal if their sets and tables are equal; the folders of their runs may differ.
    """

    folder: Path = field(compare=False)
    set: str
    table: pa.Table
    input: str = field(compare=False)
    known: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False)

    def where(self, **wanted: Any) -> "Rows":
        """Return the rows whose columns have the wanted values, such as ``where(reason="too_easy")``.

        The keys of ``wanted`` are names of columns. A row must match the values of all keys. A value has one of these
        forms:

        - A single value selects rows with this value in the column. None selects rows in which the column is null.
        - A list, tuple or set selects rows with one of its values in the column.
        - A function gets the row's value of the column, and returns True if the row is wanted. For example,
          ``where(pass_rate=lambda rate: rate < 0.5)`` selects rows with a pass rate below 0.5. The function is not
          called for null, and rows in which the column is null are left out.

        Raises :class:`groundtrace.publishing.reading.InspectError` for an unknown column, for a value that does not
        have the column's type, and for a stage or reason that the run does not have.
        """
        table = self.table
        for name, value in wanted.items():
            if name not in table.column_names:
                known = ", ".join(table.column_names)
                raise InspectError(f"the rows of {self.set} have no column {name!r}: use one of {known}")
            self._check_known(name, value)
            try:
                table = table.filter(_mask(table[name], value))
            except (pa.ArrowException, TypeError) as error:
                given = f"{value!r:.{MAX_REPR_CHARS}}"
                raise InspectError(
                    f"where({name}={given}) does not fit the column's type, {table[name].type} ({error}): pass a value "
                    "of this type"
                ) from error
        return replace(self, table=table)

    def _check_known(self, column: str, wanted: Any) -> None:
        """Raise InspectError if ``wanted`` has a text that is not a known value of ``column``, and that no row has in
        this column.

        ``wanted`` is the value of the column's key in :meth:`where`.
        """
        known = self.known.get(column, ())
        texts = [wanted] if isinstance(wanted, str) else wanted if isinstance(wanted, list | tuple | set) else []
        others = [text for text in texts if isinstance(text, str) and text not in known] if known else []
        held = set(self.table[column].to_pylist()) if others else set()
        if unknown := next((text for text in others if text not in held), None):
            hint, of_rows = near(unknown, known), sorted(each for each in held if each)
            owner, values = "These rows have" if of_rows else "The run has", ", ".join(of_rows or known)
            raise InspectError(
                f"the run has no {column} {unknown!r:.{MAX_REPR_CHARS}}"
                + (f"{hint} {owner}: {values}" if hint else f": use one of {values}")
            )

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        return self.table.num_rows

    @property
    def column_names(self) -> list[str]:
        """Return the names of the columns."""
        return self.table.column_names

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as a list of dictionaries, with the names of the columns as keys."""
        return self.table.to_pylist()

    def to_pandas(self, **options: Any) -> Any:
        """Return the rows as a pandas DataFrame. ``options`` are passed to ``pyarrow.Table.to_pandas``."""
        return self.table.to_pandas(**options)

    def __len__(self) -> int:
        return self.table.num_rows

    def __iter__(self) -> Iterator[Row]:
        for batch in self.table.to_batches(max_chunksize=16):
            for values in batch.to_pylist():
                yield Row(self.folder, self.set, values, self.input)

    @overload
    def __getitem__(self, which: int | str) -> Row: ...

    @overload
    def __getitem__(self, which: slice) -> "Rows": ...

    def __getitem__(self, which: int | str | slice) -> "Row | Rows":
        """Return one row, or several rows as :class:`Rows`.

        ``which`` is a number (from 0; negative numbers count from the end), the id of a record, or a slice such as
        ``[:10]``. Raises IndexError for a number without a row, and KeyError for an unknown id.
        """
        if isinstance(which, slice):
            return replace(self, table=self.table.take(pa.array(range(*which.indices(len(self))), pa.int64())))
        number = which
        if isinstance(which, str):
            number = self.table["id"].index(which).as_py()
            if number < 0:
                raise KeyError(f"no row of {self.set} has the id {which!r}: use an id from the column 'id'")
        elif not -len(self) <= which < len(self):
            raise IndexError(
                f"row {which} does not exist: this selection of {self.set} has {counted(len(self), 'row')}"
            )
        [values] = self.table.slice(int(number) % len(self), 1).to_pylist()
        return Row(self.folder, self.set, values, self.input)

    def show(self) -> None:
        """Show the first :data:`SHOWN_ROWS` rows: in a notebook with their images, elsewhere as text."""
        _show(self)

    def __repr__(self) -> str:
        """Return lines of text: the number of rows, then each of the first rows, then the number of further rows."""
        first = [f"  {row.line}" for row, _ in zip(self, range(SHOWN_ROWS), strict=False)]
        more = len(self) - len(first)
        lines = [f"<{counted(len(self), f'{self.set} row')} of {self.folder.name}>", *first]
        return "\n".join([*lines, *([f"  and {more} more"] if more else [])])

    def _repr_html_(self) -> str:
        return _framed([row for row, _ in zip(self, range(SHOWN_ROWS), strict=False)], len(self))


def _mask(column: pa.ChunkedArray, value: Any) -> pa.Array:
    """Return a mask for the column: True for each row that :meth:`Rows.where` keeps.

    ``value`` is the wanted value of the column. :meth:`Rows.where` describes its forms.
    """
    if callable(value):
        wanted: Callable[[Any], Any] = value
        return pa.array([each is not None and bool(wanted(each)) for each in column.to_pylist()], pa.bool_())
    several = isinstance(value, list | tuple | set | frozenset)
    values = pa.array(list(value) if several else [value], column.type).to_pylist()  # of the column's type, or an error
    return pa.array([each in values for each in column.to_pylist()], pa.bool_())


def _framed(rows: Sequence[Row], total: int) -> str:
    """Return an HTML element that shows ``rows`` in the same form as the report of their run.

    ``rows`` are the first of ``total`` rows.
    """
    from groundtrace.pages.frame import framed
    from groundtrace.pages.render import render
    from groundtrace.pages.shown_images import ImageRoom
    from groundtrace.publishing.gallery import count_images, entry_of, rejected_entry
    from groundtrace.vision.media import MediaStore

    images = sum(1 if row.set == "rejected" else count_images(row.values) for row in rows)
    room, entries = ImageRoom(images), []
    for row in rows:
        if row.set == "rejected":
            store = MediaStore(input_folder(row.input), str(row.folder), cache_bytes=0)
            entries.append(rejected_entry(row.values, room, store))
        else:
            entries.append(entry_of(row.values, room))
    page = render(
        "groundtrace.publishing",
        "rows.html.jinja",
        name=rows[0].folder.name if rows else "no run",
        rows=list(zip(rows, entries, strict=True)),
        total=total,
    )
    return framed(page, HEIGHT_PX)


def _show(shown: Row | Rows, text: str | None = None) -> None:
    """In a notebook, display a row or rows. Outside a notebook, print ``text``; if ``text`` is None, print the row or
    rows.
    """
    ipython = sys.modules.get("IPython")  # a notebook has imported it
    if ipython is None or ipython.get_ipython() is None:
        print(shown if text is None else text)
    else:
        ipython.display.display(shown)
