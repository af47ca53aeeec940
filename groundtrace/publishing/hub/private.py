"""Removes private data of the run's owner from rows and files before they are published.

Private data are paths of files, costs, and messages of servers.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.card import public_name
from groundtrace.publishing.hub.errors import PublishError
from groundtrace.publishing.hub.shards import Change
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.safe_files import read_json
from groundtrace.schemas.text import last_part

PRIVATE = ("recipe_file", "replaced", "taken_over", "paid", "forecast", "details", "truncated", "budget", "wall_s")
"""The fields of ``run.json`` that are private to the run's owner, or that quote rejected records."""
STAGE_TIMES = ("wall_s", "in_flight_s")
COSTS = ("cost_usd", "worth_usd")
PROBLEMS = "problems"
"""The field of a run's JSON files, such as ``rubrics.json``, that quotes the error messages of servers."""
PLAN = "batch_plan.json"
NAMES = "media_names"


def public_summary(summary: RunSummary) -> dict[str, Any]:
    """Return the content of ``run.json`` as a dictionary for JSON, without private data of the run's owner.

    Private data are, for example, costs and the details of rejected records. If the name of the input or of a model is
    a path or a URL, only its last part is kept.
    """
    fields = {name: value for name, value in summary.to_fields().items() if name not in PRIVATE}
    fields["input"] = public_name(summary.input)
    fields["roles"] = {role: public_name(model) for role, model in summary.roles.items()}
    for figures in fields["answered"].values():
        figures["asked"] = public_name(figures["asked"])
        named = Counter[str]()
        for model, replies in figures["answered"].items():
            named[public_name(model)] += replies
        figures["answered"] = dict(named)
    for figures in fields["stages"].values():
        for name in STAGE_TIMES:
            figures.pop(name, None)
    for entry in fields["ledger"].values():
        for usage in (entry, *entry["stages"].values()):
            for cost in COSTS:
                del usage[cost]
    return fields


def public_artifact(file: Path, published: Path) -> str:
    """Return the text of a JSON file of the run without private data of the run's owner.

    ``file`` is the path of the JSON file. Error messages of servers are removed from it. Raises PublishError for a
    damaged file.

    If the file is ``batch_plan.json``, numbers in it are replaced, too. This file divides the RL rows into parts. All
    rows of a part have the same streams (prompts). The file states the number of rows of each part. In the result, the
    number of the part's published rows replaces this number. The published rows are counted in the shards (Parquet
    files) below the folder ``published``.
    """
    try:
        content = read_json(file)
        content.pop(PROBLEMS, None)
        for part in content["parts"] if file.name == PLAN else ():
            part["rows"] = _asked_in(published, part["streams"])
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise PublishError(f"{file} is damaged ({type(error).__name__}): repeat the run") from error
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _asked_in(published: Path, streams: list[str]) -> int:
    """Return the number of RL rows in the folder ``published`` with exactly these ``streams`` (prompts of the row)."""
    found = (pq.read_table(file, columns=["streams"]) for file in sorted((published / "rl").glob("*.parquet")))
    return sum(set(each or ()) == set(streams) for table in found for each in table["streams"].to_pylist())


def change_of(name: str, summary: RunSummary) -> Change | None:
    """Return the function that removes private data from the rows of an output set; None if they can be published
    unchanged.

    Private data are, for example, costs and the folders in the names of models. ``name`` is sft, rl or rejected, and
    ``summary`` is the content of ``run.json``. The returned function takes and returns a batch of rows.
    """
    if name == "rejected":
        return without_private_facts
    has_paths = any(public_name(model) != model for model in summary.roles.values())
    return without_model_paths if has_paths else None


def without_private_facts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rejected rows without their costs and details, and without the folders of their image files.

    ``batch`` holds the rows. The detail of a rejection may quote servers and name files, so it becomes null. Only the
    last part of each path or name of an image or video is kept, because folders are private. The hashes of these files
    are kept.
    """
    media = [
        None if found is None else [{**medium, "uri": last_part(medium["uri"] or "")} for medium in found]
        for found in batch["media"].to_pylist()
    ]
    for column in ("cost_usd", "detail"):
        batch = _with(batch, column, [None] * batch.num_rows)
    if NAMES in batch.schema.names:  # rows of older versions lack this column
        names = [
            None if row is None else [name and last_part(name) for name in row] for row in batch[NAMES].to_pylist()
        ]
        batch = _with(batch, NAMES, names)
    return _with(batch, "media", media)


def without_model_paths(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a ``batch`` without the folders in the names of models.

    The column ``lineage`` names the models that made a row. If a name is a path or a URL, only its last part is kept.
    """
    lineage = [
        None if entry is None else {**entry, "models": [_public_model(model) for model in entry["models"] or ()]}
        for entry in batch["lineage"].to_pylist()
    ]
    return _with(batch, "lineage", lineage)


def _public_model(model: dict[str, Any]) -> dict[str, Any]:
    return {**model, "model": public_name(model["model"] or "")}


def _with(batch: pa.RecordBatch, column: str, values: list[Any]) -> pa.RecordBatch:
    """Return a copy of the batch in which the column named ``column`` has the given ``values``."""
    place = batch.schema.get_field_index(column)
    field = batch.schema.field(place)
    return batch.set_column(place, field, pa.array(values, field.type))
