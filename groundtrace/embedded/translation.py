"""Translates German, French and Spanish denials of shapes, such as "kein schwarzes Quadrat" and "aucun carré noir".

Labels and questions name objects in English. The embedded judge (:mod:`groundtrace.embedded.prose`) compares the words
of labels and questions with the words of each clause of a reasoning. To understand a denial in another language, the
judge needs the English names of the objects, colours and places in the clause. An adjective that describes a shape
becomes a noun, also in an English clause: "round" becomes "circle", so "none of them is round" denies circles. The
other words of a clause stay as they are.
"""

import re

from groundtrace.embedded.sight.labels import COLOURS, kind_word
from groundtrace.embedded.vocabulary import words

_ENGLISH = dict(pair.split("=") for pair in words("in_english"))
_STEMS = dict(pair.split("=") for pair in words("german_stems_in_english"))
_WORD = re.compile(r"[^\W\d_]+")
_INFLECTED = re.compile(rf"(?P<stem>{'|'.join(_STEMS)})(?P<ending>e[nrsm]?)?")
_UNINFLECTED = frozenset(_STEMS.values()) & frozenset(COLOURS)
"""The English words whose German stems are translated even without an ending: the colours ("ist schwarz").

The other stems are translated only with an ending, as in "untere" (lower). Without an ending, the stem is another word:
"unter" means "below".
"""
_TOWER = re.compile(r"\b(?P<before>(?:une|la|cette|aucune|chaque|les|des) )tour(?P<plural>s?)\b")
_PHRASES = (
    (re.compile(r"\b(?:de gauche à droite|de droite à gauche|von links nach rechts|von rechts nach links)\b"), ""),
    (re.compile(r"\bde (?:izquierda a derecha|derecha a izquierda)\b"), ""),
    (re.compile(r"\b(?:links|à gauche|a la izquierda)\b"), "on the left"),
    (re.compile(r"\b(?:rechts|à droite|a la derecha)\b"), "on the right"),
    (re.compile(r"\b(?:in der mitte|au milieu|au centre|en el (?:medio|centro))\b"), "in the middle"),
    (re.compile(r"(?<!de )(?<!la )\b(?:gauche|izquierda)(?= ?:)"), "on the left"),
    (re.compile(r"(?<!de )(?<!la )\b(?:droite|derecha)(?= ?:)"), "on the right"),
    (re.compile(r"(?<!du )(?<!del )\b(?:mitte|milieu|centre|centro|medio)(?= ?:)"), "in the middle"),
    (re.compile(r"\bau[- ]dessus d(?:e |u |['’])|\bencima de\b"), "above "),
    (re.compile(r"\b(?:en|au)[- ]dessous d(?:e |u |['’])|\bdebajo de\b"), "below "),
    (re.compile(r"\bhat (?=(?:k?ein|d[aei][ns])\w*\b)"), "has "),
    (re.compile(r"\bno (?P<verb>\w+) ning(?:ún|uno|una)\b"), r"no \g<verb>"),
    (re.compile(r"\bning(?:ún|uno|una)\b"), "no"),
    (re.compile(r"\bpas d(?:e |['’])"), "no "),
)
_ADJECTIVE = rf"(?:{'|'.join([*COLOURS, 'left', 'right', 'middle'])})"
_BEHIND = re.compile(
    rf"\b(?P<noun>[a-z]+) (?:de la |de l['’]|del |de |du )?(?P<adjectives>{_ADJECTIVE}(?: {_ADJECTIVE})*)\b"
)


def in_english(text: str) -> str:
    """Return a text with the names of shapes, colours and places in English, and with adjectives before their nouns.

    ``text`` is in lower case. In an English text, only adjectives of shapes are replaced: "round" becomes "circle".
    """
    for pattern, english in _PHRASES:
        text = pattern.sub(english, text)
    plain = _WORD.sub(_translated, _TOWER.sub(r"\g<before>tower\g<plural>", text))
    return plain if plain == text else _BEHIND.sub(_before_noun, plain)


def _translated(found: re.Match[str]) -> str:
    word = found.group()
    if word in _ENGLISH:
        return _ENGLISH[word]
    inflected = _INFLECTED.fullmatch(word)
    if inflected is None:
        return word
    english = _STEMS[inflected["stem"]]
    return english if inflected["ending"] or english in _UNINFLECTED else word


def _before_noun(found: re.Match[str]) -> str:
    noun = found["noun"]
    is_thing = kind_word(noun) is not None or noun in ("tower", "towers", "box", "boxes")
    return f"{found['adjectives']} {noun}" if is_thing else found.group()
