"""Reads the tags ``<point>``, ``<points>`` and ``<box>`` in texts of models leniently, and writes them in one form.

Models write the quotes of attributes in many forms: straight, single, curly, as backticks, with backslashes, as
``&quot;``, or without quotes. All these forms are read. In the paper Argos (§4.1, figures 13-16), the third point of a
text has the attributes ``x3`` and ``y3``, even if it is in a tag of its own. So a tag with only ``x3`` and ``y3`` is a
point. Coordinates stay as written; :mod:`groundtrace.schemas.coordinates` converts them between coordinate frames.

Reading takes time linear in the length of the text. The text is cut at every ``<`` that is followed by a letter or a
slash. An opening tag and the text behind it end at the next cut. So the text in a tag can contain ``<`` before a letter
only in escaped form.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from groundtrace.schemas.label_parts import split_words
from groundtrace.schemas.labels import names_alike, own_words

_CUT = re.compile(r"<(?=[A-Za-z/])")
_OPEN = re.compile(r"<(points?|box)(?=[\s/>])", re.IGNORECASE)
_CLOSE = re.compile(r"</\s*(points?|box)\s*>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"[\s,]*([A-Za-z_][\w-]{0,31})\s*=\s*")
_TAG_END = re.compile(r"[\s,]*(?:(/)\s*)?>")
_BARE_VALUE = re.compile(r"[^\s,>\"'“”„‘’`]+")

_DOUBLE = r"(?:\\{0,2}[\"“”„]|&quot;)"
_SINGLE = r"(?:\\{0,2}['‘’]|&apos;)"
_BACKTICK = r"`"
# A quote ends a value only before another attribute or the end of the tag, so that an apostrophe or an unescaped inch
# mark within a label does not.
_AFTER = r"(?=[\s,]*(?:(?:/\s*)?>|[A-Za-z_][\w-]{0,31}\s*=))"
_QUOTED = tuple((re.compile(kind), re.compile(kind + _AFTER)) for kind in (_DOUBLE, _SINGLE, _BACKTICK))

_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
# Characters that would be read back as syntax: markup, any quote, a backslash before a quote, line structure. Quotes
# get numeric references because the named ones are themselves read as quotes.
_TO_ESCAPE = {ord(c): f"&#{ord(c)};" for c in "\"'“”„‘’`\\\n\r\t"} | {
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
}
_QUOTE_STARTS = "\"'“”„‘’`\\&"
_BLANK = " \t\r\n"
_QUOTE_PAIRS = ('""', "''", "“”", "””", "‘’", "’’", "``")
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,20}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})")
_MAX_COORDINATE = 1e9
_NO_PHRASE = re.compile(r"[\d.;:!?,]|n['’]t\b")
_MAX_PHRASE_WORDS = 6
_SAYS_MORE = split_words(
    "no not none never nor neither without is are was were there so answer yes true false i "
    "zero two three four five six seven eight nine ten eleven twelve"
)
"""Words that count, deny or conclude. A text inside a tag with one of these words is more than a name for the object.
"""
_COUNT = r"[1-9]\d{0,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_NUMBERED = re.compile(
    rf"\(?(?:(?:#|no\.?|nr\.?|number)\s?)?(?:{_COUNT}|(?:[1-9]\d{{0,2}})(?:st|nd|rd|th)"
    r"|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last)[.)]?",
    re.IGNORECASE,
)
_THESE = re.compile(
    rf"(?:(?:the|these|those|all|both|other|another)\s+)+(?:{_COUNT})(?:\s+(?:ones?|of (?:them|these|those)))?"
    r"(?:\s+(?:here|there))?",
    re.IGNORECASE,
)
"""Matches a text that means counted things without naming them, such as "these four" or "the other two"."""
_COUNT_BEFORE = re.compile(rf"(?:{_COUNT})\s+(?=\S)", re.IGNORECASE)


@dataclass(frozen=True)
class Tag:
    """Holds one tag as it is read.

    Attributes:
        name: ``point``, ``points`` or ``box``, in lower case.
        attributes: names and unescaped values in their written order. A name that is written twice with different
            values occurs twice.
        inner: unescaped text up to the closing tag. It is None if no closing tag follows before another tag or the end
            of the text.
        start: offset of ``<``.
        end: offset after the closing tag if the tag has one, otherwise after the opening tag.
        is_open: whether the tag is neither closed nor self-closing. Such a tag is also read, but its form is wrong.
    """

    name: str
    attributes: tuple[tuple[str, str], ...]
    inner: str | None
    start: int
    end: int
    is_open: bool = False

    @property
    def label(self) -> str:
        """Return the name of the object: the tag's attribute, or the inner text if it adds something to the attribute.

        All model families write the name twice: as an attribute, and as the inner text (the text before the closing
        tag). The attribute is ``alt``, or ``label`` if there is no ``alt`` (paper Argos, Fig. 10). The result is the
        attribute if the inner text adds nothing to it. This is the case if the inner text is one of these:

        - empty, or the same name;
        - a short phrase for the same thing ("the first one");
        - only the object's number ("1", "#2").

        In all other cases, the result is the inner text, so that no text is hidden from the scorers (checks of the
        response). These are examples:

        - The tag has no attribute.
        - The inner text adds a word ("red ball" for "ball"), or contradicts the attribute.
        - The inner text has more than six words, or has punctuation or digits that are not the object's number.
        - The inner text has a word that counts ("three"), denies ("no") or concludes ("so").
        """
        named = dict(reversed(self.attributes))
        label = named.get("alt") or named.get("label") or ""
        if label and (not self.inner or self.inner == label or _is_phrase(self.inner, label)):
            return label
        return self.inner or ""

    @property
    def is_numbered(self) -> bool:
        """Return whether the inner text is only the object's number, such as "1", "#2" or "third"."""
        return self.inner is not None and is_number_only(self.inner)


