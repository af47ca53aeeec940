"""Decides whether an answer that names no option by letter or text may still mean an option.

If an answer may mean an option, a judge model must grade the answer. Such an answer has one of the following:

- a distinctive word of an option ("the truck" for "a blue truck"); a word that all options have ("vitamin") is not
  distinctive;
- another unit or form ("1500 m" for "1.5 km", "six o'clock" for "6:00");
- the number of an option ("the second option");
- a word for all or none of the options.
"""

from __future__ import annotations

import functools
import re

from groundtrace.grading.answers.choices import normalise_text
from groundtrace.grading.answers.free_text import grade_text, is_free
from groundtrace.grading.answers.number_words import read_ordinal
from groundtrace.grading.answers.numerals import is_whole_number, read_numerals, same_number, same_value, with_digits
from groundtrace.grading.answers.polarity import is_refusal

_PLACE = re.compile(r"\b(?:option|choice|answer|number|no\.|image)\s*#?\s*(\d{1,2})\b|#(\d{1,2})\b", re.IGNORECASE)
_OPTION = re.compile(r"\s+(?:option|choice|one|answer|image|of\s+(?:them|these|those))\b.*", re.IGNORECASE)
_COLLECTIVE = re.compile(r"(?:all|both|none|neither|either|any|everything|nothing)\b", re.IGNORECASE)
_WORDS = re.compile(r"[^\W_]+")
_TELLING_NOTHING = frozenset(
    re.findall(
        r"\w+",
        "is are was be it its of the in on at to by and or for from with this that these those there than as one i he "
        "she they do does has have option choice answer correct",
    )
)
_SHORT_NOT = re.compile(r"n['’]t\b")
_is_free = functools.lru_cache(1024)(is_free)
_MIN_STEM = 4


def may_name(answer: str, choices: tuple[str, ...]) -> bool:
    """Return whether an answer may mean one of the options in other words, such as "the truck" for "a blue truck".

    ``choices`` are the texts of the options. The function never raises, and takes time linear in the length of the
    texts.
    """
    return not is_refusal(answer) and (
        _names_a_place(answer, len(choices))
        or _shares_a_telling_word(answer, choices)
        or (_COLLECTIVE.match(answer.strip()) is not None and has_collective(choices))
        or any(_is_another_form(answer, choice) for choice in choices)
    )


def has_collective(choices: tuple[str, ...]) -> bool:
    """Return whether one of the options means all or none of the others, as "All of the above" does.

    ``choices`` are the texts of the options.
    """
    return any(_COLLECTIVE.match(choice.strip()) for choice in choices)


def _names_a_place(answer: str, count: int) -> bool:
    """Return whether an answer gives the number of an option: "option 2", "the second one".

    The number must be from 1 to ``count``, the number of options of the question.
    """
    found = _PLACE.search(answer)
    number = int(found.group(1) or found.group(2)) if found is not None else read_ordinal(_OPTION.sub("", answer))
    return number is not None and 1 <= number <= count


def _shares_a_telling_word(answer: str, choices: tuple[str, ...]) -> bool:
    """Return whether a word of the answer, or another form of this word, is in some options but not in all."""
    options = [_words(choice) for choice in choices]
    for word in _words(answer):
        holders = sum(any(_is_form(word, other) for other in option) for option in options)
        if 0 < holders < len(options):
            return True
    return False


def _words(text: str) -> set[str]:
    words = _WORDS.findall(normalise_text(_SHORT_NOT.sub(" not", with_digits(text))))
    return {word for word in words if word not in _TELLING_NOTHING and not word.isdigit() and len(word) > 1}


def _is_form(one: str, other: str) -> bool:
    """Return whether two words are the same or have the same stem, such as "increases" and "increasing"."""
    if one == other:
        return True
    stem = max(_MIN_STEM, min(len(one), len(other)) - 3)
    return one[:stem] == other[:stem] and min(len(one), len(other)) >= _MIN_STEM


def _is_another_form(answer: str, choice: str) -> bool:
    """Return whether an answer may state the option ``choice`` in another form, as "1500 m" does for "1.5 km".

    The option must be one that rules can compare, such as a number, a quantity, a time or a range. The result is also
    True if the rules cannot decide whether the answer matches the option.
    """
    one, other = read_numerals(answer).single, read_numerals(choice).single
    if one is not None and other is not None and is_whole_number(choice):
        # Options are compared without tolerance, but a fraction may be rounded.
        return same_value(one, other) or (other.is_fraction and same_number(one, other))
    return not _is_free(choice) and grade_text(answer, choice).value != 0.0
