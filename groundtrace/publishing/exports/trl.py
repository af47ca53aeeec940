"""TRL: conversations whose contents are lists of text parts and image parts.

If a content is a plain string, TRL (``prepare_multimodal_messages`` of 1.16) puts all images before it and keeps its
``<image>`` marks, so each image would be there twice. TRL uses a list of parts unchanged, which also keeps each frame
of a clip after its number and time. SFT rows have ``prompt`` and ``completion``, so the loss counts only the
completion, as in our trainer.
"""

from pathlib import Path

import pyarrow as pa

from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target
from groundtrace.publishing.exports.client import reward_client
from groundtrace.publishing.exports.records import IMAGES, TURNS_IN_PARTS, in_parts
from groundtrace.publishing.exports.writers import ParquetWriter, Record, embedded
from groundtrace.publishing.rewards.reference import COLUMN
from groundtrace.schemas.arrow import hub_schema

SFT = hub_schema([("id", pa.string()), ("prompt", TURNS_IN_PARTS), ("completion", TURNS_IN_PARTS), IMAGES])
RL = hub_schema(
    [
        ("id", pa.string()),
        ("stream", pa.string()),
        ("prompt", TURNS_IN_PARTS),
        IMAGES,
        ("answer", pa.string()),
        (COLUMN, pa.string()),
    ]
)


def open_sft(folder: Path, target: Target) -> ParquetWriter:
    """Opens the writer of rows for ``SFTTrainer``."""
    return ParquetWriter(folder / "sft.parquet", SFT, sft_record)


def open_rl(folder: Path, target: Target) -> ParquetWriter:
    """Opens the writer of rows for ``GRPOTrainer``, which passes the column ``groundtrace`` to its ``reward_funcs``."""

    def record(row: ExportRow) -> Record:
        return {
            "id": row.id,
            "stream": row.stream or None,
            "prompt": in_parts(row),
            "images": embedded(row.images),
            "answer": row.text("answer"),
            COLUMN: row.reference(target),
        }

    return ParquetWriter(folder / "rl.parquet", RL, record)


def sft_record(row: ExportRow) -> Record:
    """Returns an SFT row as ``prompt`` and ``completion``."""
    turns = in_parts(row)
    return {"id": row.id, "prompt": turns[:-1], "completion": turns[-1:], "images": embedded(row.images)}


TRL = ExportFormat(
    name="trl",
    does="prompts and completions for TRL's SFTTrainer, and prompts with a reference for its GRPOTrainer",
    open={"sft": open_sft, "rl": open_rl},
    beside=reward_client,
)
