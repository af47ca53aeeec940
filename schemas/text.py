"""Contains helpers for text, such as safe output to a terminal, comparison ignoring case, and values in messages."""

import datetime
import math
import re
import sys
from collections.abc import Sequence
from typing import TextIO

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+")


def counted(number: int, thing: str, things: str = "") -> str:
    """Return ``1 record`` or ``2 records``; ``things`` is the plural, by default ``thing`` with an s."""
    return f"{number} {thing if number == 1 else things or thing + 's'}"


def alternatives(names: Sequence[str]) -> str:
    """Return the names as ``a``, ``a or b``, ``a, b or c``; ``names`` must not be empty."""
    return " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def dollars(usd: float) -> str:
    """Return the amount as text in US dollars and cents (``$1,234.50``). An amount below one cent keeps two significant
    digits (``$0.0031``).
    """
    if usd == 0 or abs(usd) >= 0.01:
        return f"${usd:,.2f}"
    return f"${usd:.{1 - math.floor(math.log10(abs(usd)))}f}"


def storable(text: str) -> str:
    """Return the text with lone surrogates written as escapes (``\\ud83d``), since rows and files cannot hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


def say(*lines: str, file: TextIO | None = None) -> None:
    """Print each text on one line, with escapes as in :func:`printable`, to ``file`` (by default standard output).

    All text that may come from a server, a model or a file must be printed by this function.
    """
    for line in lines:
        print(printable(line), file=file or sys.stdout)


def printable(text: str) -> str:
    """Return the text with an escape in place of each character that is not printable, such as ESC.

    A terminal could execute such characters, so text of models and files must be printed in this form.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def folded(text: str) -> str:
    """Return the text in lower case with single blanks, for comparisons that ignore case and blanks."""
    return " ".join(text.casefold().split())


def excerpt(value: object) -> str:
    """Return the value as a message shows it: its ``repr``, cut to 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def words_in(text: str) -> list[str]:
    """Return the words and numbers of a text in order. Each Chinese, Japanese or Korean character is one word."""
    return _WORD.findall(text)


def without_password(text: str) -> str:
    """Return the text with three dots instead of the user and password (the part before the @) of each URL."""
    return re.sub(r"//[^/\s]*@", "//...@", text)


def last_part(path: str) -> str:
    """Return the last part of a path or URL. The query of a URL is left out, since it may contain a secret key."""
    whole = re.split(r"[?#]", path, maxsplit=1)[0] if "://" in path else path
    return whole.replace("\\", "/").rstrip("/").rpartition("/")[2]


def utc_now() -> str:
    """Return the current time in UTC as ISO 8601, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
