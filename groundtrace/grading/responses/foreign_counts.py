"""Finds the counts that a reasoning concludes in German, French or Spanish: "Es sind also fünf Dreiecke."

The noun after the number is in another language than the question, so it cannot be compared with the counted things.
Therefore a count is read only if the sentence draws a conclusion ("also", "donc", "por lo tanto"), and if at most two
words follow the number. A longer sentence may count only the objects in a part of the image ("drei Kreise im linken
Feld").
"""

import re
from fractions import Fraction

from groundtrace.schemas.patterns import compile_late

_WORDS = (
    ("null keine kein keinen aucun aucune zéro cero ninguno ninguna", 0),
    ("ein eine einen eins un une uno una", 1),
    ("zwei deux dos", 2),
    ("drei trois tres", 3),
    ("vier quatre cuatro", 4),
    ("fünf cinq cinco", 5),
    ("sechs six seis", 6),
    ("sieben sept siete", 7),
    ("acht huit ocho", 8),
    ("neun neuf nueve", 9),
    ("zehn dix diez", 10),
    ("elf onze once", 11),
    ("zwölf douze doce", 12),
)
_VALUES = {word: value for words, value in _WORDS for word in words.split()}
_N = rf"(?P<n>\d{{1,3}}|{'|'.join(sorted(_VALUES, key=len, reverse=True))})\b(?![.,]\d)"
_NOUN = r"(?: [^\W\d]+){0,2}"
_GERMAN = r"(?:also|insgesamt|somit|damit|folglich|daher|demnach|zusammen)"
_FRENCH = r"(?:donc|ainsi|alors|par conséquent|au total|en tout)"
_SPANISH = r"(?:por (?:lo )?tanto|entonces|así que|en total|pues)"
_FORMS = tuple(
    compile_late(pattern, re.IGNORECASE)
    for pattern in (
        rf"^\W*(?:es sind|das sind|das macht|das ergibt|es gibt) {_GERMAN} (?:genau |insgesamt )?{_N}{_NOUN}\W*$",
        rf"^\W*{_GERMAN},? (?:sind es|sind das|gibt es|es sind|es gibt|macht das) (?:genau )?{_N}{_NOUN}\W*$",
        rf"^\W*(?:il y (?:en )?a|(?:cela|ça) (?:fait|donne)|on compte) {_FRENCH} (?:exactement )?{_N}{_NOUN}\W*$",
        rf"^\W*{_FRENCH},? (?:il y (?:en )?a|(?:cela|ça) (?:fait|donne)|on compte) (?:exactement )?{_N}{_NOUN}\W*$",
        rf"^\W*(?:hay|son) {_SPANISH},? (?:exactamente )?{_N}{_NOUN}\W*$",
        rf"^\W*{_SPANISH},? (?:hay|son) (?:exactamente )?{_N}{_NOUN}\W*$",
    )
)


def foreign_count(sentence: str) -> Fraction | None:
    """Return the count that a sentence concludes in German, French or Spanish; None if it does not conclude a count.

    For example, the result is 8 for "Il y a donc huit triangles", and None for "Es gibt drei im linken Feld".
    """
    found = next(filter(None, (form.match(sentence) for form in _FORMS)), None)
    if found is None:
        return None
    written = found["n"].casefold()
    return Fraction(_VALUES.get(written, written))
