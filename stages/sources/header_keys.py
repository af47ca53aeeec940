"""Checks the keys of a data folder's header: which values of ``configs`` the library ``datasets`` may receive.

The header is the YAML in ``README.md`` or ``.huggingface.yaml``. The library passes every key of a config (an entry of
``configs``) on to the reader of the files. Some keys are dangerous in a folder from a stranger. For example, pandas
uses a ``sep`` of several characters as a regular expression, and the search for it may never end. So only the keys that
published data sets need are allowed, and each of them may have only harmless values.
"""

import codecs
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from groundtrace.schemas.text import excerpt
from groundtrace.stages.sources.base import InputError

_ENCODINGS: Final = frozenset(
    (
        *("ascii", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "iso8859-1", "iso8859-15", "cp1252"),
        *("gbk", "gb18030", "gb2312", "big5", "shift_jis", "cp932", "euc_jp", "euc_kr", "cp949", "cp1251", "koi8-r"),
    )
)
"""Python's names of the allowed encodings. Others, such as punycode, need a time that grows with the square of the
length of the text."""


def check_keys(file: Path, config: Mapping[Any, Any]) -> None:
    """Raise InputError for the first key of a config that is not allowed, or whose value is not allowed.

    ``file`` is the file of the header, and ``config`` is one entry of its ``configs``.
    """
    for key, value in config.items():
        if key not in _ALLOWED:
            raise InputError(
                f"the file {file} has the key {excerpt(key)} in 'configs', which is not allowed: remove this "
                f"key, or convert the data to Parquet (allowed keys: {', '.join(sorted(_ALLOWED))})"
            )
        allowed, expected = _ALLOWED[key]
        if not allowed(value):
            named = f"a value of the type {type(value).__name__}"
            shown = f"the value {excerpt(value)}" if isinstance(value, str | int | float) else named
            raise InputError(  # a list is not shown: in YAML, it may contain itself or be huge
                f"the file {file} has {shown} for the key {key!r} in 'configs': "
                f"set it to {expected}, or convert the data to Parquet"
            )


def _any(_: Any) -> bool:
    return True


def _is_flag(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _is_sign(value: Any) -> bool:
    """Return whether a value is one ASCII character, as a separator or quote character of a CSV file must be.

    All other values are refused. If the separator were null, pandas would guess it. If the separator were a longer
    text, pandas would use the text as a regular expression.
    """
    return isinstance(value, str) and len(value) == 1 and value.isascii()


def _is_header(value: Any) -> bool:
    return value is None or value == "infer" or (isinstance(value, int) and value == 0)


def _are_names(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(name, str) for name in value))


def _is_encoding(value: Any) -> bool:
    if value is None:
        return True
    try:
        return isinstance(value, str) and codecs.lookup(value).name in _ENCODINGS
    except (LookupError, ValueError):  # a ValueError for a name with a null character
        return False


_FLAG = (_is_flag, "true or false")
_SIGN = (_is_sign, "one ASCII character")
_TEXT = (_is_text, "a text or number")
_NAMES = (_are_names, "a list of names")
_ALLOWED: Final[Mapping[Any, tuple[Callable[[Any], bool], str]]] = {
    "config_name": (_any, ""),  # the library checks these four
    "data_dir": (_any, ""),
    "data_files": (_any, ""),
    "features": (_any, ""),
    "default": _FLAG,
    "description": _TEXT,
    "version": _TEXT,
    "drop_labels": _FLAG,
    "drop_metadata": _FLAG,
    "sep": _SIGN,
    "delimiter": _SIGN,
    "quotechar": _SIGN,
    "header": (_is_header, "infer, 0 or null"),
    "names": _NAMES,
    "column_names": _NAMES,
    "columns": _NAMES,
    "encoding": (_is_encoding, "a common encoding, such as utf-8"),
}
"""Maps each allowed key to a function that returns whether a value is allowed, and to a description of the allowed
values for error messages.
"""
