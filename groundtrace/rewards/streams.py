"""Defines the two streams of iVGR (§3.2), which are two ways to ask the same question.

The prompt of the grounded stream requests reasoning with boxes. The prompt of the textual stream requests reasoning in
words only.
"""

from collections.abc import Collection, Sequence
from typing import Literal

import pyarrow as pa

from groundtrace.schemas.columns import Column

Stream = Literal["grounded", "textual"]
GROUNDED: Stream = "grounded"
TEXTUAL: Stream = "textual"
STREAMS = Column[tuple[str, ...]](
    "streams", pa.list_(pa.string()), "the streams in which the question is asked", read=tuple, is_class=True
)
STREAM_PROMPTS = Column[list[dict[str, str]]](
    "stream_prompts",
    pa.list_(pa.struct([("stream", pa.string()), ("content", pa.string())])),
    "the user's turn of each of these streams",
)


def streams_asked(streams: Sequence[str], only: Collection[str] = ()) -> tuple[str, ...]:
    """Return the streams in which a question is asked, in the order of ``streams``.

    A stream is a way to ask the question: ``grounded`` (with boxes) or ``textual`` (only in words). ``streams`` holds
    the streams of the question's row. ``only`` holds the streams that the caller requests. The result has the streams
    that are in both; if ``only`` is empty, it has all of ``streams``.
    """
    return tuple(stream for stream in streams if not only or stream in only)
