"""Defines the base class of an input format, such as Parquet, and the description of a run's input."""

import abc
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from groundtrace.config.settings import OneOf, PartName, settings
from groundtrace.grading.input_record import medium_name
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.records import RawRecord
from groundtrace.schemas.registry import RegistryError
from groundtrace.schemas.safe_files import UnsafeFile, is_elsewhere, read_json
from groundtrace.schemas.text import last_part, storable
from groundtrace.stages.sources.shapes.base import ShapeSettings
from groundtrace.stages.sources.shapes.registry import SHAPES
from groundtrace.storage.places import STANDARD, Place, RemotePath, StorageSettings, is_in_store, place
from groundtrace.vision.media import MediaStore

FIELDS = ("id", "source", "license", "media", "question", "answer", "answer_type", "choices", "boxes")
FieldName = Annotated[str, OneOf(FIELDS)]
OPTIONAL_FIELDS = ("answer_type", "choices", "boxes")
ANSWER_FIELDS = ("answer", "answer_type", "choices")
MAX_UNREAD = 3
"""The maximum number of unread files that a line names."""
RUN_MARKER = "input.json"
"""The name of a file in each run folder that describes the run's input. A run writes it first."""


class InputError(UserError):
    """Raised if the input cannot be read; the message states the reason and the remedy."""


class NothingHere(Exception):
    """Raised if an input format finds nothing that it can read. The caller then tries the next format.

    The message states why the format found nothing.
    """


@dataclass(frozen=True)
class Source:
    """Describes a part of the input that one worker reads, such as a file.

    Attributes:
        kind: the name of the source's format, e.g. "parquet".
        path: the path or URL of the source, or the id of a data set.
        first_number: the number of its first row. The rows of an input are numbered over all its sources, from 1.
        records: the number of its records; None if they were not counted when the source was found.
        storage: the settings to access a source on remote storage.
        only: the numbers of the records to read; all other records are skipped. If it is None, all records are read.
        root: the input's folder, from which paths in the config's ``[input]`` start; "" for the folder of the source.
    """

    kind: str
    path: str
    first_number: int = 1
    records: int | None = field(default=None, compare=False)
    storage: StorageSettings = field(default=STANDARD, compare=False)
    only: tuple[int, ...] | None = None
    root: str = field(default="", compare=False)

    @property
    def place(self) -> Place:
        """Return the path of this source (a part of the input, such as a file) as an object: a local path, or a
        location on remote storage.
        """
        return place(self.path, self.storage)

    @property
    def folder(self) -> Place:
        """Return the input's folder (``root``), or the folder that contains this source if ``root`` is unknown. The
        result has no meaning if ``path`` is the id of a data set.
        """
        if self.root:
            return place(self.root, self.storage) if is_in_store(self.root) else Path(self.root)
        return self.place.parent if is_in_store(self.path) else Path(self.path).parent

    @property
    def name(self) -> str:
        """Return the name of this source for the user: its path in the input's folder, or the id of a data set.

        The path of the folder itself is left out, because it may be private.
        """
        if not is_in_store(self.path) and not Path(self.path).is_absolute():
            return medium_name(self.path.removeprefix("hf://"))  # a URL of a plug-in may hold a password
        inside = self.path.removeprefix(f"{str(self.folder).rstrip('/')}/")
        return storable(last_part(self.path) if inside == self.path else inside)

    def share_of(self, limit: int | None) -> int | None:
        """Return the largest number of records that this source can have among the input's first ``limit`` records.

        A worker reads at most this number of records from the source. For example, if ``limit`` is 10 and
        ``first_number`` is 8, the result is 3, for the records 8, 9 and 10. Returns None if ``limit`` is None (no
        limit).
        """
        return None if limit is None else max(0, limit - self.first_number + 1)


