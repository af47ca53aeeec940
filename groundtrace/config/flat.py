"""Flattens the nested values of a config to dotted keys, e.g. ``{"trace": {"n": 4}}`` to ``trace.n`` with 4."""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import build, to_toml


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


def default_values(settings_class: type) -> dict[str, Any]:
    """Return the default of each setting of a settings class by dotted key, as a config file holds it.

    The result is empty if the class has a setting that the user must set, or if its defaults are invalid.
    """
    try:
        return dict(flat_values(tomllib.loads(to_toml(build(settings_class, {})))))
    except ConfigError:
        return {}
