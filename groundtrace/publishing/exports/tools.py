"""Writes the code of trajectories as tool calls (``--turns tools``), for all formats that support tool calls.

A trajectory is a trace in several turns with code. A shard (Parquet file of the run) holds the code in tags, as in the
paper CodeDance. Each format writes the turns as its trainer expects them. In the prompt, the instruction to write code
in tags is replaced by an instruction to call the tool. Each row has the tool's JSON schema.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from groundtrace.grading.question_text import CODE, INSTRUCTIONS, TOOL_INSTRUCTION
from groundtrace.grading.responses.turns import TOOL, TOOL_SCHEMA, with_code_apart
from groundtrace.publishing.exports.base import Turn
from groundtrace.publishing.exports.errors import LeftOut
from groundtrace.publishing.reading import read_config

SCHEMAS = json.dumps([TOOL_SCHEMA])
"""The value of the column ``tools`` for trainers that read it as JSON."""
CALLS = pa.list_(
    pa.struct(
        [
            ("type", pa.string()),
            ("function", pa.struct([("name", pa.string()), ("arguments", pa.struct([("code", pa.string())]))])),
        ]
    )
)
"""The Arrow type of the column ``tool_calls``, in OpenAI's form."""
SANDBOX = "sandbox"
"""The column of an RL row that holds the limits under which its code may be executed."""
_OF_THE_MACHINE = ("sessions", "warm")
_MARK = re.compile(r"</?(?:tool_call|tool_response|tools)\s*>", re.IGNORECASE)


def tool_turns(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return the turns of a conversation with tool calls instead of code in tags.

    The code of each turn is moved to the key ``code``. In the first turn, the instruction to write code is replaced by
    an instruction to call the tool. Raises LeftOut if the first turn has no such instruction, or if a text already
    contains a special token such as ``<tool_call>``.
    """
    if mark := next((found.group() for turn in turns for found in _MARK.finditer(turn["content"])), ""):
        raise LeftOut("control_token", mark)
    asked, *rest = turns
    before, instruction, after = asked["content"].rpartition(INSTRUCTIONS[CODE])
    if not instruction:
        raise LeftOut("no_code_asked")
    return ({**asked, "content": f"{before}{TOOL_INSTRUCTION}{after}"}, *with_code_apart(rest))


def tool_calls(turn: Turn) -> list[dict[str, Any]] | None:
    """Return the tool call of a turn in OpenAI's form, as a list with one item; None if the turn has no code.

    ``turn`` is a turn of a conversation. If it calls the tool, it holds the call's code under the key ``code``.
    """
    if "code" not in turn:
        return None
    return [{"type": "function", "function": {"name": TOOL, "arguments": {"code": turn["code"]}}}]


def sandbox_limits(run: Path) -> str:
    """Return the limits of the sandbox (which executes code) in the run's config, as JSON.

    Settings that concern only the machine of the run are left out. Raises InspectError for a damaged config.
    """
    limits = read_config(run).get("sandbox", {})
    return json.dumps({name: value for name, value in limits.items() if name not in _OF_THE_MACHINE})
