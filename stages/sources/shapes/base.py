"""Defines the base class of a shape. A shape is a layout of input rows, such as the conversations of LLaVA.

A shape converts rows that are nested, or that need data of another file. The column map (``input.columns``) is then
applied to the converted rows.
"""

import abc
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal

from groundtrace.config.settings import settings
from groundtrace.storage.places import Place

Row = Mapping[str, Any]
Reader = Callable[[Row], Iterable[Row]]
"""A function that converts a row of the input to rows with one record each."""
FIRST_ROWS = 20
"""The number of rows that are read to detect an input's shape."""


class BadRow(ValueError):
    """Raised if a row does not have the layout (shape) that the config names. The message has the reason, and becomes
    the detail of the row's rejection.
    """


@settings
class ShapeSettings:
    """Holds the settings of the layout of the input's rows, i.e. of the way in which a row holds questions, answers and
    media.
    """

    turns: Annotated[
        Literal["each", "first"],
        "the questions of a conversation that become records: each of them, or only the first",
    ] = "each"
    choices_in_text: Annotated[
        bool, 'parse lines such as "A. cat" at the end of a question as its choices; an answer may then be a letter'
    ] = False
    answer_is: Annotated[
        Literal["text", "letter", "index", "number"],
        "how an answer refers to a choice: by its text, its letter, its index from 0, or its number from 1",
    ] = "text"
    media_folder: Annotated[str, "the subfolder of the input's folder to which media paths are relative"] = ""
    coco_instances: Annotated[str, "the COCO file of boxes, as a path relative to the input's folder"] = ""
    number_ids: Annotated[bool, "use row-<number> as id instead of the input's ids, for an input whose ids repeat"] = (
        False
    )
    file_ids: Annotated[
        bool, "use the file name of the first medium as id, without its extension, also if the input has ids"
    ] = False


class Shape(abc.ABC):
    """Base class of a shape, which is a layout of input rows.

    A new shape needs a file with its class and an instance of it, and one line in
    :data:`groundtrace.stages.sources.shapes.registry.SHAPES`. A shape has no state. The column map (``input.columns``)
    can name the fields that a shape adds to a row, like columns of the input.

    The class variable ``name`` is the name of the shape in the setting ``input.shape``, and ``title`` is its name in
    messages. ``gives`` has the fields that the shape adds to a row. ``is_expanding`` is True if a row may contain
    several records. ``list_columns`` are the columns whose cells in a CSV file may hold a JSON list.
    """

    name: ClassVar[str]
    """The name of the shape in the setting ``input.shape``."""

    title: ClassVar[str]
    """The name of the shape in the messages of ``beam init``."""

    gives: ClassVar[frozenset[str]] = frozenset()
    """The fields that the shape (layout of input rows) adds to a row."""

    is_expanding: ClassVar[bool] = False
    """Whether a row may contain several records."""

    list_columns: ClassVar[frozenset[str]] = frozenset()
    """The columns whose cells in a CSV or TSV file may hold a JSON list."""

    @abc.abstractmethod
    def fits(self, columns: frozenset[str], first: Sequence[Row]) -> bool:
        """Return whether the rows of an input seem to have this shape (layout of rows).

        ``columns`` are the names of the input's columns. ``first`` are its first rows; this sequence may be empty.
        """

    @abc.abstractmethod
    def read(self, row: Row, settings: ShapeSettings, id_column: str) -> Iterator[Row]:
        """Yield the rows that a row of the input contains, with one row for each record.

        In the yielded rows, media are paths, mappings with ``bytes`` and ``path``, or mappings with ``base64``.
        ``id_column`` is the name of the column that holds the ids. If a row becomes several rows, a suffix such as
        ``-1`` is added to each id. Raises :class:`BadRow` for a row of another layout.
        """

    def reader(self, settings: ShapeSettings, folder: Place, id_column: str) -> Reader:
        """Return a function that splits one row of the input into records, and returns one row for each record.

        The function calls :meth:`read` with ``settings`` and with ``id_column``, the name of the column that holds the
        ids.

        If the shape (layout of rows) needs other files in addition to the rows, e.g. a file of boxes (:meth:`files`),
        these files are read from ``folder``, the folder of the input.
        """
        return lambda row: self.read(row, settings, id_column)

    def files(self, settings: ShapeSettings) -> tuple[str, ...]:
        """Return the paths of the files that this shape (layout of rows) needs besides the rows, e.g. a file of boxes.
        The paths are relative to the input's folder. An empty tuple means that the shape needs no other files.

        The content of these files is part of the input's fingerprint.
        """
        return ()

    def template(self, columns: frozenset[str], first: Sequence[Row], folder: Place) -> list[str]:
        """Return the config lines for this shape (layout of rows). The command ``beam init`` writes them in
        ``[input]``, after the line with the shape's name.

        ``columns`` are the names of the input's columns, ``first`` are its first rows, and ``folder`` is its folder.
        """
        return []


def folder_line(root: Place, media_path: Any) -> str:
    """Return the config line that sets ``media_folder``, the folder from which media paths start.

    ``media_path`` is the path of one medium as the input gives it. The function searches two levels of folders below
    ``root``, the folder of the input, for the folder that contains this path. If ``root`` itself contains the path, the
    setting is not needed, and the line is only a comment. It is also a comment if no folder or more than one folder
    contains the path, or if the path is absolute or has ``..``.
    """
    unset = '# media_folder = "images"  # the folder that media paths start from, if not the input\'s'
    if not isinstance(media_path, str) or PurePosixPath(media_path).is_absolute() or ".." in media_path.split("/"):
        return unset
    if (root / media_path).is_file():
        return unset
    below = [path for folder in _folders_of(root) for path in (folder, *_folders_of(folder))]
    found = sorted(_below(path, root) for path in below if (path / media_path).is_file())
    return f"media_folder = {json.dumps(found[0])}  # media paths start from here" if len(found) == 1 else unset


def _folders_of(folder: Place) -> list[Place]:
    return [path for path in sorted(folder.iterdir()) if path.is_dir()] if folder.is_dir() else []


def _below(path: Place, root: Place) -> str:
    """Return ``path`` relative to the folder ``root``, with slashes between its parts."""
    return str(path)[len(str(root)) :].replace(os.sep, "/").strip("/")


class OneRecordPerRow(Shape):
    """Implements the default shape (layout of rows): each row is one record, and its columns hold the fields."""

    name, title = "rows", "one record a row"

    def fits(self, columns: frozenset[str], first: Sequence[Row]) -> bool:
        """Return False, because this shape (layout of rows) is used only if the rows have no other known layout.

        ``columns`` are the names of the input's columns, and ``first`` are its first rows.
        """
        return False

    def read(self, row: Row, settings: ShapeSettings, id_column: str) -> Iterator[Row]:
        """Yield ``row`` unchanged, because it is one record already. The other arguments are not used."""
        yield row


ROWS = OneRecordPerRow()
