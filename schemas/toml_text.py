"""Reads TOML that another person may have written, such as the ``config.toml`` of a run folder.

Python's parser needs time and memory that grow with the square of the number of parts of a dotted key, such as
``a.b.c``. Therefore the length of the keys is checked before the text is parsed.
"""

import re
import tomllib
from typing import Any

MAX_DEPTH = 20
"""The maximum number of parts of a dotted key, and the maximum number of tables and lists around a value. Configs of
Groundtrace have at most five.
"""
MAX_CONFIG_BYTES = 2**20
"""The maximum size of a ``config.toml`` in a folder from another person. Our code writes some kilobytes."""
_MAX_BITS = 1024
_LONG_KEY = re.compile(
    # a part of a key: without quotes, in double quotes, or in single quotes; then a dot, and the next part
    r"""(?:(?:(?<![\w-])[\w-]++|(?<!\\)"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){"""
    f"{MAX_DEPTH}}}"
)


def read_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text as nested dicts: one dict for each section.

    Raises ValueError if the text is not TOML, if a key has more than :data:`MAX_DEPTH` parts, if tables and lists are
    nested more than :data:`MAX_DEPTH` deep, or if a whole number has more than 1024 bits. The message is one line.
    """
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(f"the key at line {line} has more than {MAX_DEPTH} parts")
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:
        raise ValueError(" ".join(str(error).split())) from error
    _check(values)
    return values


def _check(values: dict[str, Any]) -> None:
    """Raise ValueError if ``values``, the parsed TOML, are nested too deeply, or if a whole number is too large."""
    level: list[object] = [values]
    for _ in range(MAX_DEPTH + 1):
        if any(isinstance(value, int) and value.bit_length() > _MAX_BITS for value in level):
            raise ValueError(f"a whole number has more than {_MAX_BITS} bits")
        lists = (
            value.values() if isinstance(value, dict) else value for value in level if isinstance(value, dict | list)
        )
        level = [value for each in lists for value in each]
    if level:
        raise ValueError("nested too deeply")
