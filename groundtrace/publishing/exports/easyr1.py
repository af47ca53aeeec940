"""Exports RL rows to EasyR1: Parquet with ``problem``, ``answer`` and ``images``, which are EasyR1's default keys.

EasyR1 passes only the ``answer`` to the reward function, as ``ground_truth``. So the ``answer`` is not the gold answer,
but the row's reference: JSON text by which Groundtrace's reward finds the row in its run. EasyR1 has no SFT, so only RL
rows are written.
"""

from pathlib import Path

import pyarrow as pa

from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target
from groundtrace.publishing.exports.client import reward_client
from groundtrace.publishing.exports.records import IMAGES
from groundtrace.publishing.exports.writers import ParquetWriter, Record, embedded
from groundtrace.schemas.arrow import hub_schema

RL = hub_schema([("id", pa.string()), ("problem", pa.string()), ("answer", pa.string()), IMAGES])


def open_rl(folder: Path, target: Target) -> ParquetWriter:
    """Open a writer that writes RL rows for EasyR1's ``RLHFDataset``, to ``rl.parquet`` in ``folder``.

    ``target`` describes the run and the model to be trained.
    """

    def record(row: ExportRow) -> Record:
        problem = row.turns[-1]["content"]
        return {"id": row.id, "problem": problem, "answer": row.reference(target), "images": embedded(row.images)}

    return ParquetWriter(folder / "rl.parquet", RL, record)


EASYR1 = ExportFormat(
    name="easyr1",
    does="Parquet for EasyR1, whose answer is the reference that its reward function is given",
    open={"rl": open_rl},
    drops_added=("rl",),
    beside=reward_client,
)
