"""The labels of pointing and boxing: how one may stand in a prompt, and whether a reply speaks of it."""

import re
from collections.abc import Sequence
from typing import Protocol, TypeVar

from inference.grounding import BadReply
from schemas.labels import singular

MAX_LABEL_CHARS = 200
MAX_SHOWN_CHARS = 80

_TAG = re.compile(r"<[|/]?[^<>\s][^<>]{0,60}>|\[/?(?:INST|IMG|SYS)\]", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_ARTICLES = frozenset({"a", "an", "the"})


class Labelled(Protocol):
    """Something that a reply labels; "" where it does not."""

    @property
    def label(self) -> str:
        """The label as it is written."""
        ...


L = TypeVar("L", bound=Labelled)


def quoted(label: str) -> str:
    """The label as it may stand in a prompt: on one line, without the tokens of chat templates and model tags.

    A label comes from a model or a data set, so it must not end a quotation or open a turn of its own. Raises
    :class:`inference.grounding.BadReply` for one that names nothing then, or is longer than any name: a cut label would
    ask for something else.
    """
    plain, before = label, None
    while plain != before:  # taking one out can join the ends of another
        plain, before = _TAG.sub("", plain), plain
    if plain != label or '"' in plain or not plain.isprintable():  # all else stays as it is, and so do its cache keys
        plain = "".join(letter if letter.isprintable() else " " for letter in plain.replace('"', "'"))
        plain = " ".join(plain.split())
    if not any(letter.isalnum() for letter in plain):
        raise BadReply(f"the label {label[:MAX_SHOWN_CHARS]!r} names nothing")
    if len(plain) > MAX_LABEL_CHARS:
        raise BadReply(f"the label {label[:MAX_SHOWN_CHARS]!r} is longer than {MAX_LABEL_CHARS} characters")
    return plain


def about(found: Sequence[L], label: str, strict: bool) -> tuple[L, ...]:
    """Those of a reply that are of the label asked for: without a label, or with the one that comes closest to it.

    A reply that labels everything otherwise raises :class:`inference.grounding.BadReply`. Unless ``strict``, one that
    has a single label of its own may: it is another word for what was asked for.
    """
    said = {one.label for one in found if one.label.strip()}
    if not said or (len(said) == 1 and not strict):
        return tuple(found)
    best = max(closeness(each, label) for each in said)
    if not best:
        shown = ", ".join(sorted(said))[:MAX_SHOWN_CHARS]
        raise BadReply(f"the reply is about {shown!r}, and {label[:MAX_SHOWN_CHARS]!r} was asked for")
    return tuple(one for one in found if not one.label.strip() or closeness(one.label, label) == best)


def closeness(said: str, asked: str) -> int:
    """2 where both labels are the same words but for number and articles, 1 where one only says more, else 0."""
    said_words, asked_words = _words(said), _words(asked)
    if said_words == asked_words:
        return 2
    return int(bool(said_words and asked_words) and (said_words <= asked_words or asked_words <= said_words))


def _words(label: str) -> frozenset[str]:
    return frozenset(singular(word) for word in _WORD.findall(label.casefold())) - _ARTICLES
