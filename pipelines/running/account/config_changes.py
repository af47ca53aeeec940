"""Lists the differences between the configs of two runs, for the lines that a run prints if it replaces another."""

from collections.abc import Iterator, Mapping
from typing import Any

from groundtrace.config.flat import flat_values
from groundtrace.publishing.comparison.setting_changes import endpoint_defaults
from groundtrace.schemas.text import excerpt

ABSENT = "(none)"
_MISSING = object()


def config_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], defaults: Mapping[str, Any], before: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Yield the differences between two configs, sorted by key, each as (key, old value, new value).

    A section that only one config has, such as a new endpoint (model server), is one difference. Its value is a list of
    its settings that differ from their defaults; a section without such a setting is left out.

    Args:
        old: The complete config of the old run, with a dict for each section.
        new: The complete config of the new run.
        defaults: The default of each setting of the pipeline, by dotted key. The function itself adds the defaults of
            endpoints (model servers).
        before: The prefix of all keys, such as ``verify.``.
    """
    for name in sorted({*old, *new}):
        key, was, now = f"{before}{name}", old.get(name, _MISSING), new.get(name, _MISSING)
        if isinstance(was, dict) and isinstance(now, dict):
            yield from config_changes(was, now, defaults, f"{key}.")
        elif was != now and (was_text := _text(key, was, defaults)) and (now_text := _text(key, now, defaults)):
            yield key, was_text, now_text


def _text(key: str, value: Any, defaults: Mapping[str, Any]) -> str:
    """Return a value of a config as text; "" for a section in which all settings have their defaults.

    ``key`` is the dotted key of the value, and ``defaults`` holds the defaults by dotted key. A missing value is
    "(none)".
    """
    if value is _MISSING:
        return ABSENT
    return _section_text(key, value, defaults) if isinstance(value, dict) else excerpt(value)


def _section_text(key: str, section: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Return the settings of a section that differ from their defaults, such as "kind = 'openai', model = 'qwen'".

    ``key`` is the dotted key of the section, and ``defaults`` holds the defaults by dotted key.
    """
    usual = endpoint_defaults() if key.startswith("endpoints.") else {}
    return ", ".join(
        f"{name} = {excerpt(value)}"
        for name, value in flat_values(section)
        if usual.get(name, defaults.get(f"{key}.{name}", _MISSING)) != value
    )
