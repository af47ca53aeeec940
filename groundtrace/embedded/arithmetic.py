"""Finds the equations and comparisons of numbers in a text, such as "2 + 1 = 3" or "3 > 2", and checks them.

Numbers are digits or words (English, German or French), and "plus", "minus" and "times" are read as signs. Words after
a number may name what is counted: "2 squares on the left + 1 on the right = 3 squares". Only the numbers are checked.
"""

import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from groundtrace.grading.answers.number_words import WORDS

_NUMBERS = dict(WORDS)
for _words in (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze",
):
    _NUMBERS |= {word: value for value, word in enumerate(_words.split())}
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})\b")
_SIGNS = tuple(
    (re.compile(pattern), sign)
    for pattern, sign in (
        (r"\bplus\b", "+"),
        (r"[−–]|\b(?:minus|moins)\b", "-"),
        (r"[×·⋅]|\b(?:times|mal|fois)\b|(?<=\d)\s?x\s?(?=\d)", "*"),
        (r"÷", "/"),
        (r"≤", "<="),
        (r"≥", ">="),
        (r"[^\S\n]+|\$", " "),
        (r" ?\n[ \n]*", "; "),
        (r" {2,}", " "),
    )
)
_N = r"\d{1,6}"
_THINGS = r"(?: \([^()\d]{1,40}\)|(?: [^\W\d_]+){1,5}?)?"
_FEW_THINGS = r"(?: (?!(?:there|that|which|it|and|they|these|so)\b)[^\W\d_]+){0,2}?"
"""Matches at most two words between the left side of an equation and its verb: "2 + 1 red squares are 3".

With more than two words, the subject of the verb may be something other than the sum, so the text is not read as an
equation. For the same reason, words such as "which" are not matched.
"""
_TERM = rf"(?:{_THINGS} ?\+ ?{_N}| ?[-*/] ?{_N})"
_VERB = (
    r"(?: is equal to| is| are| equals?| makes?| gives?| yields?| adds? up to| sums? up to| comes? to| totals?"
    r"| ist| sind| macht| machen| ergibt| ergeben| gibt| font| fait| égale| égalent| donne)(?: genau| exactly)? "
)
_BEFORE = r"(?<![\w.,:/])(?<![-+*/=<>] )(?<![-+*/=<>])"
_BEHIND = r"(?![\d%]|[.,:/]\d| ?[-+*/] ?\d| ?[=<>]|-\w| (?:more|fewer|less|or|to|of)\b)"
_EQUATION = re.compile(
    rf"{_BEFORE}(?P<left>{_N}{_TERM}+)(?:{_THINGS} ?==? ?|{_FEW_THINGS}{_VERB})(?P<right>{_N}{_TERM}*){_BEHIND}"
)
_COMPARISON = re.compile(
    rf"{_BEFORE}(?P<left>{_N}{_TERM}*){_THINGS} ?(?P<sign>(?<!-)[<>]=?) ?(?P<right>{_N}{_TERM}*){_BEHIND}"
)
_HOLDS = {"=": operator.eq, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}
_PART = re.compile(rf"(?P<sign>[-+*/])|(?P<n>{_N})")


@dataclass(frozen=True)
class Calculation:
    """Holds an equation or comparison of numbers, and whether it is right.

    ``text`` is the equation or comparison in a normal form: digits and signs replace words, and the names of the
    counted things stay. For example, "two squares plus one square = 3" becomes "2 squares + 1 square = 3". ``before``
    and ``behind`` are the parts of the searched text before and after the calculation, also in normal form. ``holds``
    is True for "2 + 1 = 3", and False for "2 + 1 = 4". ``is_comparison`` is True for a comparison ("3 > 2"), and False
    for an equation.
    """

    text: str
    before: str
    behind: str
    holds: bool
    is_comparison: bool


def calculations(text: str) -> Iterator[Calculation]:
    """Yield the equations of a text in order, and then its comparisons. ``text`` must be in lower case.

    An equation must have an operation such as "+" on its left side: "2 + 1 = 3" is found, and "black = 3" is not.
    """
    plain = _NUMBER_WORD.sub(lambda found: str(_NUMBERS[found.group()]), text)
    for pattern, sign in _SIGNS:
        plain = pattern.sub(sign, plain)
    for pattern in (_EQUATION, _COMPARISON):
        for found in pattern.finditer(plain):
            left, right = _value(found["left"]), _value(found["right"])
            if left is not None and right is not None:
                sign = found.groupdict().get("sign") or "="
                rest = plain[: found.start()], plain[found.end() :]
                yield Calculation(found.group(), *rest, _HOLDS[sign](left, right), pattern is _COMPARISON)


def _value(expression: str) -> Fraction | None:
    """Return the value of an expression of numbers and signs; None if it divides by 0.

    Multiplication and division come before addition and subtraction.
    """
    sums, sign = [Fraction(0)], "+"
    for part in _PART.finditer(expression):
        if part["sign"]:
            sign = part["sign"]
        elif sign in "+-":
            sums.append(Fraction(part["n"]) * (1 if sign == "+" else -1))
        elif sign == "/" and not int(part["n"]):
            return None
        else:
            sums[-1] = sums[-1] / int(part["n"]) if sign == "/" else sums[-1] * int(part["n"])
    return sum(sums, Fraction(0))
