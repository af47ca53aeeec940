"""Reads the batch plan of a run: the share of a batch's prompts that comes from each kind of row (iVGR App. B).

The plan is the file ``batch_plan.json`` in the run folder (the output folder of a pipeline). If the shards (the Parquet
files with the rows) do not belong to a run, the file is in the folder of the shards. An example of its content::

    {"parts": [{"streams": ["grounded", "textual"], "share": 0.9, "rows": 2000},
               {"streams": ["textual"], "share": 0.1, "rows": 700}]}

A stream is a form of response, such as reasoning with boxes (``grounded``) or with text only (``textual``). A row has
one prompt for each of its streams. ``share`` is the share of a batch's prompts. ``rows`` is the number of rows with
exactly these streams; the trainer does not use it.

In the example, 90 % of the prompts are of rows with both streams, and 10 % are of rows with the textual stream only.
So in a batch of 100 prompts, 90 prompts come from 45 rows with two prompts each, and 10 prompts come from 10 rows with
one prompt each. A plan does not change the number of prompts in a batch (App. C: compute stays equal).
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundtrace.config.errors import ConfigError
from groundtrace.rewards.rows.shards import ShardError, Shards
from groundtrace.rewards.streams import streams_asked
from groundtrace.schemas.text import counted

FILE = "batch_plan.json"
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class PlannedPart:
    """Holds one entry of a batch plan, as the file ``batch_plan.json`` states it.

    A batch plan states which share of a batch's prompts comes from which rows. ``streams`` are the names of streams
    (forms of response, such as ``textual``). The rows with exactly these streams get the share ``share`` of a batch's
    prompts.
    """

    streams: tuple[str, ...]
    share: float


@dataclass(frozen=True)
class Part:
    """Holds a set of rows, from which a given share of each batch's prompts comes.

    Attributes:
        rows: the rows' indices in the shards (Parquet files with all rows).
        share: the share of a batch's prompts, in (0, 1].
        prompts: the number of prompts that each row has, one for each of its streams (forms of response).
        name: the names of the rows' streams, e.g. ``grounded+textual``, for messages; "" without a batch plan.
    """

    rows: Sequence[int]
    share: float = 1.0
    prompts: int = 1
    name: str = ""


def planned(
    data: Path, shards: Shards, prompts_per_step: int, only: Collection[str] = ()
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """Read the batch plan of the data; return the sets of rows that the plan names, and messages for the user.

    The batch plan is the file ``batch_plan.json``, which states which share of a batch's prompts comes from which rows.
    ``data`` is the output folder of a run, or the folder of its Parquet files (shards). ``prompts_per_step`` is the
    number of prompts in a batch. A row has one prompt for each of its streams (forms of response). If ``only`` is not
    empty, prompts in other streams are not used. The messages say, for example, that the plan names streams that no row
    has. Without a plan, both results are empty. Raises ShardError if the plan is invalid. Raises ConfigError if one row
    has more prompts than ``prompts_per_step``.
    """
    found = parts_of(read_plan(data), shards, only)
    most = max((len(streams_asked(streams, only)) for streams in shards.streams), default=1)
    if most > prompts_per_step:
        raise ConfigError(
            f"grpo.prompts_per_step is {prompts_per_step}, but a row has {most} prompts, one for each of its streams: "
            f"set grpo.prompts_per_step to at least {most}"
        )
    return found


def read_plan(data: Path, side: str = "rl") -> tuple[PlannedPart, ...]:
    """Read ``batch_plan.json``, which states the share of each kind of row in a batch; return its entries.

    The result is empty if there is no such file. ``data`` is the output folder of a run (a pipeline's execution), or
    the folder in it with the shards (Parquet files). ``side`` is the name of this inner folder, such as ``rl``. Raises
    ShardError if the file is not a valid plan; the message contains the reason.
    """
    folder = data.parent if data.name == side and not (data / side).is_dir() else data
    path = folder / FILE
    if not path.is_file():
        return ()
    try:
        return _parts(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ShardError(
            f"{path} is not a batch plan ({reason}): correct the file, or remove it to draw rows without a plan"
        ) from error


def _parts(plan: Any) -> tuple[PlannedPart, ...]:
    """Return the entries of a batch plan. Raises ValueError if the plan is not valid.

    ``plan`` is the parsed file ``batch_plan.json``. Each entry states which share of a batch's prompts comes from the
    rows with certain streams (forms of response).
    """
    listed = plan.get("parts") if isinstance(plan, Mapping) else None
    if not isinstance(listed, list) or not listed:
        raise ValueError('"parts" must be a list that is not empty')
    parts = tuple(_part(each, f"parts[{number}]") for number, each in enumerate(listed))
    if len({frozenset(part.streams) for part in parts}) < len(parts):
        raise ValueError('two entries of "parts" have the same streams: merge them into one entry')
    total = math.fsum(part.share for part in parts)
    if abs(total - 1) > _TOLERANCE:
        raise ValueError(f'the values of "share" in "parts" must add up to 1, but add up to {total:g}')
    return parts


def _part(value: Any, where: str) -> PlannedPart:
    streams = value.get("streams") if isinstance(value, Mapping) else None
    if not isinstance(streams, list) or not streams or not all(isinstance(name, str) and name for name in streams):
        raise ValueError(f"{where}.streams must be a list of names of streams")
    if len(set(streams)) < len(streams):
        raise ValueError(f"{where}.streams has the same stream twice")
    share = value.get("share")
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise ValueError(f"{where}.share must be a number above 0 and at most 1, got {share!r:.40}")
    return PlannedPart(tuple(streams), float(share))


def parts_of(
    plan: Sequence[PlannedPart], shards: Shards, only: Collection[str] = ()
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """Return the sets of rows that a batch plan names, and messages for the user.

    A batch plan states which share of a batch's prompts comes from which rows. Each of its entries names streams (forms
    of response) and a share. The set of an entry consists of the rows with exactly these streams. ``plan`` holds the
    entries, and ``shards`` holds the rows. If ``only`` is not empty, the training uses only the streams in ``only``,
    and an entry without any of them is left out. An entry without rows is left out, too. The shares of the remaining
    sets are rescaled so that their sum is 1.

    The messages name the entries without rows, and say how many rows match no entry. Rows that match no entry are not
    drawn. Without a plan, both results are empty. Raises ShardError if no entry has a row.
    """
    if not plan:
        return (), ()
    rows: dict[frozenset[str], list[int]] = {frozenset(part.streams): [] for part in plan}
    others = 0
    for index, streams in enumerate(shards.streams):
        if (named := frozenset(streams)) in rows:
            rows[named].append(index)
        else:
            others += 1
    held = [part for part in plan if rows[frozenset(part.streams)] and streams_asked(part.streams, only)]
    if not held:
        raise ShardError(
            f"{FILE} selects no row{' for the prompts in grpo.streams' if only else ''}. A part selects a "
            f"row only if the row has exactly the streams of the part. The streams of the parts are: "
            f"{', '.join(map(_named, plan))}. Correct the parts"
            f"{' or grpo.streams' if only else ''}, or remove {FILE}"
        )
    total = math.fsum(part.share for part in held)
    empty = [part for part in plan if not rows[frozenset(part.streams)]]
    notes = [f"{FILE}: no row has the streams {_named(part)}, so this part is left out" for part in empty]
    if others:
        notes.append(f"{FILE}: {counted(others, 'row')} with other streams are not drawn")
    parts = (
        Part(rows[frozenset(part.streams)], part.share / total, len(streams_asked(part.streams, only)), _named(part))
        for part in held
    )
    return tuple(parts), tuple(notes)


def _named(part: PlannedPart) -> str:
    return "+".join(part.streams)


def plan_text(parts: Sequence[Part]) -> str:
    """Return the batch plan as one line, e.g. ``grounded+textual 0.9, textual 0.1``; "" without a plan.

    ``parts`` are the sets of rows that the plan names, with their shares of a batch's prompts. The line is part of the
    identity of a training: a training can be resumed only with the same plan (:mod:`groundtrace.trainer.identity`).
    """
    return ", ".join(f"{part.name} {part.share:.6g}" for part in parts)


def next_part(parts: Sequence[Part], drawn: Sequence[int], target: int, room: int) -> int | None:
    """Return the index of the part (set of rows) from which the next row of a batch is drawn.

    The result is None if the batch is finished. ``drawn`` holds, for each part, the number of rows that were already
    drawn, over all batches. ``target`` is the number of prompts in all earlier batches, plus the number of prompts that
    the present batch should have. ``room`` is the number of prompts that the present batch still needs.

    A row has one or more prompts. The goal of a part is to provide ``share * target`` prompts. The part that is
    farthest below its goal is chosen. A part is skipped in two cases: it is already above its goal, or each of its rows
    has more than ``room`` prompts. If all parts are skipped, the batch is finished, even if it is not full.

    For example, part 0 has the share 0.9 and two prompts per row, part 1 has the share 0.1 and one prompt per row, and
    a batch should have 3 prompts. The first batch had one row of each part, which are 3 prompts. In the second batch,
    ``target`` is 6. After one row of part 0, ``drawn`` is (2, 1), and ``room`` is 1. Part 0 is skipped, because its
    rows have two prompts. Part 1 is skipped, because it has provided one prompt, and its goal is only 0.1 * 6 = 0.6. So
    the second batch has 2 prompts instead of 3.

    If there are two parts, and each row has one or two prompts, the following is true after every batch: each part has
    provided at most one row more or less than its goal requires. With more parts, the difference can be larger.
    """
    to_come = [part.share * target - part.prompts * rows for part, rows in zip(parts, drawn, strict=True)]
    fitting = [at for at, part in enumerate(parts) if part.prompts <= room and to_come[at] >= 0]
    return max(fitting, key=to_come.__getitem__, default=None)
