"""Defines the types of an export: its format, its rows, its writers, and its target.

An export writes the rows of a run in the format of another trainer. The target describes where the rows are written,
and which model will be trained on them.
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
"""The text in a shard's user turn that shows the position of an image."""
NOT_EXPORTED = ("overlays", "attempts", "verdicts", "lineage")
"""Columns that no trainer reads. They are not read from the shards, unless a format sets ``unread`` differently."""

TAGS, TOOLS = "tags", "tools"
"""The two ways to write the code of a trajectory (a trace in several turns with code).

The code is written either in tags, as in the paper CodeDance, or as tool calls.
"""

Turn = Mapping[str, str]
"""A turn of a conversation: its ``role`` and ``content``.

If code is written as tool calls (:data:`TOOLS`), the result of a call is a turn with the role ``tool``, and the turn
that makes the call holds its code under the key ``code``.
"""


@dataclass(frozen=True)
class Target:
    """Describes where the exported rows are written, and which model will be trained on them.

    Attributes:
        output: the final folder of the export, as an absolute path.
        run: the path of the run folder from which a reward will read the rows.
        family: the family of the model to be trained. Models of a family write coordinates in the same form.
        speech: how that model writes coordinates: its coordinate frame (such as 0 to 1000), the number of decimals, and
            the rule by which its processor resizes images. In some frames, coordinates are pixels of the resized image.
        added: columns that stages (steps of the pipeline) added to the run's RL rows for training, such as rubrics. The
            mapping holds the type of each column by its name.
        turns: how the code in trajectories (traces in several turns with code) is written: :data:`TAGS` (in tags) or
            :data:`TOOLS` (as tool calls).
        sandbox: the limits under which the run executed code, as JSON. It is "" if ``turns`` is :data:`TAGS`.
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
        """Return whether the code of trajectories (traces in several turns with code) is written as tool calls."""
        return self.turns == TOOLS


@dataclass(frozen=True)
class ExportRow:
    """Holds a row of a shard (Parquet file of a run), prepared for all export formats.

    Attributes:
        side: the training set of the row: sft or rl.
        number: the index of the row in its training set, in the order of the shards. If one row of a shard becomes
            several export rows (one for each stream), all of them have the number of the row of the shard.
        fields: the row's columns by name, without the bytes of its images.
        turns: the row's ``messages`` (sft) or ``prompt`` (rl). The assistant's turns have coordinates in the frame
            (pixels, 0–100 or 0–1000) of the model to be trained.
        images: one image for each ``<image>`` in the turns, in order.
        stream: which of several prompts of the same question the row has (iVGR §3.2 calls them streams); "" if the
            question has a single prompt.
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
        """Return the trace (reasoning with answer) of an SFT row as the shard (Parquet file of the run) holds it, with
        coordinates in pixels.
        """
        return self.fields["messages"][-1]["content"]

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Return the (width, height) in px of each still image.

        If the images are the frames of a clip, return a single entry, because all frames have the same size.
        """
        sizes = [(image.width, image.height) for image in self.images]
        return sizes[:1] if self.fields.get("frames") else sizes

    def text(self, column: str) -> str:
        """Return the text in a column of the row. Raises LeftOut if it is null or missing."""
        found = self.fields.get(column)
        if not isinstance(found, str):
            raise LeftOut("missing_text", column)
        return found

    def reference(self, target: Target) -> str:
        """Return the row's reference: JSON text by which a reward finds the row in its run.

        ``target`` holds the path of the run and the family of the model, which defines how coordinates are written.
        :mod:`groundtrace.publishing.rewards.reference` defines the fields of the JSON. Raises LeftOut if the id or the
        gold answer is null.
        """
        return RowReference(self.id, self.text("answer"), target.run, target.family, self.stream).text()


class Writer(Protocol):
    """Writes the rows of a training set (sft or rl) to files. It keeps at most one block of rows in memory."""

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write the rows of one question: one row, or one row for each of its streams (prompts).

        Raises LeftOut if the format cannot represent one of the rows. In this case, no row of the question is written.
        """

    def close(self) -> None:
        """Write the rows that are still in memory, and close the files. If no row was written, no file exists."""


def anything(run: Path) -> None:
    """Do nothing, so that every run folder is accepted. An export format without requirements on runs uses this
    function as its ``check``.
    """


@dataclass(frozen=True)
class ExportFormat:
    """Defines an export format: which files it writes, and which rows it supports.

    Each format is in a file of its own, and is registered in :data:`groundtrace.publishing.exports.registry.FORMATS`.

    Attributes:
        name: the name for ``--format``.
        does: a short description of the files that the format writes, and of the program that reads them.
        open: for each training set that the format supports (sft, rl), the function that opens a writer in a folder.
        beside: a function that returns further files to write next to the rows, such as a client of the reward server.
            It returns a mapping from file names to texts. Its argument is the number of written rows of each training
            set.
        check: a function that raises ExportError for a run folder that the format cannot export.
        marks_are_text: whether the program that reads the files treats ``<image>`` as plain text, so that a question
            may contain it.
        unread: columns that every run has and that the format does not use.
        is_for_training: whether the format is for trainers. If True, the export leaves out columns that a stage (a step
            of the pipeline) added for other purposes than training.
        takes_tools: whether the format can write the code of trajectories (traces in several turns with code) as tool
            calls (:data:`TOOLS`).
        drops_added: the training sets (sft, rl) whose files have no place for columns that stages or the input added.
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
    drops_added: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ExportError if the mapping ``open`` is empty, or has a key other than sft and rl.

        ``open`` maps the name of each training set that the format supports to a function that opens a writer.
        """
        if not self.open or not {*self.open} <= {"sft", "rl"}:
            raise ExportError(
                f"the attribute 'open' of the format {self.name} must have the key 'sft', 'rl' or both, and no other "
                f"key. Its keys are: {', '.join(self.open) or 'none'}"
            )
