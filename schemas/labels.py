"""Labels of objects and the words in them: what a label names, and whether a text speaks of it."""

import re
import unicodedata
from collections.abc import Iterable

from schemas.control_text import TOKEN

MAX_LABEL_CHARS = 120
"""A longer text names no object."""

_WORD = re.compile(r"[^\W_]+")
_ASKS = re.compile(r"\b(?:how many|number of|count(?: all)?(?: of)?)\s([^?.,;:!\"]{1,120})", re.IGNORECASE)
_ENDS = re.compile(
    "are|is|was|were|do|does|did|can|could|have|has|had|there|you|in|on|at|of|to|with|without|that|which|who|from|for|"
    "touching|inside|under|over|near|behind|between"
)
_LEADING = re.compile(
    r"(?:(?:(?:one|all|both|some|each|any) of|the|an?|all|both|"
    r"these|those|this|that|each|every|some|any|one|single|another|other|\d{1,2}(?:st|nd|rd|th)|"
    r"first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last)\s+)+(?=\S)"
)
_HOW_MANY = re.compile(
    r"(?:the\s+)?(?:\d{1,2}|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\s+(?=\S.*(?<!s)s$)"
)
_INSTANCE = re.compile(r"\s+(?:(?:#|no\.? ?|number |nr\.? ?)?\d{1,3}|\((?:#|no\.? ?)?\d{1,3}\))$")
_SKIPPED = frozenset(
    {"the", "a", "an", "all", "these", "those", "this", "that", "different", "total", "or", "and", "of"}
)
_COMPARED = frozenset({"more", "fewer", "less"})
_GENERAL = frozenset({"object", "item", "thing", "shape", "figure", "instance", "element"})
_IRREGULAR = {
    "children": "child", "feet": "foot", "geese": "goose", "knives": "knife", "leaves": "leaf", "men": "man",
    "mice": "mouse", "people": "person", "shelves": "shelf", "teeth": "tooth", "wolves": "wolf", "women": "woman",
}  # fmt: skip
_WHOLE_IMAGE = frozenset(
    {"image", "picture", "photo", "photograph", "screenshot", "background", "foreground", "scene", "canvas"}
    | {"everything", "anything", "whole", "entire", "full", "pixel"}
)
EXCLUSIVE = tuple(
    frozenset(kind.split())
    for kind in (
        "black white grey gray red green blue yellow orange purple violet pink brown beige silver golden cyan",
        "small smaller smallest tiny little large larger largest big bigger biggest",
        "left leftmost right rightmost",
        "top topmost upper bottom lower",
    )
)
"""Attributes by kind, of which an object has one."""
_ATTRIBUTES = frozenset[str]().union(*EXCLUSIVE)
_TOKEN = re.compile(TOKEN.pattern, re.IGNORECASE)
_LISTS = re.compile(r"[,;/|、，]|\b(?:and|or)\b")