def is_number_only(text: str) -> bool:
    """Return whether the text of a tag is only an object's number, such as "1", "#2", "(3)" or "third"."""
    return _NUMBERED.fullmatch(text) is not None


def _is_phrase(inner: str, label: str) -> bool:
    """Return whether the text inside a tag is a short phrase that can name the same thing as its label.

    The result is also True for these texts:

    - a number alone ("1");
    - a number before a phrase for the same thing ("3 yellow");
    - words that mean the objects without naming them ("these four");
    - a text without letters and digits ("●").
    """
    if is_number_only(inner) or _THESE.fullmatch(inner) or not any(map(str.isalnum, inner)):
        return True
    inner = _COUNT_BEFORE.sub("", inner, count=1)
    words = inner.lower().split()
    if _NO_PHRASE.search(inner) or len(words) > _MAX_PHRASE_WORDS or not _SAYS_MORE.isdisjoint(words):
        return False
    return names_alike(inner, label) is not False and not own_words(label) < own_words(inner)


def scan_tags(text: str) -> list[Tag]:
    """Find all well-formed tags of points and boxes in a text, in order.

    Never raises; takes time linear in ``len(text)``.
    """
    cuts = [match.start() for match in _CUT.finditer(text)]
    tags: list[Tag] = []
    for index, start in enumerate(cuts):
        limit = cuts[index + 1] if index + 1 < len(cuts) else len(text)
        opened = _OPEN.match(text, start, limit)
        if opened is None:
            continue
        read = _read_attributes(text, opened.end(), limit)
        if read is None:
            continue
        attributes, end, closed = read
        name, inner = opened.group(1).lower(), None
        closing = None if closed else _CLOSE.match(text, limit)
        if closing is not None and closing.group(1)[0].lower() == name[0]:
            inner, end = _unquote(text[end:limit]), closing.end()
        tags.append(Tag(name, attributes, inner, start, end, is_open=not closed and inner is None))
    return tags


def unescape(text: str) -> str:
    """Return the text with each HTML character reference replaced by its character: ``&lt;`` becomes ``<``.

    A reference must end with a semicolon. The result is not unescaped again.
    """
    return _ENTITY.sub(lambda match: html.unescape(match.group()), text) if "&" in text else text


def format_points_tag(
    label: str, positions: Sequence[tuple[float, float]], is_open: bool = False, inner: str | None = None
) -> str:
    """Return the tag of one or more points, such as ``<points x1="61.5" y1="40" alt="dog">dog</points>``.

    This is the form that this project always writes. :func:`scan_tags` finds the same label in it. ``label`` is the
    name of the objects, and ``positions`` are the (x, y) of the points. ``inner`` is the text inside the tag, which a
    reader sees. If ``inner`` is None or empty, the label is used for it. If ``is_open`` is True, the inner text and the
    closing tag are omitted, so that an unclosed tag stays unclosed when it is written again.

    Raises:
        ValueError: a coordinate is not finite or not below 1e9.
    """
    attributes = " ".join(
        f'x{n}="{format_number(x)}" y{n}="{format_number(y)}"' for n, (x, y) in enumerate(positions, start=1)
    )
    return f'<points {attributes} alt="{_escape(label)}">' + ("" if is_open else f"{_escape(inner or label)}</points>")


