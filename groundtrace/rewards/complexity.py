"""Defines the complexity of a question (SAIL-RL §3.2), which is simple or complex.

A policy should answer a simple question directly, and think before it answers a complex question.
"""

import pyarrow as pa

from groundtrace.schemas.columns import Column
from groundtrace.schemas.text import excerpt

SIMPLE, COMPLEX = "simple", "complex"


def _read(plain: object) -> str:
    if plain not in (SIMPLE, COMPLEX):
        raise ValueError(f"complexity must be {SIMPLE} or {COMPLEX}, got {excerpt(plain)}")
    return str(plain)


COMPLEXITY = Column[str](
    "complexity",
    pa.string(),
    "whether the question is to be answered directly (simple) or to be thought about (complex)",
    read=_read,
    is_class=True,
)
COMPLEXITY_REASON = Column[str]("complexity_reason", pa.string(), "why, as the judge said")
