"""Reads numbers in English words.

Cardinals ("seven") and fractions ("two thirds") are read anywhere in a text. Ordinals ("third") and "none" are read
only if they are the whole answer.

"One" after a determiner is a pronoun ("the correct one"), so it is not a number. Upper and lower case are not
distinguished.
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
SCALES |= {"lakh": 10**5, "lakhs": 10**5, "crore": 10**7, "crores": 10**7}
_TIMES = {"once": 1, "twice": 2, "thrice": 3, "dozen": 12}
"""Words that are numbers only as whole answers."""
_PARTS = {
    "half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4, "fourth": 4, "fourths": 4,
    "fifth": 5, "fifths": 5, "sixth": 6, "sixths": 6, "seventh": 7, "sevenths": 7, "eighth": 8, "eighths": 8,
    "ninth": 9, "ninths": 9, "tenth": 10, "tenths": 10, "hundredth": 100, "hundredths": 100,
}  # fmt: skip
_IRREGULAR = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth"}
_IRREGULAR |= {"twelve": "twelfth"}


def _ordinal(word: str) -> str:
    return _IRREGULAR.get(word) or (word[:-1] + "ieth" if word.endswith("y") else word + "th")


_ORDINALS = {_ordinal(word): word for word in WORDS if WORDS[word]}
_ORDINALS |= {f"{word}th": word for word in SCALES if word.isalpha() and word.endswith(("d", "n"))}
_ORDINAL_DIGITS = re.compile(r"(\d{1,4})(?:st|nd|rd|th)")
_NOT_COUNTED = (
    r"(?:less|this|is|was|yes|guess|clues|ideas|answers|images|details|pictures|numbers|options|choices|\w+us)\b"
)
_NOT_NONE = r"(?:doubt|question|(?:more|less|fewer)\s+than)\b"
"""Matches words after "no" with which it does not mean 0, as in "no doubt seven birds" and "no fewer than two"."""
_NONE = re.compile(
    r"(?:(?:there(?:\s+(?:is|are)|['’]s)|(?:i|we)(?:\s+can)?\s+see|it\s+(?:has|shows|contains))\s+)?"
    rf"(?:(?:none|nil|nothing|zero|no)(?:\s+of\s+(?:them|these|those))?|no\s+(?!{_NOT_NONE})(?:[a-z-]+\s+){{0,3}}?(?!{_NOT_COUNTED})[a-z-]+s)"
    r"(?:\s+(?:is|are)\s+(?:visible|shown|seen|present|there))?(?:\s+(?:in|on)\s+(?:the|this)\s+[a-z]+)?"
)
_LETTERS = re.compile(r"[A-Za-z]+")
_ONE = re.compile(
    r"\b(?:the|this|that|these|those|each|every|any|which|another|other|some|no|a|an)\s+"
    r"(?:(?!(?:is|are|was|shows|has|contains)\b)[a-z]+\s+)?one\b"
)


def read_count_words(text: str) -> int | None:
    """Return the number that a text names, if the whole text is an ordinal, a number of times or a word for 0.

    Examples are 3 for "third" and "the 3rd row", 2 for "twice", and 0 for "there are none". Returns None for any other
    text, also for "three".
    """
    words = " ".join(text.casefold().replace("-", " ").split()).rstrip(".!。")
    if len(words) > 100:
        return None
    return 0 if _NONE.fullmatch(words) else _TIMES.get(words) or read_ordinal(text)


def read_ordinal(text: str) -> int | None:
    """Return the number of an ordinal, such as 3 for "third" or "the 3rd row"; None for any other text.

    One noun may follow the ordinal.
    """
    words = text.casefold().replace("-", " ").rstrip(".!。 ").split()[:12]
    words = words[1:] if words[:1] == ["the"] else words
    if words[1:] and words[-1].isascii() and words[-1].isalpha() and words[-1] not in {"half", "quarter", *_ORDINALS}:
        words = words[:-1]
    digits = _ORDINAL_DIGITS.fullmatch(words[0]) if len(words) == 1 else None
    if digits is not None:
        return int(digits.group(1))
    # "One third" is a share.
    if not words or words[-1] not in _ORDINALS or _is_cardinal(" ".join(words)):
        return None
    last = _ORDINALS[words[-1]]
    cardinal = " ".join([*words[:-1], last] if words[1:] or last in WORDS else ["one", last])
    found = locate_words(cardinal)
    return int(found[0][0]) if len(found) == 1 and found[0][1:] == (0, len(cardinal)) else None


def is_number_in_words(text: str) -> bool:
    """Return whether a text is only one number in words: "seven", "two thirds", "third", "the 21st".

    The result is False for "none" and similar words.
    """
    return bool(read_count_words(text)) or _is_cardinal(text)


def _is_cardinal(text: str) -> bool:
    """Return whether a text is only one number or fraction in words."""
    found = locate_words(text)
    return len(found) == 1 and not (text[: found[0][1]] + text[found[0][2] :]).strip(" .-")


def locate_words(text: str) -> list[tuple[Fraction, int, int]]:
    """Find the numbers in words in a text, such as "two thirds" or "minus two hundred and five".

    Each result holds the number, the offset of its first character, and the offset after its last character. The
    results are in the order of the text.
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
    """Return the number or fraction that begins at the word with the index ``at``, and the index after its last word.

    If no number begins there, returns 0 and ``at``.
    """
    if words[at] == "half":
        of = at + 1 + (words[at + 1 : at + 2] == ["a"])
        return _scaled(Fraction(1, 2), words, of) if of > at + 1 and words[of : of + 1] else (Fraction(1, 2), at + 1)
    whole, after = (1, at + 1) if words[at] in {"a", "an"} else _whole(words, at)
    # "Twenty third" is an ordinal, and "two thirds" a share.
    is_part = after < len(words) and after > at and words[after] in _PARTS
    if is_part and (whole == 1 or words[after].endswith("s") or words[after] in {"half", "quarter"}):
        return _scaled(Fraction(whole, _PARTS[words[after]]), words, after + 1)
    if words[at] in {"a", "an"}:
        return Fraction(0), at
    if after > at and words[after : after + 1] == ["and"]:
        part = after + (2 if words[after + 1 : after + 2] in (["a"], ["one"]) else 1)
        if words[part : part + 1] and words[part] in _PARTS and words[part] in {"half", "third", "quarter"}:
            return _scaled(whole + Fraction(1, _PARTS[words[part]]), words, part + 1)
    if words[at] == "point" or (after > at and words[after : after + 1] == ["point"]):
        return _decimal(whole if after > at else 0, words, max(after, at))
    return Fraction(whole), after


