"""Reads API keys from the environment or a file when an endpoint is opened, and removes the keys from texts such as
error messages.
"""

import base64
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from html.entities import html5
from pathlib import Path

from groundtrace.inference.endpoint import EndpointError
from groundtrace.inference.settings import EndpointSettings

NO_KEY = "none"
"""The text that is sent in place of an API key to a server that needs no key."""
_MIN_SECRET_CHARS = 6
_MIN_CUT_CHARS = 8
_SCRUBBED = "***"
_URL_SAFE = str.maketrans("+/", "-_")
_ESCAPES = ("%", "&", "\\")
"""The first characters of escape sequences, such as "%" in "%2F". A text with an escaped key has one of them."""


def api_key(settings: EndpointSettings) -> str:
    """Read the endpoint's API key from the environment variable or the file that the settings name, and return it.
    Returns :data:`NO_KEY` if the settings name neither.

    Raises EndpointError if the key is missing or cannot be sent in an HTTP header. The message names the variable or
    the file.
    """
    if settings.api_key_env:
        key = os.environ.get(settings.api_key_env, "").strip()
        if not key:
            raise EndpointError(
                f"endpoint {settings.model!r}: the environment variable {settings.api_key_env} is not set: set it to "
                "the API key with `export`, and run the command again"
            )
        return _checked(key, settings.model, f"the environment variable {settings.api_key_env}")
    if not settings.api_key_file:
        return NO_KEY
    try:
        key = Path(settings.api_key_file).expanduser().read_text("utf-8").strip()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise EndpointError(
            f"endpoint {settings.model!r}: cannot read the key file {settings.api_key_file}: {reason}: "
            "set api_key_file to a text file with the API key"
        ) from None
    if not key:
        raise EndpointError(
            f"endpoint {settings.model!r}: the key file {settings.api_key_file} is empty: write the API key into it"
        )
    return _checked(key, settings.model, f"the key file {settings.api_key_file}")


def _checked(key: str, model: str, where: str) -> str:
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise EndpointError(
            f"endpoint {model!r}: the text in {where} is not an API key (one word of ASCII characters): put only the "
            "API key there"
        )
    return key


def scrub(text: str, key: str) -> str:
    """Return ``text`` with "***" in place of the API key ``key``, which some servers repeat in their responses. A key
    of fewer than six characters is not removed, since it may be a word.

    The key is found in these forms:

    - Each character is plain, or escaped as in JSON, Python, HTML, a URL or Markdown.
    - The key is in hexadecimal, or within base64, as in Basic authorisation.
    - The key is in upper or lower case, reversed, or broken by blanks or line ends.

    A key that was encoded twice (for example first in base64 and then in hexadecimal) is not found.

    If a text was cut in the middle of the key, the part of the key at the text's beginning or end is removed too. Such
    a part is harder to recognise than the whole key, so call this function before you cut a text.
    """
    if len(key) < _MIN_SECRET_CHARS:
        return text
    for form in _forms(key):
        if not form.hints or any(hint in text for hint in form.hints):
            text = form.pattern.sub(_SCRUBBED, text)
    return _without_cut_key(text, key)


_BREAK = r"[\s\u00ad\u200b-\u200d\u2060]{0,4}"
"""Matches the characters that a server may have inserted between two characters of a key: at most four line ends,
blanks or invisible characters.
"""


