"""Defines the types of an export: its format, its rows, its writers, and its target.

The target is the destination of the rows and the model that will be trained on them.
"""

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

In the rendering :data:`TOOLS` the result of a call is a turn of the role ``tool``, and the calling turn holds its code
under the key ``code``.
"""


@dataclass(frozen=True)
class Target:
    """Describes the destination of the exported rows, and the model that will be trained on them.

    Attributes:
        output: the final folder of the export, as an absolute path.
        run: the path of the run folder from which a reward will read the rows.
        family: the name of the family (models that write coordinates in the same form) of the model to be trained.
        speech: the way in which that model writes coordinates.
        added: the columns for training that the recipe's stages added to the run's RL rows, with their types.
        turns: the form of code in trajectories: :data:`TAGS` (in tags) or :data:`TOOLS` (as tool calls).
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
        """Return whether trajectories are rendered as tool calls."""
        return self.turns == TOOLS


@dataclass(frozen=True)
class ExportRow:
    """Holds a row of a shard, ready to be written in some format.

    Attributes:
        side: sft or rl.
        number: the index of the row in its side, in the order of the shards. The rows of a question's streams share one
        number.
        fields: the row's columns, without the bytes of its images.
        turns: the row's ``messages`` (sft) or ``prompt`` (rl). Coordinates in the assistant's turns are in the frame
        (pixels, 0–1 or 0–1000) of the target's family.
        images: one image for each image mark in the turns, in order.
        stream: the name of the stream, which is one of several prompts of a question (iVGR §3.2); "" without streams.
    """

    side: str
    number: int
    fields: Mapping[str, Any]
    turns: tuple[Turn, ...]
    images: tuple[UprightImage, ...]
    stream: str = ""

    @property
    def id(self) -> str:
        """Return the id of the row's question. Raises LeftOut if it is null."""
        return self.text("id")

    @property
    def kept_text(self) -> str:
        """Return the kept trace of an SFT row, unchanged from the shard. Its coordinates are original pixels."""
        return self.fields["messages"][-1]["content"]

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Return the (width, height) in px of each still image, or one entry for all frames of a clip."""
        sizes = [(image.width, image.height) for image in self.images]
        return sizes[:1] if self.fields.get("frames") else sizes

    def text(self, column: str) -> str:
        """Return the text of the column. Raises LeftOut if it is null."""
        found = self.fields.get(column)
        if not isinstance(found, str):
            raise LeftOut("missing_text", column)
        return found

    def reference(self, target: Target) -> str:
        """Return the reference by which a reward finds the row, as JSON.

        :mod:`groundtrace.publishing.rewards.reference` defines its fields. Raises LeftOut if the id or the gold answer
        is null.
        """
        return RowReference(self.id, self.text("answer"), target.run, target.family, self.stream).text()


class Writer(Protocol):
    """Writes the rows of a side (sft or rl) to files. Memory holds at most one block of rows."""

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write the rows of one question: one row, or one row for each of its streams.

        Raises LeftOut if the format cannot represent one of the rows. In this case, no row of the question is written.
        """

    def close(self) -> None:
        """Close the files. If no row was written, no file exists."""


def anything(run: Path) -> None:
    """Accept every run. This is the check of a format that has no requirements."""


@dataclass(frozen=True)
class ExportFormat:
    """Defines an export format. Each format is in a file of its own, and is registered in
    :data:`groundtrace.publishing.exports.registry.FORMATS`.

    Attributes:
        name: the name for ``--format``.
        does: a short description of the files that the format writes, and of the program that reads them.
        open: for each supported side (sft, rl), the function that opens a writer in a folder.
        beside: a function that returns the texts of further files by file name. Its argument is the number of written
        rows of each side.
        check: a function that raises ExportError for a run folder that the format cannot export.
        marks_are_text: whether the reader treats ``<image>`` as plain text, so that a row's text may contain it.
        unread: core columns of the shards that the format does not use.
        is_for_training: whether the format is for trainers. If so, it leaves out columns that stages added for other
        purposes than training.
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
        """Raise ExportError for an unknown side, or if ``open`` is empty."""
        if not self.open or not {*self.open} <= {"sft", "rl"}:
            raise ExportError(
                f"the attribute 'open' of the format {self.name} must have the key 'sft' or 'rl' or both, and no other "
                f"key, but has {', '.join(self.open) or 'none'}"
            )
