"""Numbers in English words: cardinals, fractions, and what counts as a whole answer only (ordinals, "none").

"One" after a determiner is a pronoun ("the correct one"), so it names no number. Words are read in lower case.
"""

from __future__ import annotations

import re
from fractions import Fraction

_SMALL = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty",
)
_TENS = re.findall(r"\w+", "thirty forty fifty sixty seventy eighty ninety")
WORDS = {word: n for n, word in enumerate(_SMALL)} | {word: n * 10 for n, word in enumerate(_TENS, 3)}
SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PARTS = {
    "half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4, "fourth": 4, "fourths": 4,
    "fifth": 5, "fifths": 5, "sixth": 6, "sixths": 6, "seventh": 7, "sevenths": 7, "eighth": 8, "eighths": 8,
    "ninth": 9, "ninths": 9, "tenth": 10, "tenths": 10, "hundredth": 100, "hundredths": 100,
}  # fmt: skip
_IRREGULAR = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth"}
_IRREGULAR |= {"twelve": "twelfth"}


def _ordinal(word: str) -> str:
    return _IRREGULAR.get(word) or (word[:-1] + "ieth" if word.endswith("y") else word + "th")


_ORDINALS = {_ordinal(word): n for word, n in WORDS.items() if n}
_ORDINALS |= {
    f"{ten} {_ordinal(one)}": WORDS[ten] + WORDS[one] for ten in ("twenty", *_TENS) for one in _SMALL[1:10]
}  # fmt: skip
_ORDINAL = re.compile(
    rf"(?:the\s+)?(?:(?P<digits>\d{{1,4}})(?:st|nd|rd|th)"
    rf"|(?P<word>{'|'.join(sorted(_ORDINALS, key=len, reverse=True))}))"
    r"(?:\s+(?!half|quarter)[a-z]+)?"
)
_NOT_COUNTED = (
    r"(?:less|this|is|was|yes|guess|clues|ideas|answers|images|details|pictures|numbers|options|choices|\w+us)\b"
)
_NONE = re.compile(
    r"(?:(?:there(?:\s+(?:is|are)|['’]s)|(?:i|we)(?:\s+can)?\s+see|it\s+(?:has|shows|contains))\s+)?"
    rf"(?:(?:none|nil|nothing|zero|no)(?:\s+of\s+(?:them|these|those))?|no\s+(?:[a-z-]+\s+){{0,3}}?(?!{_NOT_COUNTED})[a-z-]+s)"
    r"(?:\s+(?:in|on)\s+(?:the|this)\s+[a-z]+)?"
)
_LETTERS = re.compile(r"[A-Za-z]+")
_ONE = re.compile(
    r"\b(?:the|this|that|these|those|each|every|any|which|another|other|some|no|a|an)\s+"
    r"(?:(?!(?:is|are|was|shows|has|contains)\b)[a-z]+\s+)?one\b"
)


def read_count_words(text: str) -> int | None:
    """Returns the number of an answer that is an ordinal ("third", "the 3rd row") or says that there are none, as a
    whole; None for any other text.
    """
    text = " ".join(text.casefold().replace("-", " ").split()).rstrip(".!。")
    if len(text) > 100:
        return None
    if _NONE.fullmatch(text):
        return 0
    ordinal = _ORDINAL.fullmatch(text)
    if ordinal is None:
        return None
    return int(ordinal.group("digits")) if ordinal.group("digits") else _ORDINALS[ordinal.group("word")]


def is_number_in_words(text: str) -> bool:
    """Whether a text is one number in words and no more: "seven", "two thirds", "third", "the 21st"."""
    if read_count_words(text):
        return True
    found = locate_words(text)
    return len(found) == 1 and not (text[: found[0][1]] + text[found[0][2] :]).strip(" .-")


def locate_words(text: str) -> list[tuple[Fraction, int, int]]:
    """Returns the numbers of a text in words ("minus two hundred and five", "two thirds"), in order, each with the
    offsets of its first character and after its last.
    """
    text = _ONE.sub(lambda found: " " * len(found.group()), text.lower())
    spans = list(_LETTERS.finditer(text))
    words = [span.group() for span in spans]
    found: list[tuple[Fraction, int, int]] = []
    at = 0
    while at < len(words):
        value, after = _with_parts(words, at)
        if after > at:
            is_negative = at > 0 and words[at - 1] in {"minus", "negative"}
            start = spans[at - 1 if is_negative else at].start()
            found.append((-value if is_negative else value, start, spans[after - 1].end()))
        at = max(after, at + 1)
    return found


def _with_parts(words: list[str], at: int) -> tuple[Fraction, int]:
    """The number or fraction that begins at one word and the index after it; that index is ``at`` for none."""
    if words[at] in {"half"}:
        return Fraction(1, 2), at + 1
    whole, after = (1, at + 1) if words[at] in {"a", "an"} else _whole(words, at)
    if after < len(words) and after > at and words[after] in _PARTS:
        return Fraction(whole, _PARTS[words[after]]), after + 1
    if words[at] in {"a", "an"}:
        return Fraction(0), at
    if after > at and words[after : after + 1] == ["and"]:
        part = after + (2 if words[after + 1 : after + 2] in (["a"], ["one"]) else 1)
        if words[part : part + 1] and words[part] in _PARTS and words[part] in {"half", "third", "quarter"}:
            return whole + Fraction(1, _PARTS[words[part]]), part + 1
    return Fraction(whole), after


def _whole(words: list[str], at: int) -> tuple[int, int]:
    """The whole number that begins at one word and the index after it; that index is ``at`` where none begins."""
    total = current = 0
    start = at
    while at < len(words):
        word = words[at]
        if word in WORDS and (at == start or _continues(words[at - 1], WORDS[word])):
            current += WORDS[word]
        elif word in SCALES and (at > start or words[at - 1 : at] == ["a"]):
            scaled = max(current, 1) * SCALES[word]
            total, current = (total, scaled) if SCALES[word] <= 100 else (total + scaled, 0)
        elif word != "and" or at == start or words[at - 1] not in SCALES or not WORDS.keys() & words[at + 1 : at + 2]:
            break
        at += 1
    return total + current, at


def _continues(before: str, value: int) -> bool:
    """Whether a number word continues the number of the word before it: "twenty one", "hundred (and) one"."""
    return before in SCALES or before == "and" or (before in {*_TENS, "twenty"} and 0 < value < 10)
