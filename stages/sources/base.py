"""The interface of an input format, and the description of a run's input."""

import abc
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from groundtrace.config.settings import OneOf, PartName, settings
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.records import RawRecord
from groundtrace.schemas.registry import RegistryError
from groundtrace.stages.sources.shapes.base import ShapeSettings
from groundtrace.stages.sources.shapes.registry import SHAPES
from groundtrace.storage.places import STANDARD, Place, StorageSettings, is_in_store, place
from groundtrace.vision.media import MediaStore

FIELDS = ("id", "source", "license", "media", "question", "answer", "answer_type", "choices", "boxes")
FieldName = Annotated[str, OneOf(FIELDS)]
OPTIONAL_FIELDS = ("answer_type", "choices", "boxes")
ANSWER_FIELDS = ("answer", "answer_type", "choices")
RUN_MARKER = "input.json"
"""The file of a run folder that names its input; it exists from the run's first moment."""


class InputError(UserError):
    """The input cannot be read; the message says why and what to do."""


class NothingHere(Exception):
    """A format has nothing to read at ``--input``; the message is a clause such as "no .parquet file"."""


@dataclass(frozen=True)
class Source:
    """One thing that a worker reads: ``kind`` is the name of its format; rows are numbered from ``first_number``.

    ``records`` is how many there are, if finding the source has shown that, and ``storage`` how a remote one is
    reached.
    """

    kind: str
    path: str
    first_number: int = 1
    records: int | None = field(default=None, compare=False)
    storage: StorageSettings = field(default=STANDARD, compare=False)

    @property
    def place(self) -> Place:
        """The path or store location of the source."""
        return place(self.path, self.storage)

    @property
    def folder(self) -> Place:
        """The folder around it; meaningless for a name that is not a path."""
        return self.place.parent if is_in_store(self.path) else Path(self.path).parent

    def share_of(self, limit: int | None) -> int | None:
        """How many of an input's first ``limit`` records can be this source's (None: all of its own)."""
        return None if limit is None else max(0, limit - self.first_number + 1)


@dataclass(frozen=True)
class Input:
    """The sources to read, the folder that relative media paths start from, and what identifies the content.

    ``columns`` are the columns or keys of the records; empty if they are not known before a run.
    """

    name: str
    sources: tuple[Source, ...]
    media_root: str
    fingerprint: str
    columns: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def folder(self) -> Place:
        """The folder that media paths start from; for a data set of the Hub it does not exist."""
        in_store = is_in_store(self.media_root)
        return place(self.media_root, self.sources[0].storage) if in_store else Path(self.media_root)


@settings
class RowSettings(ShapeSettings):
    """How the rows of an input become records.

    Rows of Parquet and of data sets without an id column get the id ``row-<number>``. ``docs/inputs.md`` describes the
    shapes.
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
            raise ValueError("number_ids and file_ids are both set: choose one")
        for name in self.keep:
            if not name.strip() or "." in name:
                raise ValueError(
                    f"keep: {name!r} cannot be the name of a Parquet column: rename it in the input, without dots"
                )
        if twice := next(
            (name for name in self.keep if [*map(str.casefold, self.keep)].count(name.casefold()) > 1), ""
        ):
            raise ValueError(f"keep names {twice!r} twice: names of columns that differ only in case count as the same")


class Format(abc.ABC):
    """One input format: a value of it in a file of its own, and one line in
    :data:`groundtrace.stages.sources.registry.FORMATS`.

    :meth:`find`, :meth:`count` and :meth:`media` are called before a run, on the machine that starts it, and read no
    media; :meth:`records` is called on a worker. A format keeps no state.
    """

    name: ClassVar[str]
    """The ``kind`` of its sources."""

    is_read_whole: ClassVar[bool] = False
    """Whether a folder is read with every file below it: a run folder inside would be part of the next input."""

    @abc.abstractmethod
    def find(self, name: str, path: Place, rows: RowSettings) -> Input:
        """The input that the command line names.

        ``name`` is as typed, ``path`` has a leading ``~`` expanded; in a store it is a
        :class:`groundtrace.storage.places.RemotePath`, which is used as a ``Path`` is. Raises :class:`NothingHere` if
        the format has nothing to read, so that the next one is tried, and :class:`InputError`, OSError or ValueError
        for an unreadable input of this format.
        """

    @abc.abstractmethod
    def records(self, source: Source, rows: RowSettings, store: MediaStore) -> Iterator[RawRecord]:
        """The source's records in order; media embedded in them are written to ``store``, once each."""

    def count(self, source: Source) -> int | None:
        """How many records the source has; None if they cannot be counted without reading them with their media."""
        return source.records

    def media(self, source: Source, rows: RowSettings) -> Iterator[Any]:
        """The media field of each record as the input has it (a path, a mapping with ``path``, or a list of them).

        Bytes of media are not read, and records are only read until the caller stops; empty if this is not possible.
        """
        return iter(())

    def answers(self, source: Source, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
        """The :data:`ANSWER_FIELDS` of each record, if it has them, under the column map.

        As with :meth:`media`, nothing else is read; empty if this is not possible.
        """
        return iter(())

    def rows(self, source: Source, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
        """The source's rows, unchanged, without the bytes of their media, so that their shape can be detected.

        Empty if this is not possible.
        """
        return iter(())


def is_run_folder(path: Place) -> bool:
    """Whether a run made the folder, which is then an output and not an input."""
    try:
        return json.loads((path / RUN_MARKER).read_text("utf-8")).keys() >= {"input", "fingerprint"}
    except (OSError, ValueError, AttributeError):
        return False
