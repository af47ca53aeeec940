"""verl: Parquet for ``RLHFDataset`` and ``MultiTurnSFTDataset``, with ``<image>`` at the position of each image.

``reward_model.ground_truth`` is the row's reference, the only input of our reward. ``extra_info`` holds it too, with
the fields that a user's own verifier needs: the question, its gold answer, boxes, choices, the stream, the sizes of the
images, and the added columns of the recipe's stages, such as rubrics. verl adds further keys to ``extra_info``.
"""

from pathlib import Path

import pyarrow as pa

from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target
from groundtrace.publishing.exports.client import reward_client
from groundtrace.publishing.exports.records import IMAGES, TURNS_WITH_MARKS
from groundtrace.publishing.exports.streams import COLUMNS as STREAMS
from groundtrace.publishing.exports.writers import ParquetWriter, Record, embedded
from groundtrace.publishing.rewards.reference import COLUMN
from groundtrace.schemas.arrow import BOX, hub_schema

SIZE = pa.struct([("width", pa.int32()), ("height", pa.int32())])
EXTRA_INFO = {
    "recipe": pa.string(),
    "question": pa.string(),
    "answer": pa.string(),
    "answer_type": pa.string(),
    "choices": pa.list_(pa.string()),
    "gold_boxes": pa.list_(BOX),
    "boxes_source": pa.string(),
    "entities": pa.list_(pa.string()),
    "pointable": pa.list_(pa.string()),
    "pass_rate": pa.float64(),
}
"""Core columns of the shard that ``extra_info`` repeats."""
OWN = {
    "index": pa.string(),
    "split": pa.string(),
    "stream": pa.string(),
    COLUMN: pa.string(),
    "family": pa.string(),
    "run": pa.string(),
    "image_sizes_px": pa.list_(SIZE),
}
"""The further fields of ``extra_info``; an added column of the same name does not replace them."""
SFT = hub_schema([("id", pa.string()), ("messages", TURNS_WITH_MARKS), IMAGES])


def extra_info_columns(target: Target) -> dict[str, pa.DataType]:
    """Returns the columns of the shard that ``extra_info`` repeats, without the stream columns, which ``stream``
    replaces.
    """
    added = {name: kind for name, kind in target.added.items() if name not in (*OWN, *STREAMS)}
    return EXTRA_INFO | added


def rl_schema_of(target: Target) -> pa.Schema:
    """Returns the schema of the RL rows for this target."""
    return hub_schema(
        [
            ("data_source", pa.string()),
            ("prompt", TURNS_WITH_MARKS),
            IMAGES,
            ("ability", pa.string()),
            ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
            ("extra_info", pa.struct([*OWN.items(), *extra_info_columns(target).items()])),
        ]
    )


def open_sft(folder: Path, target: Target) -> ParquetWriter:
    """Opens the writer of rows for verl's SFT trainer."""
    return ParquetWriter(folder / "sft.parquet", SFT, _sft_record)


def open_rl(folder: Path, target: Target) -> ParquetWriter:
    """Opens the writer of rows for verl's RL trainers."""
    repeated = extra_info_columns(target)

    def record(row: ExportRow) -> Record:
        reference = row.reference(target)
        sizes = [{"width": image.width, "height": image.height} for image in row.images]
        repeats = {name: row.fields.get(name) for name in repeated}
        known = {"index": row.id, "split": "train", "stream": row.stream or None, COLUMN: reference}
        known |= {"family": target.family, "run": target.run}
        return {
            "data_source": row.fields.get("source") or "groundtrace",
            "prompt": list(row.turns),
            "images": embedded(row.images),
            "ability": row.fields.get("answer_type"),
            "reward_model": {"style": "rule", "ground_truth": reference},
            "extra_info": known | {"image_sizes_px": sizes} | repeats,
        }

    return ParquetWriter(folder / "rl.parquet", rl_schema_of(target), record)


def _sft_record(row: ExportRow) -> Record:
    return {"id": row.id, "messages": list(row.turns), "images": embedded(row.images)}


VERL = ExportFormat(
    name="verl",
    does="Parquet for verl's RLHFDataset, with all that a verifier needs in extra_info, and for its SFT trainer",
    open={"sft": open_sft, "rl": open_rl},
    beside=reward_client,
)
