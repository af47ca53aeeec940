"""The types of an export: the format, its rows, its writers, and the target that the rows are written for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from groundtrace.grading.responses.speech import Speech
from groundtrace.publishing.exports.errors import ExportError, LeftOut
from groundtrace.publishing.exports.images import UprightImage
from groundtrace.publishing.rewards.reference import RowReference

MARK = "<image>"
"""The mark in a shard's user turn at the position of an image."""
NOT_EXPORTED = ("overlays", "attempts", "verdicts", "lineage")
"""Columns that no trainer reads; they are not read from the shards, unless a format overrides ``unread``."""

TAGS, TOOLS = "tags", "tools"
"""The renderings of a trajectory: CodeDance's tags, or tool calls."""

Turn = Mapping[str, str]
"""A turn of a conversation: its ``role`` and ``content``.

In the rendering :data:`TOOLS` results are turns of ``tool``, and a turn that calls the tool holds its ``code`` apart.
"""


@dataclass(frozen=True)
class Target:
    """The destination of the exported rows, and the model that will be trained on the rows.

    Attributes:
        output: the final folder of the export, as an absolute path.
        run: the path of the run folder from which a reward will read the rows.
        family: the name of the family of the model to be trained.
        speech: the way in which that model writes coordinates.
        added: the added columns of the run's RL rows that are for training, with their types.
        turns: the rendering of trajectories, :data:`TAGS` or :data:`TOOLS`.
        sandbox: the limits under which the run executed code, as JSON; "" unless ``turns`` is :data:`TOOLS`.
    """

    output: Path
    run: str
    family: str
    speech: Speech
    added: Mapping[str, pa.DataType] = field(default_factory=dict)
    turns: str = TAGS
    sandbox: str = ""

    @property
    def has_tools(self) -> bool:
        """Whether trajectories are rendered as tool calls."""
        return self.turns == TOOLS


@dataclass(frozen=True)
class ExportRow:
    """A row of a shard, ready to be written in some format.

    Attributes:
        side: sft or rl.
        number: the index of the row in its side, in the order of the shards; the streams of a question share it.
        fields: the row's columns, without the bytes of its images.
        turns: ``messages`` or ``prompt``, with the coordinates of the assistant's tags as the target's family writes
        them.
        images: one image for each image mark in the turns, in order.
        stream: the stream in which these turns ask the question (iVGR §3.2); "" if the question has no streams.
    """

    side: str
    number: int
    fields: Mapping[str, Any]
    turns: tuple[Turn, ...]
    images: tuple[UprightImage, ...]
    stream: str = ""

    @property
    def id(self) -> str:
        """The id of the row's question."""
        return self.text("id")

    @property
    def kept_text(self) -> str:
        """The kept trace of an SFT row, unchanged from the shard: in pixels of the original image."""
        return self.fields["messages"][-1]["content"]

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """The width and height in px of each still image; one entry for all frames of a clip."""
        sizes = [(image.width, image.height) for image in self.images]
        return sizes[:1] if self.fields.get("frames") else sizes

    def text(self, column: str) -> str:
        """Return the text of the column. Raises LeftOut if it is null."""
        found = self.fields.get(column)
        if not isinstance(found, str):
            raise LeftOut("missing_text", column)
        return found

    def reference(self, target: Target) -> str:
        """Return the reference by which a reward finds the row (:mod:`groundtrace.publishing.rewards.reference`), as
        JSON.

        Raises LeftOut if the id or the gold answer is null.
        """
        return RowReference(self.id, self.text("answer"), target.run, target.family, self.stream).text()


class Writer(Protocol):
    """Writes the rows of a side to files; memory holds at most one block of rows."""

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write the rows of one question: one row, or one row for each of its streams.

        Raises LeftOut if the format cannot represent one of the rows; then no row of the question is written.
        """

    def close(self) -> None:
        """Close the files. If no row was written, there are no files."""


def anything(run: Path) -> None:
    """Accept every run: the check of a format that needs nothing special."""


@dataclass(frozen=True)
class ExportFormat:
    """An export format, defined in its own file and listed in :data:`groundtrace.publishing.exports.registry.FORMATS`.

    Attributes:
        name: the name for ``--format``.
        does: the files that it writes and their reader, in one sentence.
        open: for each supported set (sft, rl), the function that opens its writer in a folder.
        beside: returns the texts of further files by name, given the number of rows written for each side.
        check: raises ExportError for a run folder that lacks something that the format needs.
        marks_are_text: whether the reader treats ``<image>`` as plain text, so that a row's text may contain it.
        unread: core columns of the shards that the format does not use.
        is_for_training: whether the format includes only those added columns that are for training.
        takes_tools: whether the format can render trajectories as tool calls (:data:`TOOLS`).
    """

    name: str
    does: str
    open: Mapping[str, Callable[[Path, Target], Writer]]
    beside: Callable[[Mapping[str, int]], Mapping[str, str]] = lambda written: {}
    check: Callable[[Path], None] = anything
    marks_are_text: bool = False
    unread: tuple[str, ...] = NOT_EXPORTED
    is_for_training: bool = True
    takes_tools: bool = False

    def __post_init__(self) -> None:
        """Raise ExportError for an unknown side, or if there is no side."""
        if not self.open or not {*self.open} <= {"sft", "rl"}:
            raise ExportError(f"the format {self.name} takes sft, rl or both, got {', '.join(self.open) or 'neither'}")