def _scaled(value: Fraction, words: list[str], at: int) -> tuple[Fraction, int]:
    """Multiply a number by the scale word after it, if there is one, as in "two and a half million" or "half a dozen".

    ``at`` is the index in ``words`` at which a scale word may follow the number. Return the number, and the index after
    its last word.
    """
    scale = SCALES.get(words[at]) if at < len(words) else None
    return (value, at if words[at - 1] != "a" else at - 1) if scale is None else (value * scale, at + 1)


def _decimal(whole: int, words: list[str], at: int) -> tuple[Fraction, int]:
    """Return the value of a number with decimals in words ("three point one four"), and the index after its last word.

    ``whole`` is the number before the word "point", and ``at`` is the index of this word in ``words``. If no digit
    follows, returns ``whole`` and ``at``.
    """
    end = at + 1
    while end < len(words) and WORDS.get(words[end], 10) < 10:
        end += 1
    digits = "".join(str(WORDS[word]) for word in words[at + 1 : end])
    return (whole + Fraction(f"0.{digits}"), end) if digits else (Fraction(whole), at)


def _whole(words: list[str], at: int) -> tuple[int, int]:
    """Return the whole number that begins at the word with the index ``at``, and the index after its last word.

    If no number begins there, returns 0 and ``at``.
    """
    total = current = 0
    start = at
    while at < len(words):
        word = words[at]
        if word in WORDS and (at == start or _continues(words[at - 1], WORDS[word])):
            current += WORDS[word]
        elif word in WORDS and at == start + 1 and 13 <= current <= 20 and WORDS[word] >= 10:
            current = current * 100 + WORDS[word]  # "nineteen ninety-nine"
        elif word in SCALES and (at > start or words[at - 1 : at] == ["a"]):
            scaled = max(current, 1) * SCALES[word]
            total, current = (total, scaled) if SCALES[word] <= 100 else (total + scaled, 0)
        elif word != "and" or at == start or words[at - 1] not in SCALES or not WORDS.keys() & words[at + 1 : at + 2]:
            break
        at += 1
    return total + current, at


def _continues(before: str, value: int) -> bool:
    """Return whether a number word continues a number, as "one" does in "twenty one" and "hundred and one".

    ``before`` is the word before the number word ("twenty", "and"), and ``value`` is the number word's value (1).
    """
    return before in SCALES or before == "and" or (before in {*_TENS, "twenty"} and 0 < value < 10)
