"""LLaMA-Factory: JSON lines of conversations, images as files, and the ``dataset_info.json`` that describes them.

Image paths are relative to the export folder; LLaMA-Factory's ``media_dir`` defaults to its ``dataset_dir``. It has no
GRPO, so only SFT rows are written.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target
from groundtrace.publishing.exports.writers import LinesWriter, Record

DATASET = "groundtrace"
FILE = "sft.jsonl"
INFO = {
    "file_name": FILE,
    "formatting": "sharegpt",
    "columns": {"messages": "messages", "images": "images"},
    "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"},
}


def open_sft(folder: Path, target: Target) -> LinesWriter:
    """Opens the writer of rows for ``stage: sft``."""
    return LinesWriter(folder / FILE, _record)


def _record(row: ExportRow, images: list[str]) -> Record:
    return {"id": row.id, "messages": list(row.turns), "images": images}


def dataset_info(written: Mapping[str, int]) -> Mapping[str, str]:
    """Returns the text of ``dataset_info.json``."""
    return {"dataset_info.json": json.dumps({DATASET: INFO}, indent=2) + "\n"}


LLAMAFACTORY = ExportFormat(
    name="llamafactory",
    does="conversations for LLaMA-Factory's SFT, with dataset_info.json",
    open={"sft": open_sft},
    beside=dataset_info,
)
