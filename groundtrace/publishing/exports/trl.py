"""Exports to TRL: conversations whose contents are lists of text parts and image parts.

The contents are not plain strings, because TRL 1.16 (``prepare_multimodal_messages``) puts all images before a plain
string, and also keeps the ``<image>`` marks in it. The prompt would then contain each image twice. TRL does not change
a list of parts, so each image stays at its place. For example, if the images are the frames of a clip, each image stays
directly after the text of its frame, such as ``Frame 2 (1.5 s):``.

SFT rows have ``prompt`` and ``completion``, so the loss is computed only on the completion, as in our trainer. A
trajectory (a trace in several turns with code) becomes one row for each turn of the assistant (:class:`ByAnswer`).

With ``--turns tools``, the code is in ``tool_calls``, and the result of the code is a turn of the role ``tool``. TRL
1.16 does not pass images to turns of this role. So the images of a result are in a separate turn of the role ``user``,
after the result.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from groundtrace.publishing.exports.base import MARK, ExportFormat, ExportRow, Target
from groundtrace.publishing.exports.client import reward_client
from groundtrace.publishing.exports.records import IMAGES, TURN_IN_PARTS, TURNS_IN_PARTS, in_parts
from groundtrace.publishing.exports.tools import CALLS, SANDBOX, SCHEMAS, tool_calls
from groundtrace.publishing.exports.writers import ParquetWriter, Record, embedded
from groundtrace.publishing.rewards.reference import COLUMN
from groundtrace.schemas.arrow import hub_schema

SFT = hub_schema([("id", pa.string()), ("prompt", TURNS_IN_PARTS), ("completion", TURNS_IN_PARTS), IMAGES])
_CALLED = pa.list_(pa.struct([*TURN_IN_PARTS, ("tool_calls", CALLS)]))
SFT_TOOLS = hub_schema(
    [("id", pa.string()), ("prompt", _CALLED), ("completion", _CALLED), IMAGES, ("tools", pa.string())]
)
_RL = (
    ("id", pa.string()),
    ("stream", pa.string()),
    ("prompt", TURNS_IN_PARTS),
    IMAGES,
    ("answer", pa.string()),
    (COLUMN, pa.string()),
)
RL, RL_TOOLS = hub_schema(_RL), hub_schema([*_RL, (SANDBOX, pa.string())])


def open_sft(folder: Path, target: Target) -> ParquetWriter:
    """Open a writer that writes SFT rows for ``SFTTrainer``, to ``sft.parquet`` in ``folder``.

    ``target`` describes the model to be trained, and whether code is written as tool calls.
    """
    if target.has_tools:
        return ByAnswer(folder / "sft.parquet", SFT_TOOLS, called_record)
    return ByAnswer(folder / "sft.parquet", SFT, sft_record)


class ByAnswer(ParquetWriter):
    """Writes an SFT row with several turns as several rows: one for each turn of the assistant.

    In each written row, the completion is one turn of the assistant, and the prompt is all turns before it. A
    completion must not have several turns, since ``SFTTrainer`` computes its loss on the whole completion. With several
    turns, the completion would contain the results of code, and the model would also learn to predict these results.
    """

    def write(self, rows: Sequence[ExportRow]) -> None:
        """Write the rows of one question; each becomes one row for each turn of the assistant.

        Raises LeftOut if one of the rows cannot be written. In this case, none of them is written.
        """
        super().write([each for row in rows for each in by_answer(row)])


def by_answer(row: ExportRow) -> list[ExportRow]:
    """Split a row into one row for each turn of the assistant, and return these rows.

    The row for a turn holds all turns up to this turn, and the images that these turns show.
    """
    found = []
    for number, turn in enumerate(row.turns, 1):
        if turn["role"] == "assistant":
            turns = row.turns[:number]
            shown = sum(each["content"].count(MARK) for each in turns if each["role"] != "assistant")
            found.append(replace(row, turns=turns, images=row.images[:shown]))
    return found


def open_rl(folder: Path, target: Target) -> ParquetWriter:
    """Open a writer that writes RL rows for ``GRPOTrainer``, to ``rl.parquet`` in ``folder``.

    ``target`` describes the run, the model to be trained, and whether code is written as tool calls. ``GRPOTrainer``
    passes the column ``groundtrace`` to its ``reward_funcs``.
    """

    def record(row: ExportRow) -> Record:
        return {
            "id": row.id,
            "stream": row.stream or None,
            "prompt": in_parts(row),
            "images": embedded(row.images),
            "answer": row.text("answer"),
            COLUMN: row.reference(target),
        }

    def called(row: ExportRow) -> Record:
        return {**record(row), SANDBOX: target.sandbox}

    if target.has_tools:
        return ParquetWriter(folder / "rl.parquet", RL_TOOLS, called)
    return ParquetWriter(folder / "rl.parquet", RL, record)


def sft_record(row: ExportRow) -> Record:
    """Convert an SFT row to the columns that ``SFTTrainer`` reads: ``prompt`` and ``completion`` (the last turn)."""
    turns = in_parts(row)
    return {"id": row.id, "prompt": turns[:-1], "completion": turns[-1:], "images": embedded(row.images)}


def called_record(row: ExportRow) -> Record:
    """Convert an SFT row to the columns that ``SFTTrainer`` reads, with the code of the turns as tool calls.

    ``prompt`` holds all turns but the last one, and ``completion`` holds the last turn. The code of a turn is in its
    ``tool_calls``. Images that the code displayed are put in a user turn of their own after the result of the call.
    """
    turns = list[dict[str, object]]()
    for turn, parts in zip(row.turns, in_parts(row), strict=True):
        called, shown = {**parts, "tool_calls": tool_calls(turn)}, turn["content"].count(MARK)
        if turn["role"] == "tool" and shown:
            text = turn["content"].removesuffix(MARK * shown).rstrip("\n")
            turns.append({**called, "content": [{"type": "text", "text": text}]})
            called |= {"role": "user", "content": [{"type": "image", "text": None}] * shown}
        turns.append(called)
    images = embedded(row.images)
    return {"id": row.id, "prompt": turns[:-1], "completion": turns[-1:], "images": images, "tools": SCHEMAS}


TRL = ExportFormat(
    name="trl",
    does="prompts and completions for TRL's SFTTrainer, and prompts with a reference for its GRPOTrainer",
    open={"sft": open_sft, "rl": open_rl},
    drops_added=("sft", "rl"),
    beside=reward_client,
    takes_tools=True,
)
