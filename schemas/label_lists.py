"""Recognises labels that name alternatives ("blue or red circle") or things of several kinds ("circle and square").

Such a label fits more than one thing. So if a point or box has such a label, it is unknown which thing it marks.
"""

import re

from groundtrace.schemas.label_parts import RELATIONS, split_words
from groundtrace.schemas.labels import EXCLUSIVE, plain_label

_ALTERNATIVES = re.compile(r"\b(?:or|versus|vs)\b|\beither\b|(?<=[^\W\d])\s?[/|]\s?(?=[^\W\d])|[、，]")
_AND = re.compile(r"\s*(?:&|\+|[,;]|\b(?:and|plus|as well as|along with|together with)\b)\s*(?:the |an? )?")
_AND_OR = re.compile(r"\band\s?/\s?or\b")
_ENDS = RELATIONS | split_words("with without of for that which who wearing holding containing made")
_DESCRIBING = frozenset[str]().union(*EXCLUSIVE) | split_words(
    "dark bright pale striped spotted plain round old young new tall short long wide thin"
)


def names_several(label: str) -> bool:
    """Return whether a label names alternatives ("cat or dog") or things of several kinds ("circle and square").

    Words joined by "and" name several things if two conditions are true. First, the words before the "and" end with a
    noun. Second, the words after the "and" are a single noun ("circle and square"), or begin with an attribute and end
    with a noun ("red circle and blue square"). Otherwise they name one thing, as in "black and white cat" or "salt and
    pepper shaker". A phrase after the noun is not read: in "man in red and blue", only "man" counts.
    """
    plain = _AND_OR.sub("or", plain_label(label))
    if _ALTERNATIVES.search(plain):
        return True
    first, *others = (part.split() for part in _AND.split(_named(plain)))
    return _is_noun(first) and any(_is_noun(part) and (len(part) == 1 or part[0] in _DESCRIBING) for part in others)


def _named(plain: str) -> str:
    """Return the first words of a label, which name its thing or things: "man" for "man in red and blue".

    The result ends before the first word that begins a description, such as "in", "with" or "who". Such a word does not
    end the result if it is the first word of the label, or if the word "together" precedes it ("together with").
    """
    words = plain.split()
    end = next((n for n, word in enumerate(words) if n and word in _ENDS and words[n - 1] != "together"), len(words))
    return " ".join(words[:end])


def _is_noun(words: list[str]) -> bool:
    """Return whether the last word is a noun, i.e. neither an attribute nor a participle. Returns False if ``words`` is
    empty.
    """
    return bool(words) and words[-1] not in _DESCRIBING and not words[-1].endswith(("ing", "ed"))
