"""ms-swift: Parquet with ``messages`` that hold one ``<image>`` for each of ``images``.

The file holds the bytes of the images, so it can be moved; swift reads Parquet and JSON lines alike. The schema does
not declare the images to ``datasets``, since swift needs their bytes and not decoded images. Coordinates are in the
texts, in the family's frame, so there is no column ``objects``. swift passes the column ``groundtrace`` to the reward.
"""

from pathlib import Path

import pyarrow as pa

from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target
from groundtrace.publishing.exports.client import reward_client
from groundtrace.publishing.exports.records import IMAGES, TURNS_WITH_MARKS
from groundtrace.publishing.exports.writers import ParquetWriter, Record, embedded
from groundtrace.publishing.rewards.reference import COLUMN

SFT = pa.schema([("messages", TURNS_WITH_MARKS), IMAGES])
RL = pa.schema([("messages", TURNS_WITH_MARKS), IMAGES, ("solution", pa.string()), (COLUMN, pa.string())])


def open_sft(folder: Path, target: Target) -> ParquetWriter:
    """Opens the writer of rows for ``swift sft``."""
    return ParquetWriter(folder / "sft.parquet", SFT, _record)


def open_rl(folder: Path, target: Target) -> ParquetWriter:
    """Opens the writer of rows for ``swift rlhf --rlhf_type grpo``."""

    def record(row: ExportRow) -> Record:
        return {**_record(row), "solution": row.text("answer"), COLUMN: row.reference(target)}

    return ParquetWriter(folder / "rl.parquet", RL, record)


def _record(row: ExportRow) -> Record:
    return {"messages": list(row.turns), "images": embedded(row.images)}


SWIFT = ExportFormat(
    name="swift",
    does="Parquet for ms-swift's SFT and GRPO",
    open={"sft": open_sft, "rl": open_rl},
    beside=reward_client,
)
