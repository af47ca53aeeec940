"""Exports to ms-swift: Parquet whose main columns are ``messages`` and ``images``.

The messages contain one mark ``<image>`` for each image of the row. The file holds the bytes of the images, so it can
be moved. The schema does not declare the images to the library ``datasets``, since swift needs their bytes and not
decoded images. Coordinates are in the texts, in the frame (pixels, 0–100 or 0–1000) of the model to be trained. So
swift's own column for coordinates, ``objects``, is not used.

swift passes the column ``groundtrace`` to the reward. This column is the row's reference: JSON text by which the reward
finds the row. The column ``id`` is only for people who read the file. swift drops this column, or keeps it without
using it if ``--remove_unused_columns false`` is given.

With ``--turns tools``, a turn with text and a call becomes two messages: the text, and then the call, with the role
``tool_call``. The call's result is a message of the role ``tool_response``. The column ``tools`` describes the tool as
JSON text. swift's agent template renders the tool, its calls and their results in the model's own form.
"""

from pathlib import Path

import pyarrow as pa

from groundtrace.grading.responses.turns import call_of
from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target, Turn
from groundtrace.publishing.exports.client import reward_client
from groundtrace.publishing.exports.records import IMAGES, TURNS_WITH_MARKS
from groundtrace.publishing.exports.tools import SANDBOX, SCHEMAS
from groundtrace.publishing.exports.writers import ParquetWriter, Record, embedded
from groundtrace.publishing.rewards.reference import COLUMN

_SFT = (("id", pa.string()), ("messages", TURNS_WITH_MARKS), IMAGES)
_RL = (*_SFT, ("solution", pa.string()), (COLUMN, pa.string()))
_TOOLS = ("tools", pa.string())
SFT, SFT_TOOLS = pa.schema(_SFT), pa.schema([*_SFT, _TOOLS])
RL, RL_TOOLS = pa.schema(_RL), pa.schema([*_RL, _TOOLS, (SANDBOX, pa.string())])


def open_sft(folder: Path, target: Target) -> ParquetWriter:
    """Open a writer that writes SFT rows for ``swift sft``, to ``sft.parquet`` in ``folder``.

    ``target`` describes the model to be trained, and whether code is written as tool calls.
    """
    if target.has_tools:
        return ParquetWriter(folder / "sft.parquet", SFT_TOOLS, _called)
    return ParquetWriter(folder / "sft.parquet", SFT, _record)


def open_rl(folder: Path, target: Target) -> ParquetWriter:
    """Open a writer that writes RL rows for ``swift rlhf --rlhf_type grpo``, to ``rl.parquet`` in ``folder``.

    ``target`` describes the run, the model to be trained, and whether code is written as tool calls.
    """

    def record(row: ExportRow) -> Record:
        return {**_record(row), "solution": row.text("answer"), COLUMN: row.reference(target)}

    def called(row: ExportRow) -> Record:
        return {**record(row), "tools": SCHEMAS, SANDBOX: target.sandbox}

    if target.has_tools:
        return ParquetWriter(folder / "rl.parquet", RL_TOOLS, called)
    return ParquetWriter(folder / "rl.parquet", RL, record)


def _record(row: ExportRow) -> Record:
    return {"id": row.id, "messages": list(row.turns), "images": embedded(row.images)}


def _called(row: ExportRow) -> Record:
    turns = [each for turn in row.turns for each in _calls_apart(turn)]
    return {"id": row.id, "messages": turns, "images": embedded(row.images), "tools": SCHEMAS}


def _calls_apart(turn: Turn) -> list[Turn]:
    """Return the messages of a turn. A turn with text and code becomes two messages; any other turn becomes one.

    The first of the two messages is the text, which ends with a line end, as in Qwen's chat template. The second one is
    the code.
    """
    if "code" in turn:
        text = [{"role": "assistant", "content": f"{turn['content']}\n"}] if turn["content"] else []
        return [*text, {"role": "tool_call", "content": call_of(turn["code"])}]
    return [{**turn, "role": "tool_response"} if turn["role"] == "tool" else turn]


SWIFT = ExportFormat(
    name="swift",
    does="Parquet for ms-swift's SFT and GRPO",
    open={"sft": open_sft, "rl": open_rl},
    drops_added=("sft", "rl"),
    beside=reward_client,
    takes_tools=True,
)
