"""Provides small functions for text: safe output to a terminal, comparison that ignores case, and values in
messages.
"""

import datetime
import math
import re
import sys
from collections.abc import Sequence
from typing import TextIO

_HALF = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+")


def counted(number: int, thing: str, things: str = "") -> str:
    """Return a number with its noun in the right form, e.g. ``1 record`` or ``2 records``. ``thing`` is the singular.
    ``things`` is the plural; if it is "", the plural is ``thing`` with an s.
    """
    return f"{number} {thing if number == 1 else things or thing + 's'}"


def alternatives(names: Sequence[str]) -> str:
    """Join ``names`` to a text: ``a``, ``a or b``, or ``a, b or c``. ``names`` must not be empty."""
    return " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def dollars(usd: float) -> str:
    """Return the amount ``usd`` in US dollars as text, e.g. ``$1,234.50``. An amount below one cent gets two
    significant digits, e.g. ``$0.0031``.
    """
    if usd == 0 or abs(usd) >= 0.01:
        return f"${usd:,.2f}"
    return f"${usd:.{1 - math.floor(math.log10(abs(usd)))}f}"


def duration_text(seconds: float) -> str:
    """Return a number of seconds as text, such as ``40 s``, ``12 min`` or ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def storable(text: str) -> str:
    """Return the text with each lone surrogate (half a character) written as an escape, such as ``\\ud83d``. Rows and
    files cannot hold surrogates.

    Two ids or paths that differ only in a surrogate stay different. A JSON text keeps its meaning, because a JSON
    parser reads the escape as the surrogate. Use :func:`whole` instead for a model's text: an escape would be readable
    text that the model did not write.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def whole(text: str) -> str:
    """Return a model's text with U+FFFD in place of each lone surrogate (half a character), since rows and files cannot
    hold surrogates.

    U+FFFD counts as control text, i.e. as text that a model must not learn (:mod:`groundtrace.schemas.control_text`).
    So later checks find U+FFFD in the text, and treat it as an unreadable character.
    """
    return _HALF.sub("\ufffd", text)


def say(*lines: str, file: TextIO | None = None) -> None:
    """Print each of ``lines`` on one line. Characters that are not printable become escapes (:func:`printable`).
    ``file`` is the stream to print to; None means the standard output.

    All text that may come from a server, a model or a file must be printed by this function.
    """
    for line in lines:
        print(printable(line), file=file or sys.stdout)


def printable(text: str) -> str:
    r"""Return the text with an escape in place of each character that is not printable, e.g. ``\x1b`` for ESC.

    A terminal could execute such characters, so text of models and files must be printed in this form.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def folded(text: str) -> str:
    """Return the text in lower case, with a single blank between its words and none at its ends. Two texts that differ
    only in case and blanks give the same result.
    """
    return " ".join(text.casefold().split())


def excerpt(value: object) -> str:
    """Return the ``repr`` of a value for use in an error message. A text above 80 characters is cut, and ends with
    "...".
    """
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def words_in(text: str) -> list[str]:
    """Return the words and numbers of a text in order. Each Chinese, Japanese or Korean character is one word."""
    return _WORD.findall(text)


_SECRET_PARAMETER = re.compile(r"([?&][\w-]*(?:token|key|secret|sig|password)[\w-]*=)[^&#\s'\"]+", re.IGNORECASE)
"""Matches a parameter of a URL whose value may be a secret."""


def without_password(text: str) -> str:
    """Return the text with "..." in place of the secrets in each URL, e.g. "https://me:secret@host" → "https://...@host".

    Secrets are a user name with a password, also in a later part of the URL, and the values of parameters such as
    ``token``.
    """
    text = re.sub(r"//[^/\s]*@", "//...@", text)
    text = re.sub(r"(://\S*?/)[^/\s:@]+:[^/\s@]+@", r"\1...@", text)
    return _SECRET_PARAMETER.sub(r"\1...", text)


def last_part(path: str) -> str:
    """Return the last part of a path or URL. The query of a URL is left out, since it may contain a secret key."""
    bare = re.split(r"[?#]", path, maxsplit=1)[0] if "://" in path else path
    return bare.replace("\\", "/").rstrip("/").rpartition("/")[2]


def utc_now() -> str:
    """Return the current UTC time as ISO 8601 text to the second, e.g. "2025-01-31T23:59:59+00:00"."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
