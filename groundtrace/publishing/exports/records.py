"""Makes the parts of a record that are the same in several export formats. A record is a row as a format writes it."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from groundtrace.publishing.exports.base import ExportRow, Target
from groundtrace.publishing.exports.rows import TURNS
from groundtrace.publishing.exports.turns import content_parts
from groundtrace.publishing.rewards.reference import COLUMN
from groundtrace.schemas.arrow import IMAGE, TURN

PART = pa.struct([("type", pa.string()), ("text", pa.string())])
TURN_IN_PARTS = pa.struct([("role", pa.string()), ("content", pa.list_(PART))])
IMAGES = ("images", pa.list_(IMAGE))
TURNS_WITH_MARKS = pa.list_(TURN)
TURNS_IN_PARTS = pa.list_(TURN_IN_PARTS)


def in_parts(row: ExportRow) -> list[dict[str, object]]:
    """Return the turns of a row as dicts. The content of each turn is a list of text parts and image parts.

    An image part replaces a placeholder ``<image>`` in the text. If the row has n images, only the first n placeholders
    are replaced. The assistant's turns have only text parts.
    """
    left = len(row.images)
    turns: list[dict[str, object]] = []
    for turn in row.turns:
        places = 0 if turn["role"] == "assistant" else left
        content = content_parts(turn["content"], places)
        left -= sum(part["type"] == "image" for part in content)
        turns.append({"role": turn["role"], "content": content})
    return turns


def with_everything(row: ExportRow, images: list[str], target: Target) -> Mapping[str, Any]:
    """Return a row as a JSON object: its columns that are not null, its turns, and the names of its image files.

    ``row`` is the row, and ``images`` are the names of its image files. Coordinates in the turns are in the frame
    (pixels, 0–100 or 0–1000) of the model to be trained. For an RL row, the object also has ``problem`` (the text of
    the prompt) and the row's reference (JSON text by which a reward finds the row in its run). ``target`` holds the
    path of this run. Raises LeftOut if the id or the gold answer of an RL row is null.
    """
    record = {name: value for name, value in row.fields.items() if value is not None}
    record |= {TURNS[row.side]: list(row.turns), "images": images}
    if row.side == "rl":
        record |= {COLUMN: row.reference(target), "problem": row.turns[-1]["content"]}
    return record
