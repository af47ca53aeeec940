"""Finds sentences which claim that an object is in the image, although the answer about this object is 0 or no."""

import re

from groundtrace.embedded.marked_text import MARK, MarkedText, assertions, is_negated
from groundtrace.embedded.sight.labels import Noun, kind_word, read_label
from groundtrace.grading.answers.number_words import WORDS
from groundtrace.grading.answers.numerals import read_numerals
from groundtrace.grading.answers.polarity import polarity
from groundtrace.schemas.records import Question

_IN_IMAGE = (
    r"(?: (?:there|visible|shown|present|you see))*(?: (?:in|on) (?:the|this) (?:image|picture|photo|scene))?\s*\?"
)
_ASKS_FOR = re.compile(
    rf"^\W*(?:how many (?P<many>[a-z ]+?) (?:are|is|do|can)(?: (?:you|we) see| be seen)?{_IN_IMAGE}"
    rf"|(?:is|are) there (?:an?|any|some) (?P<any>[a-z ]+?){_IN_IMAGE})"
)
"""Matches a question for things anywhere in the image, without further conditions on them."""
_NUMBER = "|".join(word for word in WORDS if WORDS[word])
_AMOUNT = rf"(?:an?|one|some|several|[1-9]\d?|{_NUMBER})"
_NOUN = r"(?P<noun>(?:[a-z]+ )?[a-z]+)"
_PRESENT = tuple(
    re.compile(pattern)
    for pattern in (
        r"\b(?:there (?:is|are)|(?:i|we|you) (?:can )?(?:see|find|spot|count)"
        rf"|(?:box|panel|image|picture|tower) (?:has|contains|holds|shows|includes))(?: (?:only|just|also|exactly))*"
        rf" {_AMOUNT} {_NOUN}\b",
        rf"\b(?:{_AMOUNT}|the) {_NOUN} (?:(?:is|are) (?:\w+ly )?(?:visible|located|found|seen|shown|present|in|on|at)"
        r"|appears?|lies?|sits?|stands?)\b",
    )
)


def states_presence(marked: MarkedText, question: Question) -> str | None:
    """Return a message if the answer is 0 or no, but a sentence claims that an object is present; else None.

    The object is the one that the question asks for. ``marked`` is the reasoning, and ``question`` holds the question
    and the answer. For example, the question is "How many circles are there in the image?", the answer is 0, and the
    sentence is "two circles are visible in the middle box". A question about a part of the image ("in the left box"),
    or with a condition on the objects ("touching the edge"), is not checked.
    """
    asked = _asked_thing(question)
    if asked is None:
        return None
    for sentence in assertions(marked):
        if is_negated(sentence.text):
            continue
        for pattern in _PRESENT:
            for found in pattern.finditer(sentence.text):
                noun = _noun_of(found["noun"])
                if noun is not None and asked.covers(noun):
                    return f"the answer is {question.answer}, but it states: {re.sub(MARK, '…', sentence.text).strip()}"
    return None


def _asked_thing(question: Question) -> Noun | None:
    """Return the noun for the objects that a question asks for, if the question's answer is "no" or 0.

    For example, the result is "circle" for "Are there any circles?" with the answer "no". Returns None for another
    answer or form of question.
    """
    number = read_numerals(question.answer).single
    if polarity(question.answer) is not False and (number is None or number.value != 0):
        return None
    asks = _ASKS_FOR.match(question.question.casefold())
    return None if asks is None else read_label(asks["many"] or asks["any"])


def _noun_of(words: str) -> Noun | None:
    """Return the noun with which a text begins: "circle" for "circle is", and "yellow circle" for "yellow circle".

    ``words`` is the text, which has one or two words. There are two cases: the first word is a noun for a
    known kind of shape; or the first word is a colour, and the second word is such a noun. For any other text, the
    result is None.
    """
    first, _, second = words.partition(" ")
    if kind_word(first) is not None:
        return read_label(first)
    return read_label(words) if kind_word(second) is not None else None
