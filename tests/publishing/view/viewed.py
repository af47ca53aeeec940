"""Runs made by hand, for the tests of the view: shards with the rows that a test wants, beside a real run's summary."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.schemas.arrow import OTHER_TRACES, REJECTED_SCHEMA, RL_SCHEMA, SFT_SCHEMA

TURNS = pa.list_(
    pa.struct(
        [
            ("text", pa.string()),
            ("code", pa.string()),
            ("status", pa.string()),
            ("output", pa.string()),
            ("images", pa.int32()),
        ]
    )
)
"""The column of a trajectory's turns, which the stages of executable_cot declare."""
SCHEMAS = {"sft": SFT_SCHEMA, "rl": RL_SCHEMA, "rejected": REJECTED_SCHEMA}


def image(width_px: int = 40, height_px: int = 30, value: int = 200) -> bytes:
    """A PNG of one colour."""
    return cv2.imencode(".png", np.full((height_px, width_px, 3), value, np.uint8))[1].tobytes()


def sft_row(row_id: str, **values: Any) -> dict[str, Any]:
    """A row for SFT with one image; ``trace`` is the last message."""
    trace = values.pop("trace", "<think>It is here.</think>\n<answer>1</answer>")
    row = {"id": row_id, "source": "here", "question": "How many?", "answer": "1", "answer_type": "numeric"}
    row |= {"images": [{"bytes": image(), "path": "images/a.png"}], "pass_rate": 0.5, "k": 4}
    row["messages"] = [{"role": "user", "content": "<image>How many?"}, {"role": "assistant", "content": trace}]
    return row | values


def write_run(folder: Path, like: Path, sets: Mapping[str, Sequence[Mapping[str, Any]]], turns: bool = False) -> Path:
    """Write a run with these rows; its summary is that of the run ``like``, without the names of shards."""
    folder.mkdir()
    summary = json.loads((like / "run.json").read_text("utf-8"))
    del summary["files"]
    (folder / "run.json").write_text(json.dumps(summary), "utf-8")
    shutil.copy(like / "config.toml", folder)
    for name, rows in sets.items():
        (folder / name).mkdir()
        schema = SCHEMAS[name].append(pa.field("turns", TURNS)) if turns else SCHEMAS[name]
        if any("other_traces" in row for row in rows):
            schema = schema.append(pa.field("other_traces", OTHER_TRACES.type))
        full = [{column: row.get(column) for column in schema.names} for row in rows]
        pq.write_table(pa.Table.from_pylist(full, schema=schema), folder / name / "train-00000-of-00001.parquet")
    return folder
