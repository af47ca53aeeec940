"""Compares answers that list several things: plain enumerations ("A, B and C") and sequences ("A → B → C").

In a sequence, the order matters. In an enumeration, only the items and the number of their occurrences matter. Two
items are equal if their normalised texts (:func:`groundtrace.grading.answers.choices.normalise_text`) are equal, or if
they are the same number (without tolerance). Two items are different if both are short and plain, and neither contains
the other. In all other cases a judge model decides. Examples are "dark red" for "red", and an item inside a sentence. A
text that joins its items by "or" names alternatives, so it is not a list.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from groundtrace.grading.answers.choices import normalise_text
from groundtrace.grading.answers.number_notation import plain_notation
from groundtrace.grading.answers.numerals import MAX_CHARS, read_numerals

_ARROW = re.compile(r"\s*(?:→|⇒|⟶|->|=>|-->|\$?\\(?:rightarrow|to|longrightarrow|Rightarrow)(?![A-Za-z])\$?)\s*")
_SEPARATOR = re.compile(r"\s*(?:[,;、，]\s*(?:and\s+)?|\band\b|\s&\s)\s*", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_MARKER = re.compile(r"(?m)^\s*(?:[-*•]|\(?\d{1,2}[.)]\)?)\s+")
_BRACKETED = re.compile(r"(?:\\\{|[\[({])(.*?)(?:\\\}|[\])}])", re.DOTALL)
_SET = re.compile(r"\\?\{([^{}]*?)\\?\}")
_INNER = re.compile(r"[\[(][^\[\]()]*[\])]")
_NUMBER = re.compile(r"[-+−$€£¥]?\d[\d,.\s]*(?:/\s?\d+)?%?")
_PART = r"[-+]?(?:\d{1,15}(?:\.\d{0,15})?(?:\s?/\s?[1-9]\d{0,14})?|\.\d{1,15})"
_TUPLE = re.compile(rf"([(\[]?)\s*({_PART}(?:\s*[,;]\s*{_PART})+)\s*([)\]]?)\.?")
_ASSIGNMENT = re.compile(r"([A-Za-z]\w{0,2})\s*=\s*([^=]+)")
_MAX_SHORT_WORDS = 3
_MAX_ITEMS = 50


@dataclass(frozen=True)
class AnswerTuple:
    """Holds the numbers of a point or a vector, such as "(5, 6)". Two numbers may also be the ends of an interval.

    ``values`` are the numbers in their written order. ``brackets`` are the opening and the closing bracket, such as
    "[)"; "" if the numbers have no brackets.
    """

    values: tuple[Fraction, ...]
    brackets: str

    @property
    def is_half_open(self) -> bool:
        """Return whether one bracket is round and the other square. Only a half-open interval has such brackets."""
        return self.brackets in {"[)", "(]"}


Item = str | Fraction | AnswerTuple


@dataclass(frozen=True)
class AnswerList:
    """Holds the items of a list in an answer, in their written order.

    ``is_sequence`` is True if arrows join the items ("A → B"). Only then does their order matter.
    """

    items: tuple[Item, ...]
    is_sequence: bool

    @property
    def is_plain(self) -> bool:
        """Return whether every item is a number, a point, or a text of at most three words.

        Each word must consist of digits and letters only. The letters must be of a script that has capital letters,
        such as Latin, Greek or Cyrillic. So Chinese text is not plain.
        """
        return all(not isinstance(item, str) or _is_short(item) for item in self.items)


def read_list(text: str) -> AnswerList | None:
    """Return the items of a gold (correct) answer, if it is only a list such as "red, blue and green". Never raises.

    A list has at least two items. Each item must be plain: a number, a point or at most three words. Returns None for
    any other text.
    """
    found = _read(text, False)
    return found if found is not None and len(found.items) > 1 and found.is_plain else None


def same_list(predicted: str, gold: AnswerList) -> bool | None:
    """Return whether an answer lists the same items as the gold (correct) list.

    ``predicted`` is the text of the answer. Returns None if rules cannot decide, for example if the answer is not a
    list of plain items, or if it has "dark red" in place of "red".
    """
    given = _read(predicted, True)
    if given is None:
        return None
    if given.items == gold.items:
        return True
    if not gold.is_sequence and Counter(given.items) == Counter(gold.items):
        return True
    if len(given.items) == 1 and isinstance(given.items[0], str) and given.items[0] not in gold.items:
        return None  # one word may be a name for all of them ("pink", "AC")
    if not given.is_plain or (not gold.is_sequence and _may_be_a_name(gold)):
        return None
    return None if _overlap(given.items, gold.items) else False


def read_tuple(text: str) -> AnswerTuple | None:
    """Return the numbers and brackets of a tuple or interval such as "(5, 6)", "[1, 3)" or "5, 6". Never raises.

    The text must have both brackets or none. Returns None for any other text.
    """
    if len(text) > MAX_CHARS:
        return None
    match = _TUPLE.fullmatch(plain_notation(text.replace("$", "")).strip())
    if match is None or bool(match.group(1)) != bool(match.group(3)):
        return None
    parts = re.split("[,;]", re.sub(r"\s", "", match.group(2)))
    return AnswerTuple(tuple(map(Fraction, (part.rstrip(".") for part in parts))), match.group(1) + match.group(3))


def same_tuple(predicted: AnswerTuple | None, gold: AnswerTuple) -> bool | None:
    """Return whether an answer equals the gold (correct) tuple or interval.

    ``predicted`` is None if the answer is not a tuple. Returns None if rules cannot decide, in these cases:

    - The answer is not a tuple, and the gold has no brackets.
    - The gold has no brackets, and the answer has the same numbers in another order: they may be a list.
    - Both have the same two numbers, but in different brackets, as (1, 2) and [1, 2] do: these may be two different
      intervals, or the same point.
    - One is a half-open interval such as [1, 2), and the other has no brackets.
    """
    if predicted is None:
        return None if not gold.brackets else False
    if predicted.values != gold.values:
        return None if not gold.brackets and sorted(predicted.values) == sorted(gold.values) else False
    if predicted.brackets == gold.brackets:
        return True
    if predicted.is_half_open or gold.is_half_open:
        return False if predicted.brackets and gold.brackets else None
    return True if len(gold.values) > 2 or not predicted.brackets or not gold.brackets else None


def _read(text: str, is_answer: bool) -> AnswerList | None:
    """Return the items of a text; None if the text cannot be a list, e.g. because it has the word "or".

    A text without separators is a list of one item. ``is_answer`` is True for an answer, and False for a gold (correct)
    answer. In an answer, each item may be on its own line, and brackets of any kind may enclose the list. A gold must
    be on one line, and only braces may enclose it ("{1, 2}").
    """
    text = text.strip().strip("$").rstrip(".。").strip()
    if not text or len(text) > MAX_CHARS or re.search(r"\bor\b", text, re.IGNORECASE):
        return None
    inside = (_BRACKETED if is_answer else _SET).fullmatch(text)
    if inside is not None and not set("()[]{}") & set(inside.group(1)):
        text = inside.group(1).strip()
    if "\n" in text:
        if not is_answer:
            return None
        text = ", ".join(line for line in (part.strip(" ,;") for part in _MARKER.sub("\n", text).split("\n")) if line)
    is_sequence = _ARROW.search(text) is not None
    parts = _split(_ARROW if is_sequence else _SEPARATOR, _THOUSANDS.sub("", text))
    if len(parts) > _MAX_ITEMS:
        return None
    items = tuple(map(_item, parts))
    return AnswerList(items, is_sequence) if "" not in items else None


def _split(separator: re.Pattern[str], text: str) -> list[str]:
    """Return the parts of a text between separators.

    A separator in brackets, such as the comma in "(1, 2)", does not split the text.
    """
    inner = [match.span() for match in _INNER.finditer(text)]
    parts, done = list[str](), 0
    for found in separator.finditer(text):
        if not any(start < found.start() < end for start, end in inner):
            parts.append(text[done : found.start()])
            done = found.end()
    return [*parts, text[done:]]


def _item(text: str) -> Item:
    """Return an item in the form in which items are compared: a point, an exact number or normalised words."""
    point = read_tuple(text) if text[:1] in "([" else None
    if point is not None:
        return point
    words = normalise_text(text)
    number = read_numerals(text).single
    if number is not None and (_NUMBER.fullmatch(text.strip()) or (words.isalpha() and " " not in words)):
        return number.value
    return words


def _may_be_a_name(gold: AnswerList) -> bool:
    """Return whether a list may be one name, as "Salt and Pepper House" is.

    The result is True if the list has two items, and at least one of them has several words.
    """
    return len(gold.items) == 2 and any(isinstance(item, str) and " " in item for item in gold.items)


def _overlap(given: tuple[Item, ...], gold: tuple[Item, ...]) -> bool:
    """Return whether an item of one list is part of a different item of the other list.

    There are two cases. First, the words of the shorter item are in the longer item ("car" in "red car"). Second, the
    shorter item is a word of three or more letters with which the longer item begins ("car" in "cars").
    """
    words = [{item for item in items if isinstance(item, str)} for items in (given, gold)]
    return any(one != other and (_is_within(one, other) or _is_within(other, one)) for one, other in product(*words))


def _is_within(short: str, long: str) -> bool:
    return f" {short} " in f" {long} " or (len(short) > 2 and long.startswith(short) and short.isalpha())


def _is_short(words: str) -> bool:
    """Return whether a text has one to three words, with only digits and letters of scripts that have capital letters.

    Examples of such scripts are Latin and Greek. Chinese is not one of them: Chinese has no spaces between words, so
    the number of words is unknown.
    """
    if not 0 < len(words.split()) <= _MAX_SHORT_WORDS:
        return False
    return all(unicodedata.category(char)[:2] in {"Ll", "Lu", "Nd"} for char in words.replace(" ", ""))


def may_be_interval(text: str, gold: str) -> bool:
    """Return whether an answer may be an interval, while the gold (correct) answer is a set of the same numbers.

    The result is True if ``text`` (the answer) is two numbers in brackets, such as "(1, 2)", and ``gold`` is a set,
    such as "{1, 2}". The caller must have checked that their numbers are equal.
    """
    pair = read_tuple(text)
    return (
        pair is not None
        and len(pair.values) == 2
        and bool(pair.brackets)
        and _SET.fullmatch(gold.strip(" $")) is not None
    )


def read_assignments(text: str, least: int = 2) -> dict[str, str] | None:
    """Return a dict from each name to its value, for a text such as "a = 2, b = 5". Never raises.

    ``least`` is the minimum number of names. Returns None for a text with fewer names, and for any other text. The
    values in the result are texts.
    """
    if len(text) > MAX_CHARS or text.count("=") < least:
        return None
    found = [_ASSIGNMENT.fullmatch(part.strip(" $.")) for part in re.split(r"[,;\n]|\band\b", text)]
    values = {match.group(1): match.group(2) for match in found if match is not None}
    return values if len(values) == len(found) >= least else None