@dataclass(frozen=True)
class Input:
    """Describes an input by its sources and by a fingerprint of its content.

    Attributes:
        name: the path of the input, or the id of a data set.
        sources: the parts of the input, such as files.
        media_root: the folder from which relative media paths start.
        fingerprint: a digest that changes if the input changes.
        columns: the names of the records' columns or keys; empty if they are unknown before a run.
        unread: the names of further files in the input's folder that may hold records, but are not read.
    """

    name: str
    sources: tuple[Source, ...]
    media_root: str
    fingerprint: str
    columns: frozenset[str] = field(default=frozenset(), compare=False)
    unread: tuple[str, ...] = field(default=(), compare=False)

    @property
    def unread_note(self) -> str:
        """Return a line on the files of the input's folder that are not read, with the remedy; "" if there are none."""
        if not self.unread:
            return ""
        named = ", ".join(self.unread[:MAX_UNREAD])
        more = f" and {len(self.unread) - MAX_UNREAD} more" if len(self.unread) > MAX_UNREAD else ""
        read = ", ".join(source.name for source in self.sources[:1]) + (", …" if len(self.sources) > 1 else "")
        return f"not read: {named}{more}, in the folder of {read}: to read another file, set --input to this file"

    @property
    def folder(self) -> Place:
        """Return the folder from which relative media paths start.

        For a data set of the Hugging Face Hub, the result is a path that is made from the data set's id. No folder
        exists at this path.
        """
        in_store = is_in_store(self.media_root)
        return place(self.media_root, self.sources[0].storage) if in_store else Path(self.media_root)


@settings
class RowSettings(ShapeSettings):
    """Holds the settings by which the rows of an input become records (questions with media and answer).

    If Parquet files or data sets have no id column, their rows get ids of the form ``row-<number>``. The page
    ``docs/inputs.md`` describes the shapes (layouts of rows).
    """

    shape: Annotated[str, PartName(SHAPES), "the layout of a row; rows: one record, with its fields in columns"] = (
        "rows"
    )
    columns: Annotated[Mapping[FieldName, str], "the input's column, or key, for each field"] = field(
        default_factory=dict
    )
    constants: Annotated[Mapping[FieldName, str], "the value of each field that the input lacks"] = field(
        default_factory=dict
    )
    keep: Annotated[
        tuple[str, ...], "columns, or keys, of the input to copy into every row as text, also into rejected rows"
    ] = ()
    split: Annotated[str, "the split of a Hugging Face data set"] = "train"
    name: Annotated[str, "the configuration of a Hugging Face data set"] = ""

    def __post_init__(self) -> None:
        try:
            SHAPES.named(self.shape)
        except RegistryError as error:
            raise ValueError(f"shape {error}") from error
        if self.number_ids and self.file_ids:
            raise ValueError("number_ids and file_ids are both set: remove one of them")
        for name in self.keep:
            if not name.strip() or "." in name:
                raise ValueError(
                    f"keep: {name!r} cannot be the name of a Parquet column, because it is empty or has a dot: rename "
                    "the column in the input and in 'keep'"
                )
            if name.casefold() == "file_row_number":
                raise ValueError(
                    "keep: the database that reads the rows uses the name file_row_number itself: rename this column "
                    "in the input and in 'keep'"
                )
        if twice := next(
            (name for name in self.keep if [*map(str.casefold, self.keep)].count(name.casefold()) > 1), ""
        ):
            raise ValueError(f"'keep' has the name {twice!r} twice (upper and lower case are the same): remove one")


