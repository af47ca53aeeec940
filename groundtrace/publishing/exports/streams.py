"""Exports the streams of iVGR (§3.2): a question with several streams becomes one export row for each stream.

A stream is one of several prompts for the same question. iVGR has two streams: one asks for reasoning with boxes, and
the other for reasoning in words only. As in the paper, the advantage of a response is computed only from the responses
in the same stream. This needs no change of the trainer. Each stream has its own row, and a trainer compares a response
only with the other responses for the same row.

But the reward of a response also depends on the responses in the question's other stream. So one call of the reward
must hold the responses for both rows of a question (docs/rewards.md). This condition holds if the trainer keeps the
order of the rows and takes an even number of rows at a time. :class:`groundtrace.publishing.exports.sides.Side` puts
the rows into a suitable order.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from groundtrace.publishing.exports.base import ExportRow
from groundtrace.publishing.exports.errors import ExportError, LeftOut
from groundtrace.rewards.streams import STREAM_PROMPTS, STREAMS
from groundtrace.schemas.run_files import shards_of
from groundtrace.schemas.text import counted

COLUMNS = (STREAMS.name, STREAM_PROMPTS.name)
"""The columns of the shards that hold the names of a question's streams, and the prompt of each stream. A stream is one
of several prompts for the same question.
"""


def by_stream(row: ExportRow) -> tuple[ExportRow, ...]:
    """Return one row for each stream of the question, in order. A row without streams is returned unchanged.

    A stream is one of several prompts for the same question: for example, one prompt asks for reasoning with boxes, and
    the other for reasoning only in words. In each returned row, ``prompt`` and ``problem`` hold the stream's prompt,
    and ``stream`` holds its name. Raises LeftOut if a stream has no prompt.
    """
    streams = row.fields.get("streams") or ()
    prompts = {each["stream"]: each["content"] for each in row.fields.get("stream_prompts") or ()}
    return tuple(_asked_in(row, stream, prompts.get(stream)) for stream in streams) or (row,)


def _asked_in(row: ExportRow, stream: str, prompt: str | None) -> ExportRow:
    """Return the export row of a question for one stream (one of several prompts for the question).

    ``row`` is the export row without a stream, ``stream`` is the name of the stream, and ``prompt`` is its prompt.
    Raises LeftOut if ``prompt`` is None, since a row without a prompt cannot be exported.
    """
    if not isinstance(prompt, str):
        raise LeftOut("missing_text", f"stream_prompts has no prompt for the stream {stream}")
    turn = {"role": "user", "content": prompt}
    others = {name: value for name, value in row.fields.items() if name != "stream_prompts"}
    fields = others | {"stream": stream, "prompt": [turn], "problem": prompt}
    return replace(row, fields=fields, turns=(turn,), stream=stream)


def whole_groups_only(trainer: str) -> Callable[[Path], None]:
    """Return a function that refuses to export a run whose questions have several streams (prompts).

    Such a question needs one reward call with the responses to all its prompts, because the reward of one response
    depends on the others. ``trainer`` is the name of a trainer, for the error message. This trainer requests the reward
    of each response separately, so it cannot make such a call. The returned function takes a run folder. It raises
    ExportError if a question of the run has several streams.
    """

    def check(run: Path) -> None:
        found = _count_several(run)
        if found:
            raise ExportError(
                f"{run} has {counted(found, 'question')} with several prompts. The responses to all prompts of a "
                f"question must be scored together, but {trainer} requests the reward of each response separately: "
                "choose --format trl, swift or easyr1, or train with `trainer grpo`"
            )

    return check


def _count_several(run: Path) -> int:
    """Return the number of the run's questions that have several streams, which are prompts for the same question."""
    found = 0
    for file in shards_of(run, "rl"):
        try:
            if "streams" in pq.read_schema(file).names:
                found += sum(len(each or ()) > 1 for each in pq.read_table(file, columns=["streams"])[0].to_pylist())
        except (OSError, pa.ArrowException):
            continue  # reading the rows will raise an error for this file
    return found
