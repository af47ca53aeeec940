"""Defines the streams of iVGR (§3.2): a question is asked once for reasoning with boxes, and once without."""

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
    """Return those of a row's streams in which it is asked: the streams in ``only``, or all if ``only`` is empty."""
    return tuple(stream for stream in streams if not only or stream in only)
