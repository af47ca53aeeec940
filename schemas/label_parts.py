"""Separates the parts of a label: the name of the object, the number of objects, and the words that select one of
several objects.

Both "the second black square from the left" and "two black squares in the box" name black squares. The name is the noun
with the attributes of the object itself, such as its colour. A word for the number of objects ("two") is not part of
the name; :func:`without_counts` removes such words. Words that select one of several objects describe its place, its
order, or its relation to other objects ("second", "from the left"). :func:`thing_of` removes these words. Only code
that has the boxes of the objects can check such words. All other code ignores the words.
"""

import re
from collections.abc import Sequence


def split_words(text: str) -> frozenset[str]:
    """Return the set of the words of a text. Words are separated by blanks."""
    return frozenset(text.split())


_NUMBERS = "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_ORDINALS = "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last"
_IMAGE = "image|picture|photo|photograph|scene|frame|screenshot|view"

_IN_FRONT = re.compile(
    r"(?:(?:(?:one|all|both|some|each|any|several|many|few|pair|couple|group|set|trio|bunch|collection|cluster|number|"
    r"total|row|series) of|"
    r"the|an?|all|both|these|those|this|that|each|every|some|any|one|single|several|multiple|another|other|more|"
    rf"additional|further|same|only|sole|counted|\d{{1,2}}(?:st|nd|rd|th)|{_ORDINALS})\s+)+(?=\S)"
)
_ARTICLE = re.compile(r"(?:the|an?|of (?:the|these|those|all))\s+(?=\S)")
_RANK = re.compile(
    rf"(?:{_ORDINALS}|\d{{1,2}}(?:st|nd|rd|th))\s+(?:.*\bfrom\b|(?!west|east|rest|guest|chest|forest)"
    r"[a-z]+(?:est|most)\b)"
)
_HOW_MANY = re.compile(rf"(?:the\s+)?(?:\d{{1,2}}|{_NUMBERS})\s+(?=\S)")
_NUMBER = re.compile(
    r"(?:(?:(?:object|item|thing|instance|number|no\.?|nr\.?)\s*)?[#(]?\d{1,3}\s?[.):]\s+|(?:number|no\.?|nr\.?|#)\s?\d{1,3}\s+|\d{1,3}\s?[x×]\s+)"
    r"(?=\S)"
)
_INSTANCE = re.compile(
    r"\s+(?:[x×]\s?\d{1,3}|(?:#|no\.? ?|number |nr\.? ?)?\d{1,3}(?:\s?(?:/|of|out of)\s?\d{1,3})?|"
    rf"number (?:one|{_NUMBERS})|"
    r"\((?:#|no\.? ?)?\d{1,3}(?:\s?(?:/|of|out of)\s?\d{1,3})?\))$|(?<=\w)\(e?s\)$"
)
_SEEN = "shown|seen|visible|counted|found|displayed|pictured|depicted|present"
_BEHIND = re.compile(
    rf"\s+(?:(?:that|which)\s+(?:is|are|can be)\s+(?:{_SEEN})|(?:(?:that|which)\s+)?(?:i|we)\s+(?:can\s+)?"
    rf"(?:see|count(?:ed)?|find|found)|{_SEEN}|(?:over\s+|right\s+)?(?:here|there)|in total|altogether|"
    rf"in (?:the|this|that) (?:(?:whole|entire|given) )?(?:{_IMAGE}))$"
)

_ORDINAL = rf"(?:\d{{1,2}}(?:st|nd|rd|th)|{_ORDINALS})"
_NUMERAL = rf"(?:{_ORDINAL}|\d[\d,]*(?:\.\d+)?|{_NUMBERS})"
_NUMBERS_ALONE = re.compile(
    rf"[#(\[\s]*(?:(?:the|number|no|nr)[.\s#]+)*{_NUMERAL}(?:[\s,/&#-]+(?:(?:and|or|of|the)\s+)*{_NUMERAL})*[)\].\s]*"
)
_ORDINAL_ALONE = re.compile(rf"\W*(?:the\s+)?{_ORDINAL}\W*")

RELATIONS = split_words(
    "in on at to atop alongside adjoining above over below under underneath beneath by "
    "near nearest close closest next beside between among "
    "amid behind inside outside within from against along around across opposite adjacent touching resting standing "
    "sitting lying hanging leaning located placed positioned situated"
)
"""The first words of phrases that follow a noun and describe the place of the object, e.g. "near" in "dog near the
tree".
"""
_ADVERBS = split_words("directly just immediately right slightly all the way far closely halfway")
"""Words that may precede a word of :data:`RELATIONS` in the same phrase, e.g. "directly" in "directly above"."""
_HOLDERS = split_words("box panel tower stack pile row column group cluster image picture")
"""Nouns for objects that have parts. If such a noun is the first word after "of", the phrase describes a place.

For example, "of the tower" in "block of the tower" is removed as a place (articles are skipped). With most other nouns,
as in "cup of coffee", the phrase stays a part of the object's name.
"""
_SIDES = frozenset({"left", "right", "top", "bottom", "front", "back"})
SELECTING = split_words(
    "left right top bottom upper lower middle center centre central front back rear outer inner corner side edge far "
    "farthest furthest near nearest closest extreme very leftmost rightmost topmost bottommost uppermost lowermost "
    "frontmost highest lowest outermost innermost most base lone isolated solitary separate individual single matching "
    "target remaining corresponding relevant next previous final other another additional extra only sole counted "
    "adjacent neighbouring neighboring small smaller smallest little tiny mini miniature large larger largest big "
    "bigger biggest huge giant medium mid average sized size"
) | frozenset(_ORDINALS.split("|"))
"""Words before a noun that state which of several objects is meant, such as "left", "second", "largest" or "other".

They state the place, the order or the relative size of the object, or that the object is a chosen one ("target").
"""
_ASIDE = re.compile(r"\s*[,;:(\[]\s*")
_FROM_A_SIDE = re.compile(
    rf"^(?:{_ORDINALS}|\d{{1,2}}(?:st|nd|rd|th))\s+from\s+(?:the\s+)?(?:left|right|top|bottom)\s+(?=\S)"
)
_ONE_OF = re.compile(
    r"((?:\w+ )*\w+)(?:(?<=est)|(?<=most)|\s+one)\s+of\s+(?:the|all|these|those)\s+"
    rf"(?:(?:{_NUMBERS}|\d{{1,2}})\s+)?(?=\S)"
)


