"""What an export format is, what its rows are made of, and for whom they are made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from groundtrace.publishing.exports.errors import ExportError, LeftOut
from groundtrace.publishing.exports.images import UprightImage
from groundtrace.publishing.rewards.reference import RowReference
from groundtrace.schemas.responses.speech import Speech

MARK = "<image>"
"""Where an image stands in the user's turn of a shard."""
NOT_EXPORTED = ("overlays", "attempts", "verdicts", "lineage")
"""Columns that no trainer reads; they are not read from the shards either, unless a format wants them."""

Turn = Mapping[str, str]
"""``role`` and ``content``."""


@dataclass(frozen=True)
class Target:
    """For whom rows are written.

    Attributes:
        output: the folder in which the export will stand in the end, as an absolute path.
        run: the path of the run folder that a reward will read the rows from.
        family: the name of the family of the model to be trained.
        speech: how that model writes coordinates.
        added: the columns that the run's RL rows have beside the core ones, for training, with their types.
    """

    output: Path
    run: str
    family: str
    speech: Speech
    added: Mapping[str, pa.DataType] = field(default_factory=dict)


@dataclass(frozen=True)
class ExportRow:
    """A row of a shard, ready to be written in some format.

    Attributes:
        side: sft or rl.
        number: which of the side's rows it is, in the order of the shards, from 0; the streams of one share it.
        fields: the row's columns, without the bytes of its images.
        turns: ``messages`` or ``prompt``, the assistant's tags in the frame of the target's family.
        images: one for each mark in the turns, in their order.
        stream: the one that these turns ask for, of a question that is asked in streams (iVGR §3.2); else "".
    """

    side: str
    number: int
    fields: Mapping[str, Any]
    turns: tuple[Turn, ...]
    images: tuple[UprightImage, ...]
    stream: str = ""

    @property
    def id(self) -> str:
        """The id of its question."""
        return self.text("id")

    @property
    def kept_text(self) -> str:
        """The kept trace of an SFT row in pixels of the original, as the shard has it."""
        return self.fields["messages"][-1]["content"]

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Width and height in px of each still image, or once for the frames of a clip."""
        sizes = [(image.width, image.height) for image in self.images]
        return sizes[:1] if self.fields.get("frames") else sizes

    def text(self, column: str) -> str:
        """The column's text. Raises LeftOut where it is null."""
        found = self.fields.get(column)
        if not isinstance(found, str):
            raise LeftOut("missing_text", column)
        return found

    def reference(self, target: Target) -> str:
        """What a reward needs to find the row again (:mod:`groundtrace.publishing.rewards.reference`). Raises
        LeftOut.
        """
        return RowReference(self.id, self.text("answer"), target.run, target.family, self.stream).text()


class Writer(Protocol):
    """Takes the rows of a side one by one, and keeps no more of them than a block of fixed size."""

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Writes the rows of one question: one, or one for each stream that it is asked in.

        Raises LeftOut where the format has no place for one of them, and leaves no trace of any.
        """

    def close(self) -> None:
        """Ends the files. Where no row came, there are none."""


def anything(run: Path) -> None:
    """Refuses no run."""


@dataclass(frozen=True)
class ExportFormat:
    """A format: a file of its own and a line in :data:`groundtrace.publishing.exports.registry.FORMATS`.

    Attributes:
        name: as ``--format`` names it.
        does: what it writes and who reads it, in one sentence.
        open: for each side that it takes, what makes its writer in a folder.
        beside: the texts of further files by name, given the rows written of each side.
        check: raises ExportError for a run folder that has not what the format needs.
        marks_are_text: its reader takes ``<image>`` for text, so a row may spell it out.
        unread: core columns of the shards that it has no use for.
        is_for_training: of the added columns it takes those alone that are for training.
    """

    name: str
    does: str
    open: Mapping[str, Callable[[Path, Target], Writer]]
    beside: Callable[[Mapping[str, int]], Mapping[str, str]] = lambda written: {}
    check: Callable[[Path], None] = anything
    marks_are_text: bool = False
    unread: tuple[str, ...] = NOT_EXPORTED
    is_for_training: bool = True

    def __post_init__(self) -> None:
        """Raise ExportError for a side that there is none of."""
        if not self.open or not {*self.open} <= {"sft", "rl"}:
            raise ExportError(f"the format {self.name} takes sft, rl or both, got {', '.join(self.open) or 'neither'}")
