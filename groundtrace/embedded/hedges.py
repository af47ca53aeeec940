"""Finds suppositions in a reasoning, such as "it could be a square or a rectangle", and whether they are decided later.

For example, the later words "on a closer look it is a square" decide which of these two possibilities is true. A
supposition is not a claim of the reasoning, so it is not checked against the image. If no later words decide the
supposition, the reasoning leaves open what the object is.
"""

import re
from collections.abc import Sequence

from groundtrace.embedded.sight.labels import colour_word, kind_word, singular
from groundtrace.embedded.vocabulary import DOUBT, words
from groundtrace.grading.answers.numerals import read_numerals

HYPOTHETICAL = re.compile(
    r"\b(?:if|whether|unless|suppose|supposing|had (?:there|it)|at first|initially|first impression|might|could|may|"
    r"one would|would (?:have to|need|require|take)|(?:for|to make) (?:the|this|that) \w+ (?:to be|to hold|true|false)|"
    r"ob|wenn)\b"
)
_DOUBT = re.compile(rf"\b(?:{'|'.join(sorted(DOUBT))})\b(?P<supposed>[^,;:—–]*)(?P<rest>.*)", re.DOTALL)
_SETTLES = re.compile(
    r"(?:(?:\b(?P<subject>it|this|that|they|these|those|shape|object|one|thing|figure|colou?r)|§)"
    r"(?: \w+ly| really| indeed)* (?:is|are|must be|has to be|turns? out(?: to be)?|proves?(?: to be)?)"
    r"|\b(?:closer|closely|close[- ]up|up close|carefully|looking again|zoom(?:ed|ing)?(?: in)?)\b)(?P<after>[^,;:—–]*)"
)
_PLURAL = re.compile(r"\b(?:both|they|these|those|all)\b")
_ASIDE = re.compile(r"\b(?:next|beside|near|above|below|under|over|behind|between|than|like|of)\b")
_NEGATIONS = words("negations")


def asserted(sentence: str) -> str:
    """Return the part of a sentence that is asserted, without its suppositions.

    The first of these rules that applies is used:

    - A sentence without a supposition ("it may be …") is returned unchanged.
    - If the sentence has the word "but", the text after the last "but" is returned.
    - If the text after the supposition states what is true, this text is returned. For example, "it may be black, on a
      closer look it is blue" becomes ", on a closer look it is blue".
    - For all other sentences, the result is "".
    """
    if not HYPOTHETICAL.search(sentence):
        return sentence
    if " but " in sentence:
        return sentence.rpartition(" but ")[2]
    doubt = _DOUBT.search(sentence)
    return doubt["rest"] if doubt is not None and _settles(doubt, doubt["rest"]) else ""


def without_settled(sentence: str, behind: str) -> str:
    """Return a sentence without its supposition ("it may be black") if later words decide what is true ("it is blue").

    ``behind`` is the next sentence. The deciding words are in ``behind``, or after the supposition in ``sentence``.
    Without such words, or without a supposition, the sentence is returned unchanged.
    """
    doubt = _DOUBT.search(sentence)
    if doubt is None or not any(_settles(doubt, each) for each in (doubt["rest"], behind)):
        return sentence
    return sentence[: doubt.start()] + doubt["rest"]


def _settles(doubt: re.Match[str], after: str) -> bool:
    """Return whether the text ``after`` decides a doubt, as "it is blue" decides the doubt "it may be black".

    ``doubt`` is the match of the doubting words. The text must state one value: a shape, a colour or a number. If the
    doubt has alternatives ("a square or a circle"), the value must be one of them. The text must not contain a doubt, a
    question or a negation. The value must belong to the object itself: "it is next to a square" decides nothing. If the
    doubt is about several objects ("both may be black"), a text about a single object ("it is blue") decides nothing.
    """
    if "?" in after or HYPOTHETICAL.search(after) or (DOUBT | _NEGATIONS) & {*re.findall(r"[^\W\d_]+", after)}:
        return False
    after, alternatives = " ".join(after.split()), _values(doubt["supposed"])
    of_several = _PLURAL.search(doubt.string[: doubt.start()]) is not None
    several = [values for values in alternatives if len(values) > 1]
    for found in _SETTLES.finditer(after):
        if of_several and found["subject"] in ("it", "this", "that"):
            continue
        parts = _values(_ASIDE.split(found["after"])[0])
        pairs = [*zip(alternatives, parts, strict=True)]
        if several and all(len(part) == 1 and part <= values for values, part in pairs if len(values) > 1):
            return True
        if not several and any(len(part) == 1 for values, part in pairs if values):
            return True
    return False


def _values(text: str) -> Sequence[frozenset[object]]:
    """Return the shapes, the colours and the numbers that a text names, as three sets in this order."""
    found = re.findall(r"[^\W\d_]+", text)
    kinds = frozenset(singular(word) for word in found if kind_word(word))
    colours = frozenset(colour_word(word) for word in found) - {None}
    return kinds, colours, frozenset(each.value for each in read_numerals(text).numerals)
