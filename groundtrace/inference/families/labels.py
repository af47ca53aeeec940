"""Prepares a label (the name of an object to find) for a prompt, and checks whether a reply is about this label."""

import re
from collections.abc import Sequence
from typing import Protocol, TypeVar

from groundtrace.inference.grounding import BadReply, ParsedPointing, check_readable
from groundtrace.schemas.labels import EXCLUSIVE, singular

MAX_LABEL_CHARS = 200
MAX_SHOWN_CHARS = 80

_TAG = re.compile(r"<[|/]?[^<>\s][^<>]{0,60}>|\[/?(?:INST|IMG|SYS)\]", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+|\d+")
_ASIDE = re.compile(r"[,;:(]")
_ARTICLES = frozenset({"a", "an", "the"})
_ENDS = frozenset(
    word
    for words in (
        "in on at of to with without that which who from for by under over above below near behind between beside",
        "inside next around wearing holding standing sitting lying riding facing containing carrying playing",
        "looking",
    )
    for word in words.split()
)
"""Words before which the noun of a label ends: in "dog with a ball", the noun "dog" ends before "with"."""
_ORDINALS = frozenset(["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"])

SAME, SAYS_MORE, SAYS_LESS, SAME_NOUN = 4, 3, 2, 1


class Labelled(Protocol):
    """Defines the interface of a point or box that has a label (the name of its object)."""

    @property
    def label(self) -> str:
        """Return the label as the model wrote it. Returns "" if the model wrote no label."""
        ...


L = TypeVar("L", bound=Labelled)


def quoted(label: str) -> str:
    """Return the label in the form in which a prompt may contain it: on one line, without the special tokens of chat
    templates and models. E.g. 'a "red" dog<|im_end|>' becomes "a 'red' dog".

    A label comes from a model or a data set, so it must not end a quotation or begin a new chat turn. Raises
    :class:`groundtrace.inference.grounding.BadReply` if the result has no letter or digit. BadReply is also raised for
    more than :data:`MAX_LABEL_CHARS` characters, since a shortened label would mean something else.
    """
    plain, before = label, None
    while plain != before:  # removing one tag can join the ends of another
        plain, before = _TAG.sub("", plain), plain
    if plain != label or '"' in plain or not plain.isprintable():  # other labels keep their text and so their cache key
        plain = "".join(letter if letter.isprintable() else " " for letter in plain.replace('"', "'"))
        plain = " ".join(plain.split())
    if not any(letter.isalnum() for letter in plain):
        raise BadReply(f"the label {label[:MAX_SHOWN_CHARS]!r} has no letter or digit: write the object's name")
    if len(plain) > MAX_LABEL_CHARS:
        raise BadReply(f"the label {label[:MAX_SHOWN_CHARS]!r} has over {MAX_LABEL_CHARS} characters: shorten it")
    return plain


def about(found: Sequence[L], label: str) -> ParsedPointing[L]:
    """Return those points or boxes of a reply that belong to the requested label (the name of an object). ``found``
    holds all points or boxes of the reply, and ``label`` is the requested label. Each label of the reply is compared
    with the requested label (:func:`closeness`). There are four cases:

    - No point or box has a label: all of them are returned.
    - At least one label is close to the requested label: the points or boxes with the closest label, and those without
      a label, are returned. E.g. if "red dog" was requested, and the reply has the labels "red dog" and "dog", those
      with the label "dog" are dropped.
    - No label is close, but the reply has only one label: all points or boxes are returned, since the model may have
      used another word for the object, such as "sofa" for "couch". But a label that contradicts the requested one, such
      as "blue dog" for "red dog", is an error.
    - No label is close, and the reply has several labels: this is an error, since the reply is about other objects.

    The result's ``called`` holds the labels of the returned points or boxes, separated by commas. E.g. it is "sofa" if
    "couch" was requested. It is "" if these labels have all words of the requested label, or if the reply has no
    labels.

    Raises :class:`groundtrace.inference.grounding.BadReply` in the two cases of an error, and for a label with a
    special token or a control character.
    """
    for one in found:
        check_readable(one.label, "label")
    own = {one.label for one in found if _words(one.label, label)}
    if not own:
        return ParsedPointing(tuple(found))
    best = max(closeness(each, label) for each in own)
    shown = ", ".join(sorted(own))[:MAX_SHOWN_CHARS]
    if not best:
        if len({frozenset(_words(each, label)) for each in own}) > 1 or any(_contradict(each, label) for each in own):
            raise BadReply(f"the reply is about {shown!r}, but {label[:MAX_SHOWN_CHARS]!r} was requested")
        return ParsedPointing(tuple(found), shown)
    kept = {each for each in own if closeness(each, label) == best}
    called = "" if best >= SAYS_MORE else ", ".join(sorted(kept))[:MAX_SHOWN_CHARS]
    return ParsedPointing(tuple(one for one in found if one.label in kept or one.label not in own), called)


def closeness(given: str, asked: str) -> int:
    """Return a number from 0 to 4 for how close the label of a reply (``given``) is to the requested label (``asked``).
    A larger number means closer. Plural, articles and the number of an instance ("person_2") make no difference. The
    result is the first of these that applies:

    - 0 if a label has no words;
    - :data:`SAME` (4) if both labels have the same words;
    - 0 if the labels contradict each other ("blue dog" and "red dog"), or have different nouns;
    - :data:`SAYS_MORE` (3) if ``given`` has all words of ``asked`` and more ("red dog" for "dog");
    - :data:`SAYS_LESS` (2) if ``asked`` has all words of ``given`` and more ("dog" for "red dog");
    - :data:`SAME_NOUN` (1) if each label has words that the other label lacks ("big dog" for "red dog").
    """
    given_words, asked_words = frozenset(_words(given, asked)), frozenset(_words(asked, asked))
    if not given_words or not asked_words:
        return 0
    if given_words == asked_words:
        return SAME
    if _contradict(given, asked) or _noun(given, asked) != _noun(asked, asked):
        return 0
    if asked_words < given_words:
        return SAYS_MORE
    return SAYS_LESS if given_words < asked_words else SAME_NOUN


def _words(label: str, asked: str) -> tuple[str, ...]:
    """Return the words of a label in the singular, without articles.

    Numbers are kept only if ``asked``, the requested label, has a number.
    """
    words = [singular(word) for word in _WORD.findall(label.casefold())]
    if not any(map(_is_number, _WORD.findall(asked.casefold()))):
        words = [word for word in words if not _is_number(word)]
    return tuple(word for word in words if word not in _ARTICLES)


def _noun(label: str, asked: str) -> str:
    """Return the noun of a label (name of an object), such as "dog" for "red dog with a ball".

    If two labels have different nouns, they name different objects. The noun is the last word before a comma, a
    semicolon, a colon, an opening bracket, or a word such as "in" or "with". Returns "" if the label has no word before
    the punctuation.

    ``asked`` is the requested label. Numbers in ``label`` are ignored if ``asked`` has no number.
    """
    noun = ""
    for word in _words(_ASIDE.split(label.strip(), maxsplit=1)[0], asked):
        if noun and word in _ENDS:
            break
        noun = word
    return noun


def _contradict(given: str, asked: str) -> bool:
    """Return whether two labels contradict each other, such as "blue dog" and "red dog".

    This is the case if both labels have attributes of the same kind, such as colours, but no attribute of this kind in
    common. ``given`` is a label of the reply, and ``asked`` is the requested label.
    """
    ours, theirs = frozenset(_words(asked, asked)), frozenset(_words(given, asked))
    kinds = [*EXCLUSIVE, frozenset(filter(_is_number, ours | theirs))]
    return any(ours & kind and theirs & kind and not ours & theirs & kind for kind in kinds)


def _is_number(word: str) -> bool:
    return word.isdecimal() or word in _ORDINALS
