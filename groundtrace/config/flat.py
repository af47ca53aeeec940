"""Flattens the nested values of a config to dotted keys, e.g. ``{"trace": {"n": 4}}`` to ``trace.n`` with 4."""

from collections.abc import Iterator, Mapping
from typing import Any

from groundtrace.schemas.text import excerpt


def flat_values(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each dotted key of a nested config with its value, e.g. ``("trace.n", 4)`` for ``{"trace": {"n": 4}}``.

    ``values`` is the config: one dict for each section. An empty section yields nothing. ``before`` is a prefix for all
    keys, such as ``trace.``; "" means no prefix.
    """
    for key, value in values.items():
        if isinstance(value, dict):
            yield from flat_values(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def flat(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each dotted key of a nested config with its value as text, e.g. ``("trace.n", "4")``.

    ``values`` is the config: one dict for each section. A long value is shortened, so that it fits in a message.
    """
    for key, value in flat_values(values):
        yield key, excerpt(value)