def singular(word: str) -> str:
    """Returns an English noun in the singular, by its ending: "boxes" is "box"."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def words_of(text: str) -> tuple[str, ...]:
    """Returns the words of a text in lower case and in the singular, without articles and the like."""
    words = (singular(match.group().lower()) for match in _WORD.finditer(text))
    return tuple(word for word in words if word not in _SKIPPED)


def plain_label(label: str) -> str:
    """Returns a label as it is looked for: in lower case, blanks made single, without quotes, articles, ordinals and
    (before a plural) numbers in front, and without a full stop or the number of an instance behind.
    """
    plain = unicodedata.normalize("NFKC", label).casefold()
    if not _TOKEN.search(plain):  # which has to stay one, to be told
        plain = plain.replace("_", " ").replace("-", " ")
    plain = " ".join(plain.split()).strip(" \"'“”‘’.,;:")
    label = _INSTANCE.sub("", plain) or plain
    for lead in (_LEADING, _HOW_MANY, _LEADING):
        label = label[found.end() :] if (found := lead.match(label)) is not None else label
    return label


def label_fault(label: str) -> str | None:
    """Returns why a label names no object that could be looked for, or None.

    That is so for a blank one, one without letters or digits, one of more than :data:`MAX_LABEL_CHARS` characters, one
    with a special token or a control character, and one that names the whole image ("picture").
    """
    if len(label) > MAX_LABEL_CHARS:
        return f"a label of more than {MAX_LABEL_CHARS} characters names no object"
    if not any(map(str.isalnum, label)):
        return "a label without letters names no object"
    if _TOKEN.search(label) or any(unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs") for char in label):
        return "a label with control tokens names no object"
    words = frozenset(words_of(label))
    if words <= _WHOLE_IMAGE | _GENERAL and words & _WHOLE_IMAGE:
        return "the label names the whole image"
    return None


def counted_phrase(question: str) -> tuple[str, ...] | None:
    """Returns the words, in the singular, for what a question counts; None where it does not ask how many, or how
    many more.

    "How many of the red cars are parked?" gives red, car.
    """
    asked = _ASKS.search(question)
    if asked is None:
        return None
    words: list[str] = []
    for word in (match.group().lower() for match in _WORD.finditer(asked.group(1))):
        if _ENDS.fullmatch(word) and (words or word != "of"):
            break
        if word not in _SKIPPED:
            words.append(singular(word))
    return None if _COMPARED.intersection(words) else tuple(words)


def counted_words(question: str) -> frozenset[str] | None:
    """Returns the words of :func:`counted_phrase` that tell things apart: none for "How many objects?", which fits
    all."""
    phrase = counted_phrase(question)
    return None if phrase is None else frozenset(phrase) - _GENERAL


def is_counted(label: str, words: frozenset[str]) -> bool:
    """Returns whether a label names what is counted: one of both phrases has all the words of the other."""
    own = frozenset(words_of(label)) - _GENERAL
    return words <= own or (bool(own) and own <= words)


def is_named(label: str, texts: Iterable[str], phrases: Iterable[str] = ()) -> bool:
    """Returns whether one of the phrases names what the label does, or a text speaks of it.

    A phrase does where one of both has all the words of the other. A text does where it has all the words of the label,
    or its noun, the last word before "in", "with" and the like; of an object in general ("item"), where it has one of
    the label's other words or the label has no other. A text whose attributes contradict the label's speaks of
    something else: "the black circle" is not a yellow circle.
    """
    own = frozenset(words_of(label)) - _GENERAL
    if any(is_counted(label, frozenset(words_of(phrase)) - _GENERAL) for phrase in phrases if words_of(phrase)):
        return True
    noun = _noun(label)
    for text in texts:
        if _contradicts(text, noun, own):
            continue
        words = frozenset(words_of(text))
        if noun in words or (own and own <= words) or (words & _GENERAL and (not own or own & words)):
            return True
    return False


def names_alike(label: str, other: str) -> bool | None:
    """Returns whether a label can name the object that the other one names, as far as words tell; None where they do
    not.

    It can where both have the same noun, where it has no word that the other lacks, or only further attributes, and no
    attribute of one contradicts the other's. A blank label, and one that names an object in general ("item"),
    contradicts nothing. What names no object (:func:`label_fault`) names none that is named otherwise. Words of
    different nouns may be synonyms, and a label with several nouns or attributes of one kind may say too much: None.
    """
    label, other = plain_label(label), plain_label(other)
    if label == other or not label or not other:
        return True
    if label_fault(label) is not None or label_fault(other) is not None:
        return False
    own, others = (frozenset(words_of(each)) - _GENERAL for each in (label, other))
    if not own or not others:
        return True
    if _excludes(others & _ATTRIBUTES, own):
        return False
    if _LISTS.search(label) or any(len(own & kind) > 1 for kind in EXCLUSIVE):
        return None
    is_alike = own <= others or _noun(label) == _noun(other) or (others <= own and own - others <= _ATTRIBUTES)
    return True if is_alike else None


def _contradicts(text: str, noun: str, own: frozenset[str]) -> bool:
    """Whether wherever the text has the noun, it gives it other attributes than the label's ``own``."""
    words = [singular(match.group().lower()) for match in _WORD.finditer(text)]
    places = [index for index, word in enumerate(words) if word == noun]
    return bool(places) and all(_excludes(_attributes(words[:index]), own) for index in places)


def _attributes(before: list[str]) -> frozenset[str]:
    """The attributes at the end of the words before a noun: black and blue of "the black or blue"."""
    found: list[str] = []
    for word in reversed(before):
        if word not in _ATTRIBUTES and word not in ("or", "and"):
            break
        found.append(word)
    return frozenset(found)


def _excludes(attributes: frozenset[str], own: frozenset[str]) -> bool:
    """Whether of some kind of attribute both sides have one, and none in common."""
    return any(own & kind and attributes & kind and not own & attributes & kind for kind in EXCLUSIVE)


def _noun(label: str) -> str:
    words: list[str] = []
    for word in (match.group().lower() for match in _WORD.finditer(label)):
        if words and _ENDS.fullmatch(word):
            break
        if word not in _SKIPPED:
            words.append(singular(word))
    return words[-1] if words else ""