@dataclass(frozen=True)
class _Form:
    """Describes one form in which a text may contain the API key, e.g. in hexadecimal. ``pattern`` finds the key in
    this form. ``hints`` are short texts. A text with the key in this form contains at least one of the hints. The
    pattern is slow, so it is used only for texts that contain a hint. If ``hints`` is empty, the pattern is used for
    all texts."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]


@lru_cache(maxsize=64)
def _forms(key: str) -> tuple[_Form, ...]:
    forms = {
        "plain": _Form((_longest_plain(key), *_ESCAPES), re.compile(_escaped(key, with_letters=True))),
        "hexadecimal": _Form(tuple("0123456789"), re.compile(_hexadecimal(key), re.IGNORECASE | re.ASCII)),
    }
    for shift in range(3):  # base64 encodes three bytes at a time: the key's offset in them changes every letter
        coded = base64.b64encode(b"x" * shift + key.encode()).decode().rstrip("=")
        known = coded[(0, 2, 3)[shift] : (shift + len(key)) * 8 // 6]  # the letters that encode only the key
        for text in {known, known.translate(_URL_SAFE)}:
            # The letters before and after may encode some bits of the key, too.
            pattern = re.compile(f"[\\w+/-]?{_escaped(text)}[\\w+/-]?", re.ASCII)
            forms[text] = _Form((_longest_plain(text),), pattern)
    for text in {key, key[::-1], *(name for name in forms if name not in ("plain", "hexadecimal"))}:
        flags = re.IGNORECASE if text in (key, key[::-1]) else 0
        forms[f"broken {text}"] = _Form((), re.compile(_BREAK.join(map(re.escape, text)), flags))
    return tuple(forms.values())


def _longest_plain(text: str) -> str:
    """Return the longest run of letters and digits in ``text``, or "" if ``text`` has no letter or digit.

    The run is used as a hint (:class:`_Form`): the slow search for ``text`` in a server's response is made only if the
    response contains a hint. The run is a good hint, since letters and digits are rarely escaped. So a response that
    contains ``text`` usually contains the run unchanged, even if the punctuation of ``text`` is escaped.
    """
    return max(re.findall("[A-Za-z0-9]+", text), key=len, default="")


def _hexadecimal(text: str) -> str:
    r"""Return a pattern that finds the bytes of ``text`` in hexadecimal: without separators ("6b65"), with a separator
    of one or two characters ("6b:65", "6b, 65"), or with 0x or \x before each byte."""
    return r"[\s:,;.-]{0,2}(?:0x|\\++x)?".join(f"{ord(char):02x}" for char in text)


def _escaped(text: str, with_letters: bool = False) -> str:
    """Return a pattern that finds ``text`` even if its punctuation is escaped. E.g. "/" may be written as "%2F", or be
    escaped twice as "%252F". If ``with_letters`` is True, letters and digits may be escaped too.

    A malicious server could send many backslashes to make the search slow. To prevent this, the pattern matches as many
    backslashes in a row as there are, and never gives one back (it is possessive). Several backslashes in a row in
    ``text`` are therefore one unit with one pattern (:func:`_escaped_unit`). If each backslash had its own pattern, the
    first pattern would leave no backslash for the others.
    """
    found = re.findall(r"\\+|[^\\]", text)
    units = [unit if unit.isalnum() and not with_letters else _escaped_unit(unit) for unit in found]
    return rf"(?<!\\){units[0]}{''.join(units[1:])}" if text.startswith("\\") else "".join(units).removeprefix(r"\\*+")


@lru_cache(maxsize=128)
def _escaped_unit(unit: str) -> str:
    r"""Return a pattern that finds ``unit``, plain or escaped. ``unit`` is one character, or several backslashes in a
    row. E.g. the pattern for "/" finds "/", "\/", "%2F", "&#47;" and "\u002f"."""
    char, code = unit[0], f"{ord(unit[0]):02x}"
    names = "".join(f"|{re.escape(name)}" for name, meant in html5.items() if meant == char and name.endswith(";"))
    coded = rf"%(?:25)*(?i:{code})|&(?:amp;)*(?:#0*{ord(char)};|(?i:#x0*{code};){names})"
    spelt = rf"(?i:u(?:0000)?00{code}|x{code}|[ux]\{{0*{code}\}})|{ord(char):03o}"
    if char == "\\":
        return rf"(?:(?:\\++(?:{spelt})|{coded}){{{len(unit)}}}|\\{{{len(unit)},}}+)"
    return rf"\\*+(?:{spelt}|{coded}|{re.escape(char)})"  # longer alternatives first, since the key may end here


def _without_cut_key(text: str, key: str) -> str:
    """Return the text with "***" in place of an incomplete key at its end or beginning, where the text may have been
    cut. The end of the text may be the beginning of the key, and the beginning of the text may be the end of the key. A
    part of the key that has fewer than eight characters is not removed."""
    head, tail = key[:_MIN_CUT_CHARS], key[-_MIN_CUT_CHARS:]
    if len(key) <= _MIN_CUT_CHARS:
        return text
    at = text.find(head, max(0, len(text) - len(key) + 1))
    if at >= 0 and key.startswith(text[at:]):
        text = text[:at] + _SCRUBBED
    at = text.rfind(tail, 0, len(key) - 1)
    if at >= 0 and key.endswith(text[: at + len(tail)]):
        text = _SCRUBBED + text[at + len(tail) :]
    return text