def format_box_tag(label: str, corners: tuple[float, float, float, float]) -> str:
    """Return the tag of a box, in the form that this project always writes: ``<box alt="dog">[1,2,30,40]</box>``.

    ``corners`` are (x1, y1, x2, y2). Without a label, the attribute ``alt`` is left out.

    Raises:
        ValueError: a coordinate is not finite or not below 1e9.
    """
    alt = f' alt="{_escape(label)}"' if label else ""
    return f"<box{alt}>[{','.join(map(format_number, corners))}]</box>"


def parse_number(written: str) -> float | None:
    """Return the value of a coordinate that is written as a plain decimal number, such as "61.5".

    A plain number has ASCII digits, no exponent, and an absolute value below 1e9. Returns None for any other text.
    """
    if _NUMBER.fullmatch(written.strip(_BLANK)) is None:
        return None
    value = float(written)
    return value if abs(round(value, 1)) < _MAX_COORDINATE else None


def format_number(value: float) -> str:
    """Return the text of a coordinate with at most one decimal: "61.5", and "40" for 40.0.

    The text has no exponent and no negative zero.

    Raises:
        ValueError: the value is not finite, or its absolute value is 1e9 or more.
    """
    if not math.isfinite(value) or abs(round(value, 1)) >= _MAX_COORDINATE:
        raise ValueError(f"a coordinate must be finite and below 1e9, got {value}")
    written = f"{value:.1f}".removesuffix(".0")
    return "0" if written == "-0" else written


def _escape(label: str) -> str:
    """Escape a label, so that it is still the same after it has been written into a tag and read again.

    Quotes, backslashes, line ends, tabs and the signs ``&``, ``<`` and ``>`` are escaped, and so are spaces at the
    start and the end.
    """
    core = label.strip(_BLANK)
    head = label[: len(label) - len(label.lstrip(_BLANK))]
    tail = label[len(head) + len(core) :]
    edges = [part.replace(" ", "&#32;").translate({ord(c): f"&#{ord(c)};" for c in "\t\r\n"}) for part in (head, tail)]
    return edges[0] + core.translate(_TO_ESCAPE) + edges[1]


def _unquote(raw: str) -> str:
    """Return the inner text of a tag, without white space and quotes around it, and unescaped (:func:`unescape`).

    If the inner text ``raw`` begins with ``>`` and ends with ``<``, these two signs are removed first. The paper
    Argos has such tags: in ``<<point …>>”object”<</point>>``, ``raw`` is ``>”object”<``, and the result is ``object``.
    """
    raw = raw.strip(_BLANK)
    if len(raw) >= 2 and raw[0] == ">" and raw[-1] == "<":
        raw = raw[1:-1].strip(_BLANK)
    if len(raw) >= 2 and raw[0] + raw[-1] in _QUOTE_PAIRS:
        raw = raw[1:-1].strip(_BLANK)
    return unescape(raw)


def _read_attributes(text: str, at: int, limit: int) -> tuple[tuple[tuple[str, str], ...], int, bool] | None:
    """Read the attributes of a tag from the offset ``at`` up to ``>``; return None if they are malformed.

    ``limit`` is the offset at which the search for the ``>`` ends. The result has three values: the attributes, the
    offset after the ``>``, and whether the tag is self-closing.
    """
    found: dict[tuple[str, str], None] = {}
    while True:
        ended = _TAG_END.match(text, at, limit)
        if ended is not None:
            return tuple(found), ended.end(), bool(ended.group(1))
        named = _ATTRIBUTE.match(text, at, limit)
        value = None if named is None else _read_value(text, named.end(), limit)
        if named is None or value is None:
            return None
        raw, at = value
        found[named.group(1).lower(), unescape(raw.strip(_BLANK))] = None


def _read_value(text: str, at: int, limit: int) -> tuple[str, int] | None:
    """Read one attribute value, which begins at the offset ``at`` and ends before the offset ``limit``.

    Returns the value as written, without its quotes, and the offset after the value. Returns None if the value has no
    end.
    """
    first = text[at : at + 1]
    for opening, closing in _QUOTED if first in _QUOTE_STARTS else ():
        opened = opening.match(text, at, limit)
        if opened is None:
            continue
        closed = closing.search(text, opened.end(), limit)
        if closed is not None:
            return text[opened.end() : closed.start()], closed.end()
        # The closing quote is missing: the end of the tag ends the value too.
        end = text.find(">", opened.end(), limit)
        return None if end < 0 else (text[opened.end() : end], end)
    bare = _BARE_VALUE.match(text, at, limit)
    return None if bare is None else (bare.group().removesuffix("/"), bare.end())
