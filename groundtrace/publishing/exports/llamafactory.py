"""Exports to LLaMA-Factory: conversations as JSON Lines, images as files, and ``dataset_info.json`` about both.

Image paths are relative to the export folder, since LLaMA-Factory's ``media_dir`` defaults to its ``dataset_dir``.
LLaMA-Factory has no GRPO, so only SFT rows are written.

With ``--turns tools`` a turn that calls the tool has the role ``function_call``, and the result of the call has the
role ``observation``. The call is at the end of the turn's text, between ``<tool_call>`` tags, where LLaMA-Factory 0.9.5
finds it.
"""

import json
from pathlib import Path
from typing import Any

from groundtrace.grading.responses.turns import as_tool_call
from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target, Turn
from groundtrace.publishing.exports.tools import SCHEMAS
from groundtrace.publishing.exports.writers import LinesWriter, Record

DATASET = "groundtrace"
FILE = "sft.jsonl"
CALL, RESULT = "function_call", "observation"
COLUMNS = {"messages": "messages", "images": "images"}
ROLE_TAGS = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}


def open_sft(folder: Path, target: Target) -> LinesWriter:
    """Open a writer that writes SFT rows for ``stage: sft`` to ``folder``. Also write ``dataset_info.json`` there.

    ``target`` describes the model to be trained, and whether code is written as tool calls.
    """
    (folder / "dataset_info.json").write_text(dataset_info(target.has_tools), "utf-8")
    return LinesWriter(folder / FILE, _called if target.has_tools else _record)


def dataset_info(has_tools: bool) -> str:
    """Return the text of ``dataset_info.json``, which LLaMA-Factory needs to read the rows.

    ``has_tools`` is True if the code of trajectories (traces in several turns with code) is written as tool calls.
    """
    info: dict[str, Any] = {"file_name": FILE, "formatting": "sharegpt", "columns": COLUMNS, "tags": ROLE_TAGS}
    if has_tools:
        info["columns"] = COLUMNS | {"tools": "tools"}
        info["tags"] = ROLE_TAGS | {"observation_tag": RESULT, "function_tag": CALL}
    return json.dumps({DATASET: info}, indent=2) + "\n"


def _record(row: ExportRow, images: list[str]) -> Record:
    return {"id": row.id, "messages": list(row.turns), "images": images}


def _called(row: ExportRow, images: list[str]) -> Record:
    turns = [_tagged(turn) for turn in row.turns]
    return {"id": row.id, "messages": turns, "images": images, "tools": SCHEMAS}


def _tagged(turn: Turn) -> Turn:
    """Return the turn of a conversation with the role (such as ``observation``) that LLaMA-Factory uses for it."""
    role = CALL if "code" in turn else RESULT if turn["role"] == "tool" else turn["role"]
    return as_tool_call(turn) | {"role": role}


LLAMAFACTORY = ExportFormat(
    name="llamafactory",
    does="conversations for LLaMA-Factory's SFT, with dataset_info.json",
    open={"sft": open_sft},
    drops_added=("sft",),
    takes_tools=True,
)