class Format(abc.ABC):
    """Base class of an input format, such as JSON Lines.

    A new format needs a file with its class and an instance of it, and one line in
    :data:`groundtrace.stages.sources.registry.FORMATS`. :meth:`find`, :meth:`count`, :meth:`media`, :meth:`answers` and
    :meth:`rows` are called before a run, on the machine that starts the run. They read no bytes of media.
    :meth:`records` is called on a worker. In all methods, ``source`` is the part of the input to read, and ``rows``
    holds the settings by which rows become records. A format has no state.

    The class variable ``name`` is the name of the format. ``is_read_whole`` is True if the format reads all files below
    a folder, so that no run may write its outputs there. ``lacks_questions`` is True if the records of the format have
    no questions; such a format is tried only for a recipe that writes questions.
    """

    name: ClassVar[str]
    """The name of the format, which is the ``kind`` of its sources."""

    is_read_whole: ClassVar[bool] = False
    """Whether the format reads every file below a folder. No run may write its outputs there: the next run would read
    them as input."""

    lacks_questions: ClassVar[bool] = False
    """Whether the format's records have no questions. The format is then tried only for a recipe that writes
    questions.
    """

    @abc.abstractmethod
    def find(self, name: str, path: Place, rows: RowSettings) -> Input:
        """Return the input that the command line names, if it has this format (e.g. Parquet).

        ``name`` is the name as the user typed it. ``path`` is the same name as a path, with a leading ``~`` expanded.
        ``rows`` holds the settings by which rows become records. For a remote store, ``path`` is a
        :class:`groundtrace.storage.places.RemotePath`, which has the methods of a ``Path``.

        Raises :class:`NothingHere` if the input is not of this format; the caller then tries the next format. Raises
        :class:`InputError`, OSError or ValueError if an input of this format is unreadable.
        """

    @abc.abstractmethod
    def records(self, source: Source, rows: RowSettings, store: MediaStore) -> Iterator[RawRecord]:
        """Yield the records of ``source`` (a part of the input, such as a file) in order. ``rows`` holds the settings
        by which rows become records. Each medium that a row contains as bytes is written to ``store`` once.
        """

    def count(self, source: Source) -> int | None:
        """Return the number of records of ``source`` (a part of the input, such as a file). Returns None if counting
        them would require reading their media.
        """
        return source.records

    def media(self, source: Source, rows: RowSettings) -> Iterator[Any]:
        """Yield the media field of each record, unchanged: a path, a mapping with ``path``, or a list of these.

        ``source`` is a part of the input, such as a file. ``rows`` holds the settings by which rows become records. The
        bytes of media are not read, and each record is read only when the caller needs it. Yields nothing if the format
        cannot read records without the bytes of their media.
        """
        return iter(())

    def answers(self, source: Source, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
        """Yield the fields about the answer of each record, as a mapping from field names to values.

        The mapping holds the fields of :data:`ANSWER_FIELDS` (answer, answer_type and choices) for which the record has
        a value. It may also hold other fields.

        ``source`` is a part of the input, such as a file. ``rows`` holds the settings by which rows become records; its
        column map (``input.columns``) determines which columns hold these fields. The bytes of media are not read.
        Yields nothing if the format cannot read records without these bytes. If no column holds the fields of
        :data:`ANSWER_FIELDS`, a format may also yield nothing.
        """
        return iter(())

    def rows(self, source: Source, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of ``source`` (a part of the input, such as a file) without the bytes of their media. A row
        maps column names to values.

        ``rows`` holds the settings by which rows become records. The shape (the layout of the rows) is detected from
        the yielded rows. Yields nothing if the format cannot read rows without the bytes of their media.
        """
        return iter(())


def refuse_link_out(file: Place, folder: Place, remedy: str = "set --input to the link itself") -> None:
    """Raise InputError if a file of a data folder is a link to a file outside the folder.

    The user named only the ``folder``. If the folder comes from a stranger, a link in it can lead to any file of the
    user. As an exception, links in the Hub's cache may lead to files of this cache
    (:func:`groundtrace.schemas.safe_files.is_inside`). ``remedy`` is the end of the message: how the user can name the
    file itself.
    """
    if not isinstance(file, RemotePath) and is_elsewhere(file, Path(str(folder))):
        raise InputError(f"{file} is a link to a file outside its folder: copy this file into the folder, or {remedy}")


def is_run_folder(path: Place) -> bool:
    """Return whether the folder ``path`` is the output folder of a Groundtrace run. Such a folder is not read as an
    input. A run folder has a marker file (:data:`RUN_MARKER`), which must be a regular file and not a pipe or a device.
    """
    marker = path / RUN_MARKER
    try:
        content = read_json(marker) if isinstance(marker, Path) else json.loads(marker.read_text("utf-8"))
        return content.keys() >= {"input", "fingerprint"}
    except (OSError, ValueError, AttributeError, RecursionError, UnsafeFile):
        return False
