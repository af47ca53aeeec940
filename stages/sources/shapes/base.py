"""The interface of a shape, which converts nested rows, or rows that need another file, for the column map."""

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
"""Converts a row of the input to the rows that it contains."""
FIRST_ROWS = 20
"""How many rows are read to detect an input's shape."""


class BadRow(ValueError):
    """A row that is not of the shape; the message, which says why, becomes the detail of its rejection."""


@settings
class ShapeSettings:
    """The layout of a row."""

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
    """One layout of rows: a value of it in a file of its own, and one line in
    :data:`groundtrace.stages.sources.shapes.registry.SHAPES`.

    A shape keeps no state. The column map reads the fields that a shape gives as if the input had them, beside the
    row's columns.
    """

    name: ClassVar[str]
    """Its value in ``input.shape``."""

    title: ClassVar[str]
    """The words by which ``beam init`` reports it."""

    gives: ClassVar[frozenset[str]] = frozenset()
    """The fields that the shape adds to a row."""

    is_expanding: ClassVar[bool] = False
    """Whether a row may be several records."""

    list_columns: ClassVar[frozenset[str]] = frozenset()
    """Columns whose cell in a CSV or TSV file may be a JSON list."""

    @abc.abstractmethod
    def fits(self, columns: frozenset[str], first: Sequence[Row]) -> bool:
        """Whether an input with these columns and first rows (empty if unknown) has the shape."""

    @abc.abstractmethod
    def read(self, row: Row, settings: ShapeSettings, id_column: str) -> Iterator[Row]:
        """The rows that a row contains. Raises :class:`BadRow`.

        Media are paths, or mappings with ``bytes`` and ``path``, or with ``base64``; ``id_column`` is the column whose
        id gets a made-up suffix if a row becomes several.
        """

    def reader(self, settings: ShapeSettings, folder: Place, id_column: str) -> Reader:
        """:meth:`read` with these settings; other files that it needs are searched for in ``folder``."""
        return lambda row: self.read(row, settings, id_column)

    def files(self, settings: ShapeSettings) -> tuple[str, ...]:
        """Other files with data of records, as paths from the input's folder; part of the input's fingerprint."""
        return ()

    def template(self, columns: frozenset[str], first: Sequence[Row], folder: Place) -> list[str]:
        """Lines of ``[input]`` that ``beam init`` writes below the shape's name."""
        return []


def folder_line(root: Place, media_path: Any) -> str:
    """The line that names the media's folder, found by one of their paths; a comment if none is needed or found."""
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
    """The path from the root, with slashes."""
    return str(path)[len(str(root)) :].replace(os.sep, "/").strip("/")


class OneRecordPerRow(Shape):
    """One record a row, with its fields in columns."""

    name, title = "rows", "one record a row"

    def fits(self, columns: frozenset[str], first: Sequence[Row]) -> bool:
        """False: this shape is used if no other shape fits."""
        return False

    def read(self, row: Row, settings: ShapeSettings, id_column: str) -> Iterator[Row]:
        """The row itself."""
        yield row


ROWS = OneRecordPerRow()
