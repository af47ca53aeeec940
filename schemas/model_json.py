"""Helps to read the JSON that models write. If a key has two different values, an error is raised, so that no value
gets lost. A lone surrogate (half of a character, such as ``\\ud83d``) is replaced, because no file can hold it.
"""

import json
from typing import Any

from groundtrace.schemas.text import whole


class ConflictingValues(ValueError):
    """Raised if an object of a model's JSON has one key with two different values."""


def one_value_per_key(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dict with the (key, value) ``pairs`` of one JSON object. The parser of :mod:`json` calls this function
    as its ``object_pairs_hook``.

    Raises :class:`ConflictingValues` if a key has two different values. A model's reply then contradicts itself, and
    the last value is not better than the first one. The values 1, 1.0 and true are different.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found and _written(found[name]) != _written(value):
            raise ConflictingValues(
                f"an object has a key twice with different values ({name!r:.80}): write each key once"
            )
        found[name] = value
    return found


def whole_texts(value: Any) -> Any:
    """Return a copy of a JSON value in which U+FFFD replaces each lone surrogate, such as ``\\ud83d``. A lone surrogate
    is half of a character that UTF-16 writes in two parts; a JSON escape can write it without the other half. Keys, and
    texts inside lists and objects, are changed in the same way.
    """
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, list):
        return [whole_texts(item) for item in value]
    if isinstance(value, dict):
        return {whole_texts(key): whole_texts(item) for key, item in value.items()}
    return value


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)
