"""Defines the streams of iVGR (§3.2): one prompt requests reasoning with boxes, and another one only words."""

from collections.abc import Collection, Sequence

import pyarrow as pa

from groundtrace.schemas.columns import Column

GROUNDED, TEXTUAL = "grounded", "textual"
STREAMS = Column[tuple[str, ...]](
    "streams", pa.list_(pa.string()), "the streams in which the question is asked", read=tuple, is_class=True
)
STREAM_PROMPTS = Column[list[dict[str, str]]](
    "stream_prompts",
    pa.list_(pa.struct([("stream", pa.string()), ("content", pa.string())])),
    "the user's turn of each of these streams",
)


def streams_asked(streams: Sequence[str], only: Collection[str] = ()) -> tuple[str, ...]:
    """Return the streams of a row that are also in ``only``; all of its streams if ``only`` is empty."""
    return tuple(stream for stream in streams if not only or stream in only)
