"""Exports to verl: Parquet for ``RLHFDataset`` and ``MultiTurnSFTDataset``, with ``<image>`` in place of each image.

``reward_model.ground_truth`` is the row's reference: JSON text by which Groundtrace's reward finds the row in its run.
``extra_info`` holds the reference as well, and the data that a user's own verifier may need:

- the question, its gold answer, choices and boxes;
- the stream: which of several prompts of the question the row has;
- ``question_prompts``: the number of export rows with this question;
- the sizes of the images;
- the columns that stages (steps of the pipeline) added, such as rubrics.

verl adds further keys to ``extra_info``.

With ``--turns tools``, the rows hold further data. SFT rows have the column ``tools``, and each of their messages has
the field ``tool_calls``. RL rows have the column ``agent_name``, which selects verl's tool agent. Their ``extra_info``
has the fields ``need_tools_kwargs`` and ``tools_kwargs``. ``tools_kwargs`` holds the row's reference, and the limits of
the sandbox that executes code. verl passes the reference and the limits to the method ``create`` of the tool
``execute_python_code``.
"""

from pathlib import Path

import pyarrow as pa

from groundtrace.grading.responses.turns import TOOL, TOOL_SCHEMA
from groundtrace.publishing.exports.base import ExportFormat, ExportRow, Target
from groundtrace.publishing.exports.client import reward_client
from groundtrace.publishing.exports.records import IMAGES, TURNS_WITH_MARKS
from groundtrace.publishing.exports.streams import COLUMNS as STREAMS
from groundtrace.publishing.exports.tools import CALLS, SANDBOX, tool_calls
from groundtrace.publishing.exports.writers import ParquetWriter, Record, embedded
from groundtrace.publishing.rewards.reference import COLUMN
from groundtrace.schemas.arrow import BOX, TURN, hub_schema

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
"""The core columns of a shard (Parquet file of the run) that are copied into ``extra_info``, with their types.

``extra_info`` is a column of the exported RL rows.
"""
OWN = {
    "index": pa.string(),
    "split": pa.string(),
    "stream": pa.string(),
    "question_prompts": pa.int32(),
    COLUMN: pa.string(),
    "family": pa.string(),
    "run": pa.string(),
    "image_sizes_px": pa.list_(SIZE),
}
"""The fields of ``extra_info`` that are no core columns of the shard, with their types.

A column that a stage added is left out of ``extra_info`` if it has the name of one of these fields."""
_ARGUMENTS = pa.struct([(COLUMN, pa.string()), (SANDBOX, pa.string())])
OF_TOOLS = {
    "need_tools_kwargs": pa.bool_(),
    "tools_kwargs": pa.struct([(TOOL, pa.struct([("create_kwargs", _ARGUMENTS)]))]),
}
"""Further fields of ``extra_info``, with their types.

The rows have these fields only if the code of trajectories (traces in several turns with code) is written as tool
calls.
"""
AGENT = "tool_agent"
"""verl's name of the agent loop that calls tools."""
SFT = hub_schema([("id", pa.string()), ("messages", TURNS_WITH_MARKS), IMAGES])
_CALLED = pa.list_(pa.struct([*TURN, ("tool_calls", CALLS)]))
SFT_TOOLS = hub_schema([("id", pa.string()), ("messages", _CALLED), IMAGES, ("tools", pa.array([[TOOL_SCHEMA]]).type)])


def extra_info_columns(target: Target) -> dict[str, pa.DataType]:
    """Return the columns that are copied from the shards into the exported ``extra_info``: their types by name.

    A shard is a Parquet file of the run. ``target`` holds the columns that stages (steps of the pipeline) added to the
    shards. The columns about streams (several prompts of a question) are left out, because the field ``stream``
    replaces them. An added column with the name of one of the export's own fields (:data:`OWN`) is left out, too.
    """
    own = (*OWN, *OF_TOOLS) if target.has_tools else OWN
    added = {name: kind for name, kind in target.added.items() if name not in (*own, *STREAMS)}
    return EXTRA_INFO | added


def rl_schema_of(target: Target) -> pa.Schema:
    """Return the Arrow schema of the exported RL rows.

    ``target`` holds the columns that stages (steps of the pipeline) added to the run's rows. It also determines whether
    code is written as tool calls, which need further columns.
    """
    own, agent = (OWN | OF_TOOLS, [("agent_name", pa.string())]) if target.has_tools else (OWN, [])
    return hub_schema(
        [
            ("data_source", pa.string()),
            ("prompt", TURNS_WITH_MARKS),
            IMAGES,
            ("ability", pa.string()),
            ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
            ("extra_info", pa.struct([*own.items(), *extra_info_columns(target).items()])),
            *agent,
        ]
    )


def open_sft(folder: Path, target: Target) -> ParquetWriter:
    """Open a writer that writes SFT rows for verl's SFT trainer, to ``sft.parquet`` in ``folder``.

    ``target`` describes the model to be trained, and whether code is written as tool calls.
    """
    if target.has_tools:
        return ParquetWriter(folder / "sft.parquet", SFT_TOOLS, _called_record)
    return ParquetWriter(folder / "sft.parquet", SFT, _sft_record)


def open_rl(folder: Path, target: Target) -> ParquetWriter:
    """Open a writer that writes RL rows for verl's RL trainers, to ``rl.parquet`` in ``folder``.

    ``target`` describes the run, the model to be trained, and whether code is written as tool calls.
    """
    repeated = extra_info_columns(target)

    def record(row: ExportRow) -> Record:
        reference = row.reference(target)
        sizes = [{"width": image.width, "height": image.height} for image in row.images]
        repeats = {name: row.fields.get(name) for name in repeated}
        known = {"index": row.id, "split": "train", "stream": row.stream or None, COLUMN: reference}
        known |= {"family": target.family, "run": target.run}
        known["question_prompts"] = len(row.fields.get("streams") or ()) or 1  # rows that ask the same question
        return {
            "data_source": row.fields.get("source") or "groundtrace",
            "prompt": list(row.turns),
            "images": embedded(row.images),
            "ability": row.fields.get("answer_type"),
            "reward_model": {"style": "rule", "ground_truth": reference},
            "extra_info": known | {"image_sizes_px": sizes} | repeats,
        }

    def called(row: ExportRow) -> Record:
        found = record(row)
        arguments = {COLUMN: found["extra_info"][COLUMN], SANDBOX: target.sandbox}
        of_tools = {"need_tools_kwargs": True, "tools_kwargs": {TOOL: {"create_kwargs": arguments}}}
        return {**found, "extra_info": found["extra_info"] | of_tools, "agent_name": AGENT}

    return ParquetWriter(folder / "rl.parquet", rl_schema_of(target), called if target.has_tools else record)


def _sft_record(row: ExportRow) -> Record:
    return {"id": row.id, "messages": list(row.turns), "images": embedded(row.images)}


def _called_record(row: ExportRow) -> Record:
    turns = [{**turn, "tool_calls": tool_calls(turn)} for turn in row.turns]
    return {"id": row.id, "messages": turns, "images": embedded(row.images), "tools": [TOOL_SCHEMA]}


VERL = ExportFormat(
    name="verl",
    does="Parquet for verl's RLHFDataset, with all that a verifier needs in extra_info, and for its SFT trainer",
    open={"sft": open_sft, "rl": open_rl},
    drops_added=("sft",),
    beside=reward_client,
    takes_tools=True,
)
