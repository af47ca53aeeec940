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
    """Raised if the input cannot be read; the message says why and what to do."""


class NothingHere(Exception):
    """Raised if a format finds nothing to read at ``--input``; the message is a phrase such as "no .parquet file"."""


@dataclass(frozen=True)
class Source:
    """A part of the input that one worker reads, such as a file. Its rows are numbered from ``first_number``.

    ``kind`` is the name of its format. ``records`` is the number of its records, if it became known when the source was
    found; ``storage`` holds the settings to reach a remote source.
    """

    kind: str
    path: str
    first_number: int = 1
    records: int | None = field(default=None, compare=False)
    storage: StorageSettings = field(default=STANDARD, compare=False)

    @property
    def place(self) -> Place:
        """The path of the source, or its location in a store."""
        return place(self.path, self.storage)

    @property
    def folder(self) -> Place:
        """The folder around it; meaningless for a name that is not a path."""
        return self.place.parent if is_in_store(self.path) else Path(self.path).parent

    def share_of(self, limit: int | None) -> int | None:
        """Return how many of the input's first ``limit`` records can be in this source; None if ``limit`` is None."""
        return None if limit is None else max(0, limit - self.first_number + 1)


@dataclass(frozen=True)
class Input:
    """An input: its sources, the folder that relative media paths start from, and a fingerprint of its content.

    ``columns`` are the records' columns or keys; empty if they are not known before a run.
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
    """Whether every file below a folder is read: a run folder inside would then be part of the next input."""

    lacks_questions: ClassVar[bool] = False
    """Whether its records have no questions: it is tried only for a recipe that writes them."""

    @abc.abstractmethod
    def find(self, name: str, path: Place, rows: RowSettings) -> Input:
        """Return the input that the command line names.

        ``name`` is the name as the user typed it; in ``path`` a leading ``~`` is expanded. For a store, ``path`` is a
        :class:`groundtrace.storage.places.RemotePath`, which has the methods of a ``Path``. Raises :class:`NothingHere`
        if the format has nothing to read, so that the next one is tried, and :class:`InputError`, OSError or ValueError
        if an input of this format is unreadable.
        """

    @abc.abstractmethod
    def records(self, source: Source, rows: RowSettings, store: MediaStore) -> Iterator[RawRecord]:
        """Yield the source's records in order; embedded media are written to ``store``, once each."""

    def count(self, source: Source) -> int | None:
        """Return how many records the source has; None if counting them would require reading their media."""
        return source.records

    def media(self, source: Source, rows: RowSettings) -> Iterator[Any]:
        """Yield the media field of each record, unchanged: a path, a mapping with ``path``, or a list of these.

        No bytes of media are read, and records are only read until the caller stops. Yields nothing if this is not
        possible.
        """
        return iter(())

    def answers(self, source: Source, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
        """Yield, for each record, its values of the fields :data:`ANSWER_FIELDS` under the column map.

        As in :meth:`media`, no bytes of media are read; yields nothing if this is not possible.
        """
        return iter(())

    def rows(self, source: Source, rows: RowSettings) -> Iterator[Mapping[str, Any]]:
        """Yield the source's rows, unchanged but without the bytes of their media, so that their shape can be detected.

        Yields nothing if this is not possible.
        """
        return iter(())


def is_run_folder(path: Place) -> bool:
    """Whether the folder is a run's output, which is not an input."""
    try:
        return json.loads((path / RUN_MARKER).read_text("utf-8")).keys() >= {"input", "fingerprint"}
    except (OSError, ValueError, AttributeError):
        return False
