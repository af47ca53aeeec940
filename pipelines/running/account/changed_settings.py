"""Lists the settings of a pipeline's stages (steps) that the user has changed, for the data card of the run."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from pydantic_core import to_jsonable_python

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import build
from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.publishing.card import public_name


def changed_settings(settings: RunSettings) -> dict[str, dict[str, str]] | None:
    """Return the settings of the stages (steps) that differ from the recipe's defaults; None if it has no defaults.

    A recipe is a pipeline's file; it has no defaults if the user must set a setting. All settings in a section whose
    class is not of Groundtrace are in the result, because a reader of the card cannot look up their defaults.

    The result maps each dotted key, such as ``verify.min_score``, to a dict with the texts ``value`` and ``default``.
    Settings that every pipeline has, such as the endpoints (model servers) and the input, are left out: other parts of
    the card describe them. If a value is a path or a URL, only its last part is kept, because the card may be
    published.
    """
    shared = {field.name for field in dataclasses.fields(RunSettings)}
    try:
        usual = build(type(settings), {})
    except ConfigError:
        return None
    own = [field.name for field in dataclasses.fields(settings) if field.name not in shared]
    values, defaults = (
        dict(_texts({name: to_jsonable_python(getattr(each, name)) for name in own})) for each in (settings, usual)
    )
    keys = dict.fromkeys((*values, *defaults))
    pairs = {key: {"value": values.get(key, "none"), "default": defaults.get(key, "none")} for key in keys}
    others = [name for name in own if _is_of_user(getattr(settings, name))]
    return {
        key: pair for key, pair in pairs.items() if pair["value"] != pair["default"] or key.partition(".")[0] in others
    }


def _is_of_user(section: Any) -> bool:
    """Return whether a section of a config is an object of a settings class from outside Groundtrace."""
    return dataclasses.is_dataclass(section) and type(section).__module__.partition(".")[0] != "groundtrace"


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each dotted key of nested settings with its value as text."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _texts(each, f"{key}.{public_name(name)}".removeprefix("."))
    else:
        yield key, _text(value)


def _text(value: Any) -> str:
    """Return a value as text for the card; of a path or a URL, only the last part."""
    if isinstance(value, dict):
        return "; ".join(f"{public_name(name)} {_text(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "none"
    if isinstance(value, str):
        return public_name(value) or "none"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else json.dumps(value)