def without_counts(label: str) -> str:
    """Return a label without the articles, ordinals, quantities and numbers at its beginning and end.

    For example, "the two squares" becomes "squares", and "square 2" becomes "square". Words at the end of the label,
    such as "in the image", "visible" or "in total", are removed, too. An ordinal stays if it counts from a side or by
    size, as in "second square from the left" or "second largest square". The label must be in lower case with single
    blanks. A second call with the result of the first call changes nothing.
    """
    before = None
    while label != before:
        before = label
        label = _BEHIND.sub("", label) or label
        if found := _INSTANCE.search(label):  # "square in box 2" has the number of the box
            words = label[: found.start()].split()
            label = label[: found.start()] if _before_relation(words) == words and words else label
        for lead in (_ARTICLE, _NUMBER, _IN_FRONT, _HOW_MANY):
            found = None if _RANK.match(label) else lead.match(label)
            if found is not None and (lead is not _HOW_MANY or _is_plural(label[found.end() :])):
                label = label[found.end() :]
    return label


def is_number(label: str) -> bool:
    """Return whether a label in lower case has only numbers or ordinals, such as "#1", "two" or "the 2nd"."""
    return _NUMBERS_ALONE.fullmatch(label) is not None


def is_ordinal(label: str) -> bool:
    """Return whether a label in lower case is one ordinal, such as "the second"."""
    return _ORDINAL_ALONE.fullmatch(label) is not None


def noun_phrase_of(label: str) -> str:
    """Return the part of a label that ends with its noun, without the phrases after the noun that describe places and
    relations.

    For example, "small black square in the left box" becomes "small black square". Texts after a comma or in brackets
    are removed, too. But if such a text describes the object itself ("square (black)"), the label is returned
    unchanged. The label must be in plain form, e.g. in lower case and without articles
    (:func:`groundtrace.schemas.labels.plain_label`).
    """
    own, *asides = _ASIDE.split(_FROM_A_SIDE.sub("", label, count=1))
    if not all(_is_selecting_phrase(aside.rstrip(")] ").split()) for aside in asides):
        return label
    if (one_of := _ONE_OF.match(own)) and all(word in SELECTING for word in one_of.group(1).split()):
        own = f"{one_of.group(1)} {own[one_of.end() :]}"  # "largest of the two squares"
    return " ".join(_before_relation(own.split())) or label


def thing_of(label: str) -> str:
    """Return only the name of the object that a label names, without words that select one of several objects.

    For example, "small black square b in the left box" becomes "black square": "small", the letter "b" and the phrase
    "in the left box" only state which black square is meant. "man in the red coat" becomes "man". The label must be in
    plain form, e.g. in lower case and without articles (:func:`groundtrace.schemas.labels.plain_label`).
    """
    words = noun_phrase_of(label).split()
    if len(words) > 1 and len(words[-1]) == 1:
        words.pop()  # the letter of an instance
    head = len(words) - 1
    kept = [word for index, word in enumerate(words) if index == head or not _is_selecting(words, index)]
    return " ".join(kept) or label


def _is_plural(label: str) -> bool:
    """Return whether the noun of the label looks like a plural, such as "squares" in "two black squares in the box".

    A noun that ends in "s" looks like a plural, except if it ends in "ss", such as "glass". The nouns "people", "men",
    "women" and "children" look like plurals, too.
    """
    words = _before_relation(_ASIDE.split(label)[0].split())
    last = words[-1] if words else ""
    return (last.endswith("s") and not last.endswith("ss")) or last in ("people", "men", "women", "children")


def _before_relation(words: Sequence[str]) -> list[str]:
    cut = next((index for index in range(1, len(words)) if _begins_relation(words, index)), len(words))
    while cut > 1 and cut < len(words) and words[cut - 1] in _ADVERBS:
        cut -= 1
    return list(words[:cut])


def _begins_relation(words: Sequence[str], index: int) -> bool:
    if words[index] in _SIDES:
        return words[index + 1 : index + 2] == ["of"]
    if words[index] == "of":
        behind = [word for word in words[index + 1 :] if word not in ("the", "that", "this")]
        return bool(behind) and (behind[0] in SELECTING or behind[0] in _HOLDERS)
    return words[index] in RELATIONS or words[index + 1 : index + 2] == ["than"]


def _is_selecting(words: Sequence[str], index: int) -> bool:
    return words[index] in SELECTING or (words[index] == "hand" and index > 0 and words[index - 1] in _SIDES)


def _is_selecting_phrase(words: Sequence[str]) -> bool:
    """Return whether a phrase after a comma or in brackets selects one of several things ("above the circle").

    ``words`` are the words of the phrase.
    """
    first = next((word for word in words if word not in ("the", "of")), "")
    return not first or first in RELATIONS or first in SELECTING
