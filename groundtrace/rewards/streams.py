"""Defines the streams of iVGR (§3.2): a question is asked once for reasoning with boxes, and once only in words."""

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
