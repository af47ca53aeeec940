"""Flattens the nested values of a config to dotted keys."""

from collections.abc import Iterator, Mapping
from typing import Any

from groundtrace.schemas.text import excerpt


def flat_values(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each dotted key with its value; an empty section yields nothing.

    ``before`` is a prefix for all keys, such as ``trace.``.
    """
    for key, value in values.items():
        if isinstance(value, dict):
            yield from flat_values(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def flat(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each dotted key with its value as text, shortened for a message."""
    for key, value in flat_values(values):
        yield key, excerpt(value)
