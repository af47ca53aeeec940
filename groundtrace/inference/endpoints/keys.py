"""API keys: read from the environment or a named file when an endpoint is opened, and kept out of every text."""

import base64
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from html.entities import html5
from pathlib import Path

from groundtrace.inference.settings import EndpointSettings

NO_KEY = "none"
"""What is sent to a server that wants no key."""
_MIN_SECRET_CHARS = 6
_MIN_CUT_CHARS = 8
_SCRUBBED = "***"
_URL_SAFE = str.maketrans("+/", "-_")
_ESCAPES = ("%", "&", "\\")
"""What escapes of a character begin with."""


def api_key(settings: EndpointSettings) -> str:
    """The endpoint's key, :data:`NO_KEY` where it declares none.

    Raises ValueError, naming the variable or the file, when the key is not there or no header could hold it.
    """
    if settings.api_key_env:
        key = os.environ.get(settings.api_key_env, "").strip()
        if not key:
            unset = f"the environment variable {settings.api_key_env} is not set"
            raise ValueError(f"endpoint {settings.model!r}: {unset}: put the key there with `export`, and run again")
        return _checked(key, settings.model, f"the environment variable {settings.api_key_env}")
    if not settings.api_key_file:
        return NO_KEY
    try:
        key = Path(settings.api_key_file).expanduser().read_text("utf-8").strip()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        message = f"endpoint {settings.model!r}: cannot read the key file {settings.api_key_file}: {reason}"
        raise ValueError(message) from None
    if not key:
        raise ValueError(f"endpoint {settings.model!r}: the key file {settings.api_key_file} is empty")
    return _checked(key, settings.model, f"the key file {settings.api_key_file}")


def _checked(key: str, model: str, where: str) -> str:
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ValueError(
            f"endpoint {model!r}: {where} does not hold a key: a key is one word of plain ASCII characters"
        )
    return key


def scrub(text: str, key: str) -> str:
    """The text without the key, which some servers echo. Too short a key would scrub ordinary words and is left.

    The key is found with each of its characters as it is or as JSON, Python, HTML, a URL or Markdown would escape it,
    in hexadecimal, and within base64, as Basic authorisation has it; in any case, from its end to its start, and
    broken by blanks or line ends. Encodings of an encoding are not looked for. A text that begins or ends in the
    middle of the key was cut there and loses that part too. Scrub before cutting: that leaves least to guess.
    """
    if len(key) < _MIN_SECRET_CHARS:
        return text
    for form in _forms(key):
        if not form.hints or any(hint in text for hint in form.hints):
            text = form.pattern.sub(_SCRUBBED, text)
    return _without_cut_key(text, key)


_BREAK = r"[\s\u00ad\u200b-\u200d\u2060]{0,4}"
"""What may stand between two characters of a key that a server wraps or hides."""


@dataclass(frozen=True)
class _Form:
    """A way to write the key. Where it is written so, one of the ``hints`` is in the text, if there are any; they are
    quick to look for."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]


@lru_cache(maxsize=64)
def _forms(key: str) -> tuple[_Form, ...]:
    forms = {
        "plain": _Form((_longest_plain(key), *_ESCAPES), re.compile(_escaped(key, with_letters=True))),
        "hexadecimal": _Form(tuple("0123456789"), re.compile(_hexadecimal(key), re.IGNORECASE | re.ASCII)),
    }
    for shift in range(3):  # base64 writes three bytes at a time: where the key begins in them changes every letter
        coded = base64.b64encode(b"x" * shift + key.encode()).decode().rstrip("=")
        known = coded[(0, 2, 3)[shift] : (shift + len(key)) * 8 // 6]  # the letters that hold nothing but the key
        for text in {known, known.translate(_URL_SAFE)}:
            # A letter before and after it may hold some bits of the key beside others.
            pattern = re.compile(f"[\\w+/-]?{_escaped(text)}[\\w+/-]?", re.ASCII)
            forms[text] = _Form((_longest_plain(text),), pattern)
    for text in {key, key[::-1], *(name for name in forms if name not in ("plain", "hexadecimal"))}:
        flags = re.IGNORECASE if text in (key, key[::-1]) else 0
        forms[f"broken {text}"] = _Form((), re.compile(_BREAK.join(map(re.escape, text)), flags))
    return tuple(forms.values())


def _longest_plain(text: str) -> str:
    """The longest stretch of letters and digits, which hardly anything escapes."""
    return max(re.findall("[A-Za-z0-9]+", text), key=len, default="")


def _hexadecimal(text: str) -> str:
    r"""A pattern of the text's bytes in hexadecimal: in one, with a sign or a blank between them, or each with 0x or
    \x."""
    return r"[\s:,;.-]{0,2}(?:0x|\\++x)?".join(f"{ord(char):02x}" for char in text)


def _escaped(text: str, with_letters: bool = False) -> str:
    """A pattern of the text with each of its signs as it is or escaped, any number of times over; ``with_letters`` each
    letter and digit too.

    A run of backslashes is one unit and is never given back: what a server sends must not make matching slow.
    """
    found = re.findall(r"\\+|[^\\]", text)
    units = [unit if unit.isalnum() and not with_letters else _escaped_unit(unit) for unit in found]
    return rf"(?<!\\){units[0]}{''.join(units[1:])}" if text.startswith("\\") else "".join(units).removeprefix(r"\\*+")


@lru_cache(maxsize=128)
def _escaped_unit(unit: str) -> str:
    """A pattern of one character, or of a run of backslashes."""
    char, code = unit[0], f"{ord(unit[0]):02x}"
    names = "".join(f"|{re.escape(name)}" for name, meant in html5.items() if meant == char and name.endswith(";"))
    coded = rf"%(?:25)*(?i:{code})|&(?:amp;)*(?:#0*{ord(char)};|(?i:#x0*{code};){names})"
    spelt = rf"(?i:u(?:0000)?00{code}|x{code}|[ux]\{{0*{code}\}})|{ord(char):03o}"
    if char == "\\":
        return rf"(?:(?:\\++(?:{spelt})|{coded}){{{len(unit)}}}|\\{{{len(unit)},}}+)"
    return rf"\\*+(?:{spelt}|{coded}|{re.escape(char)})"  # the longer ones first: the key may end here


def _without_cut_key(text: str, key: str) -> str:
    """The text without a part of the key with which it ends, or begins: at least eight characters of it."""
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
