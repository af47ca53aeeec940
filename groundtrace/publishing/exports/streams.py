"""The streams of iVGR (§3.2) in an export: a row that is asked in several is a row of its own in each.

Trainers compare the responses to one row of their data with each other, so each stream has a group and advantages of
its own, as in the paper. Its reward compares the streams of a question, and so does ours: it has to get the responses
of both in one call (docs/rewards.md). Whoever keeps the order of the rows and takes an even number of them at a time
has whole questions: see :class:`groundtrace.publishing.exports.sides.Side`.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.exports.base import ExportRow
from groundtrace.publishing.exports.errors import ExportError, LeftOut
from groundtrace.rewards.streams import STREAM_PROMPTS, STREAMS

COLUMNS = (STREAMS.name, STREAM_PROMPTS.name)
"""The columns of the shards that say in which streams a question is asked, and in which words."""


def by_stream(row: ExportRow) -> tuple[ExportRow, ...]:
    """Returns the row once in each of its streams, in their order; itself where it has none.

    ``prompt`` and ``problem`` are then the words of the stream, which the column ``stream`` names. Raises LeftOut where
    a stream has no words.
    """
    streams = row.fields.get("streams") or ()
    prompts = {each["stream"]: each["content"] for each in row.fields.get("stream_prompts") or ()}
    return tuple(_asked_in(row, stream, prompts.get(stream)) for stream in streams) or (row,)


def _asked_in(row: ExportRow, stream: str, prompt: str | None) -> ExportRow:
    if not isinstance(prompt, str):
        raise LeftOut("missing_text", f"stream_prompts of the stream {stream}")
    turn = {"role": "user", "content": prompt}
    others = {name: value for name, value in row.fields.items() if name != "stream_prompts"}
    fields = others | {"stream": stream, "prompt": [turn], "problem": prompt}
    return replace(row, fields=fields, turns=(turn,), stream=stream)


def whole_groups_only(trainer: str) -> Callable[[Path], None]:
    """Returns a check that refuses a run whose questions are asked in several streams, for a trainer that asks for the
    reward of each response by itself; it raises ExportError.
    """

    def check(run: Path) -> None:
        found = _count_several(run)
        if found:
            raise ExportError(
                f"{found} questions of {run} are asked in several streams, whose rewards are compared, and {trainer} "
                "asks for the reward of each response by itself: choose --format trl, swift or easyr1, or train with "
                "`trainer grpo`"
            )

    return check


def _count_several(run: Path) -> int:
    found = 0
    for file in sorted((run / "rl").glob("*.parquet")):
        try:
            if "streams" in pq.read_schema(file).names:
                found += sum(len(each or ()) > 1 for each in pq.read_table(file, columns=["streams"])[0].to_pylist())
        except (OSError, pa.ArrowException):
            continue  # reading the rows says what is wrong with the file
    return found
