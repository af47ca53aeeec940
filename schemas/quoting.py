"""Quotes text from models and data sets in a prompt, so that it cannot influence the model that reads the prompt.

A judged response was written by a model that gains from a high score, and any text of a model or a data set may look
like an instruction. Therefore such a text is changed in three ways:

- It is quoted: it is put between a line ``BEGIN mark`` and a line ``END mark``. ``mark`` is derived from a hash of the
  text and does not occur in it, so that no part of the text can end the quotation. The same texts give the same mark,
  so that the reply's cache key is stable. The prompts state that quoted text is material and never an instruction.
- It is made visible: invisible characters are removed, look-alike characters are replaced (NFKC), and special tokens
  (:mod:`groundtrace.schemas.control_text`) are broken up, since a server may read them as tokens inside a message.
- It is cut: if it is longer than a limit, a line ``CUT mark`` replaces its middle. Therefore a longer text has no
  advantage, and the reader always gets the beginning and the end of the text.
"""

import hashlib
import itertools
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from groundtrace.schemas.control_text import TOKEN
from groundtrace.schemas.text import whole

MAX_CHARS = 20_000
"""The largest number of characters of one quoted text that a model sees."""
MARK_DIGITS = 16

_BREAKS = re.compile("\r\n?|[\x85\u2028\u2029]")
# Unicode's Default_Ignorable_Code_Point (zero-width, bidirectional controls, fillers, variation selectors, tags), the
# annotation characters beside it, and the control characters but tab and line feed.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_BARS = re.compile(r"<(?=\|)|\|(?=>)")
_NAMED = re.compile(TOKEN.pattern, re.IGNORECASE)
_MEANINGFUL = ("<super>", "<sub>", "<fraction>")
# Normalising is quadratic in a run of combining marks, so it is done in stretches.
_STRETCH = 512


@dataclass(frozen=True)
class Quoted:
    """Holds texts that are ready to be put into a prompt between the lines ``BEGIN mark`` and ``END mark``.

    ``mark`` is a word of 16 hexadecimal digits. ``texts`` are the texts in order. They contain the mark only in a line
    ``CUT mark``, which replaces the middle of a text that was too long.
    """

    mark: str
    texts: tuple[str, ...]


def quote(*texts: str, limit: int = MAX_CHARS) -> Quoted:
    """Make texts safe for a prompt, and return them with their mark. A prompt puts each text between two lines, which
    contain the same word: the mark. Invisible characters are removed, and special tokens are broken up
    (:func:`visible`).

    If a text has more than ``limit`` characters, only its first and its last ``limit // 2`` characters are returned. A
    line between these two parts states that text was cut out; it contains the mark, too. Raises ValueError for a limit
    below 2.
    """
    if limit < 2:
        raise ValueError(f"the limit of a quoted text must be at least 2 characters, got {limit}")
    kept = [_ends(text, limit) for text in texts]
    mark = mark_for([part for parts in kept for part in parts])
    return Quoted(mark, tuple(f"\nCUT {mark}\n".join(parts) for parts in kept))


def mark_for(texts: Iterable[str], digits: int = MARK_DIGITS) -> str:
    """Return a word of ``digits`` hexadecimal digits that occurs in none of the texts, neither in upper nor in lower
    case. It can mark the end of a quotation of these texts. The same texts give the same word.
    """
    texts = [text.casefold() for text in texts]
    base = hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).digest()
    marks = (hashlib.sha256(base + salt.to_bytes(4, "big")).hexdigest()[:digits] for salt in itertools.count())
    return next(mark for mark in marks if not any(mark in text for text in texts))


def visible(text: str) -> str:
    """Return the text as a person sees it. Invisible characters are removed, look-alike characters are replaced
    (Unicode NFKC), and special tokens of chat templates are broken up by a blank.

    Superscripts, subscripts and fraction characters are not replaced: NFKC would turn 5² into 52, so that a right step
    would look wrong. The function never raises an error.
    """
    shown = _BARS.sub(lambda bar: bar.group() + " ", _folded(_without_invisible(text)))
    while _NAMED.search(shown):
        shown = _NAMED.sub(lambda token: f"{token.group()[0]} {token.group()[1:]}", shown)
    return shown


def _without_invisible(text: str) -> str:
    return _INVISIBLE.sub("", _BREAKS.sub("\n", whole(text)))


def _folded(text: str) -> str:
    if text.isascii():
        return text
    runs = itertools.groupby(enumerate(text), key=lambda place: (place[0] // _STRETCH, _has_meaning(place[1])))
    pieces = ((key[1], "".join(char for _, char in run)) for key, run in runs)
    return "".join(piece if meaningful else unicodedata.normalize("NFKC", piece) for meaningful, piece in pieces)


def _has_meaning(char: str) -> bool:
    return unicodedata.decomposition(char).startswith(_MEANINGFUL)


def _ends(text: str, limit: int) -> tuple[str, ...]:
    """Return the visible form of a text (:func:`visible`) as one part, or only its beginning and its end as two parts.

    The visible form is made in two steps. First, invisible characters are removed. Then look-alike characters are
    replaced, and special tokens are broken up by a blank; the second step can make the text longer.

    Two parts are returned if the text has more than ``limit`` characters after either step. Each part is in the visible
    form, and has at most ``limit // 2`` characters.
    """
    text = _without_invisible(text)
    if len(text) <= limit:
        text = visible(text)
        if len(text) <= limit:
            return (text,)
    half = limit // 2
    return visible(text[:half])[:half], visible(text[-half:])[-half:]
