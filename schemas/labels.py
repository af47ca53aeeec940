"""Compares labels of objects by their words. The functions decide which object a label names, and whether a text
mentions this object.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

from groundtrace.schemas.control_text import DAMAGE, TOKEN
from groundtrace.schemas.label_parts import (
    RELATIONS,
    SELECTING,
    is_number,
    is_ordinal,
    noun_phrase_of,
    split_words,
    without_counts,
)

MAX_LABEL_CHARS = 120
"""The largest number of characters of a label. A longer text does not name an object."""

_WORD = re.compile(r"[^\W_]+")
_ASKS = re.compile(r"\b(?:how many|number of|count(?: all)?(?: of)?)\s([^?.,;:!\"]{1,120})", re.IGNORECASE)
_CLAUSE = re.compile(r"[.,;:?!\"“”]")
_ENDS = RELATIONS | split_words(
    "are is was were do does did can could have has had there you of with without that which who for containing "
    "wearing holding"
)
"""Words that follow a noun phrase and are not part of it, e.g. "with" in "dog with a ball"."""
_SKIPPED = frozenset(
    {"the", "a", "an", "all", "these", "those", "this", "that", "different", "total", "or", "and", "of"}
)
_COMPARED = frozenset({"more", "fewer", "less"})
GENERAL = frozenset({"object", "item", "thing", "shape", "figure", "instance", "element"})
"""Nouns that can mean any object."""
_UNSAID = split_words(
    "how many much number of count all is are was were there with has have contain hold show exactly only just at "
    "least most more than any some each every other another no none two three four five six seven eight nine ten "
    "the a an these those this that different"
)
"""Words that may precede a noun and do not describe the object, such as articles, numbers and "many"."""
_THAT_IS = split_words("that which who is are of in all both either color colour colored coloured the with")
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
"""Attributes by kind, such as colours and sizes. An object has at most one attribute of each kind."""
_ATTRIBUTES = frozenset[str]().union(*EXCLUSIVE)
_TOKEN = re.compile(TOKEN.pattern, re.IGNORECASE)
# Abbreviations ("prof.") have fewer letters. A quotation, such as the words on a sign, may have several sentences.
_SENTENCE_END = re.compile(r'^[^"“”]*[^\W\d_]{5,}\. [^"“”]*\w [^"“”]*\w[^"“”]*$|。.*\w')
_LISTS = re.compile(r"[,;/|、，]|\b(?:and|or)\b")


def singular(word: str) -> str:
    """Return an English noun in the singular. ``word`` is the noun in lower case. The rules use its ending, e.g.
    "boxes" → "box", and a list of exceptions, e.g. "men" → "man".
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text in order, in lower case and in the singular. Articles and words such as "all", "this"
    and "of" are left out. E.g. "All of the Red Cars" → ("red", "car").
    """
    words = (singular(match.group().lower()) for match in _WORD.finditer(text))
    return tuple(word for word in words if word not in _SKIPPED)


def plain_label(label: str) -> str:
    """Return a label in its plain form, so that two labels can be compared: in lower case with single blanks.

    Hyphens and underscores become blanks. Quotes and punctuation around the label are removed, and so are articles,
    ordinals, quantities and numbers (:func:`groundtrace.schemas.label_parts.without_counts`). E.g. "The two Red-Cars."
    → "red cars".
    """
    plain = unicodedata.normalize("NFKC", label).casefold()
    if not _TOKEN.search(plain):  # a token has to stay intact, to be found
        plain = plain.replace("_", " ").replace("-", " ")
    plain = " ".join(plain.split())
    before = None
    while plain != before and len(plain) <= MAX_LABEL_CHARS:
        before = plain
        plain = without_counts(plain.strip(" \"'“”‘’.,;:"))
    return plain


def label_fault(label: str) -> str | None:
    """Return the reason why a label is faulty, i.e. does not name an object that a model can search for. Returns None
    if the label has no fault.

    A label is faulty in each of these cases:

    - It is blank, or has neither letters nor digits.
    - It has more than :data:`MAX_LABEL_CHARS` characters, or more than one sentence.
    - It has a special token, a control character or an unreadable character.
    - It names the whole image ("picture").
    - It has only numbers or ordinals ("#1", "two").
    """
    if len(label) > MAX_LABEL_CHARS:
        return f"a label of more than {MAX_LABEL_CHARS} characters names no object"
    if not any(map(str.isalnum, label)):
        return "a label without letters names no object"
    if _TOKEN.search(label) or DAMAGE.search(label) or any(map(_is_unprinted, label)):
        return "a label with control tokens names no object"
    words = frozenset(words_of(label))
    if words <= _WHOLE_IMAGE | GENERAL and words & _WHOLE_IMAGE:
        return "the label names the whole image"
    if is_number(unicodedata.normalize("NFKC", label).casefold()):
        return "a label of numbers alone names no object"
    if _SENTENCE_END.search(label):
        return "a label of more than one sentence names no object"
    return None


def _is_unprinted(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs")


def counted_phrase(question: str) -> tuple[str, ...] | None:
    """Return the words for the objects that a question counts, in order and in the singular. Returns None if the
    question counts nothing.

    For "How many of the red cars are parked?", the result is ("red", "car"). The result is None for comparisons with
    "how many more" or "how many fewer".
    """
    asked = _ASKS.search(question)
    if asked is None:
        return None
    words: list[str] = []
    for word in (match.group().lower() for match in _WORD.finditer(asked.group(1))):
        if word in _ENDS and (words or word != "of"):
            break
        if word not in _SKIPPED:
            words.append(singular(word))
    return None if _COMPARED.intersection(words) else tuple(words)


def counted_words(question: str) -> frozenset[str] | None:
    """Return the words for the objects that a question counts, in the singular and in any order. General nouns such as
    "object" are left out.

    For "How many of the red cars are parked?", the result is {"red", "car"}. It is empty for "How many objects are
    there?". The result is None if the question counts nothing.
    """
    phrase = counted_phrase(question)
    return None if phrase is None else frozenset(phrase) - GENERAL


def is_counted(label: str, words: frozenset[str]) -> bool:
    """Return whether a label can name the objects that a question counts. ``words`` are the question's words for these
    objects (:func:`counted_words`).

    The label can be more specific: it contains all of ``words`` ("black square" if the question counts squares). It can
    also be less specific: ``words`` contains all words of the label ("square" if the question counts black squares).
    The result is False if attributes contradict each other ("black" and "white"). Words of the label that select one
    object, such as "leftmost", are ignored.
    """
    own = own_words(label)
    if _excludes(words & _ATTRIBUTES, own):
        return False
    own -= SELECTING - words
    return words <= own or (bool(own) and own <= words)


def names_only(label: str, words: frozenset[str]) -> bool:
    """Return whether a label names only objects that a question counts, and no others. ``words`` are the question's
    words for the counted objects (:func:`counted_words`).

    The label must have all of ``words``. For example, if the question counts black squares, the result is True for
    "small black square". It is False for "black or blue square", which also names blue squares.
    """
    own = own_words(label)
    others = any(words & kind and own & kind - words for kind in EXCLUSIVE)
    return words <= own and not others and not _LISTS.search(plain_label(label))


def own_words(label: str) -> frozenset[str]:
    """Return the words of a label that describe the object itself. General nouns such as "object" are left out, and so
    are the object's place and its relations to other objects.

    For "blue object in the box", the result is {"blue"}. It is empty for "object", a label that fits all objects.
    """
    return frozenset(words_of(noun_phrase_of(plain_label(label)))) - GENERAL - {"one"}


def is_named(label: str, texts: Iterable[str], phrases: Iterable[str] = ()) -> bool:
    """Return whether one of the ``texts`` or one of the ``phrases`` mentions the object that ``label`` names.

    ``texts`` are any texts, such as a question. ``phrases`` are short names of objects, such as "red cars". A phrase
    mentions the object if two conditions are met. First, the label has all words of the phrase, or the phrase has all
    words of the label. Second, their attributes, such as colours, do not contradict each other (:func:`is_counted`).

    The noun of a label is its last word before "in", "with" or a similar word. A noun is general if it can mean any
    object, such as "item". A text mentions the object in three cases:

    - The noun of the label is not general, the text contains this noun, and the attributes before the noun in the text
      do not contradict the label. For example, "the small circle" mentions the object of the label "yellow circle".
      But "the black circle" does not mention it.
    - The text contains a general noun with an attribute that the label has, too. For example, "yellow items" mentions
      the object of the label "yellow square".
    - The text contains a general noun without attributes, and the label is general, too, such as "object".
    """
    own, noun = own_words(label), _noun(plain_label(label))
    if any(is_counted(label, frozenset(words_of(phrase)) - GENERAL) for phrase in phrases if words_of(phrase)):
        return True
    for text in texts:
        if noun not in GENERAL and noun in words_of(text) and not _contradicts(text, noun, own):
            return True
        if any(own & attributes if attributes else not own for attributes in _general_things(text)):
            return True
    return False


def names_alike(label: str, other: str) -> bool | None:
    """Return whether ``label`` can name the object that ``other`` names. Returns None if the words alone do not decide
    this.

    The first rule that applies gives the result:

    - True: the labels are equal, or one of them is blank.
    - None: one of the labels is an ordinal ("the second"), which selects one of several objects.
    - False: one of the labels names no object (:func:`label_fault`).
    - True: one of the labels names an object in general ("item").
    - False: attributes of the labels contradict each other ("black square", "white square").
    - None: ``label`` has several nouns or several attributes of one kind ("black or white square"), since it may name
      several objects.
    - True: both labels have the same noun, or ``other`` has all words of ``label``.
    - True: ``label`` has all words of ``other``, and the further words of ``label`` are attributes.
    - None: all other cases, since different nouns may be synonyms.
    """
    label, other = plain_label(label), plain_label(other)
    if label == other or not label or not other:
        return True
    if is_ordinal(label) or is_ordinal(other):
        return None
    if label_fault(label) is not None or label_fault(other) is not None:
        return False
    own, others = own_words(label), own_words(other)
    if not own or not others:
        return True
    if _excludes(others & _ATTRIBUTES, own):
        return False
    if _LISTS.search(label) or any(len(own & kind) > 1 for kind in EXCLUSIVE):
        return None
    is_alike = own <= others or _noun(label) == _noun(other) or (others <= own and own - others <= _ATTRIBUTES)
    return True if is_alike else None


def _general_things(text: str) -> Iterator[frozenset[str]]:
    """Yield one set for each general noun of the text: the attributes that describe the noun.

    A general noun is a noun that can mean any object, such as "item". For "yellow items" and for "items that are
    yellow", the set is {yellow}. For a noun without attributes ("the items"), the set is empty.

    Exception: nothing is yielded for a noun that is described only by an unknown word, such as "metal" in "metal
    things". The list of known attributes has no materials, so it is unknown which things are meant.
    """
    for clause in _CLAUSE.split(text):
        words = [singular(match.group().lower()) for match in _WORD.finditer(clause)]
        for index in (index for index, word in enumerate(words) if word in GENERAL):
            before = _attributes(words[:index])
            behind = next((n for n in range(index + 1, len(words)) if words[n] not in _THAT_IS), len(words))
            modifiers = before | (_leading(words[behind:]) if behind > index + 1 else frozenset())
            previous = words[index - 1] if index else "the"
            if modifiers or previous in _UNSAID or previous in SELECTING or previous.isdigit():
                yield modifiers


def _contradicts(text: str, noun: str, own: frozenset[str]) -> bool:
    """Return whether the text contains the noun, and the noun's attributes in the text contradict a label.

    Attributes are words before the noun, such as colours and sizes. ``own`` are the words of the label. For example,
    the text "the black circle" contradicts the label "yellow circle" for the noun "circle". If the noun occurs several
    times, the attributes of each occurrence must contradict the label.
    """
    words = [singular(match.group().lower()) for match in _WORD.finditer(text)]
    places = [index for index, word in enumerate(words) if word == noun]
    return bool(places) and all(_excludes(_attributes(words[:index]), own) for index in places)


def _attributes(before: list[str]) -> frozenset[str]:
    """Return the attributes (e.g. colours) at the end of ``before``. This list holds the words before a noun.

    "or" and "and" may be between the attributes. For example, the result for "a black or blue" is {black, blue}.
    """
    found: list[str] = []
    for word in reversed(before):
        if not _is_listed(word):
            break
        found.append(word)
    return frozenset(found) & _ATTRIBUTES


def _leading(behind: list[str]) -> frozenset[str]:
    """Return the attributes (e.g. colours) at the beginning of ``behind``, the words after a noun.

    Words such as "that are" are not in ``behind``. For "items that are black or blue and touch", ``behind`` has the
    words "black or blue and touch". The result is {black, blue}, since "touch" is not an attribute.
    """
    return _attributes(behind[: next((n for n, word in enumerate(behind) if not _is_listed(word)), len(behind))])


def _is_listed(word: str) -> bool:
    return word in _ATTRIBUTES or word in ("or", "and")


def _excludes(attributes: frozenset[str], own: frozenset[str]) -> bool:
    """Return whether ``own``, the words of a label, contradict the attributes: both have words of one kind, such as
    colours, but share no word of this kind. For example, {"black"} contradicts {"white"}.
    """
    return any(own & kind and attributes & kind and not own & attributes & kind for kind in EXCLUSIVE)


def _noun(label: str) -> str:
    words: list[str] = []
    for word in (match.group().lower() for match in _WORD.finditer(label)):
        if words and word in _ENDS:
            break
        if word not in _SKIPPED:
            words.append(singular(word))
    return words[-1] if words else ""
