"""Finds sums with their result in a sentence, such as "3 + 2 = 5" or "3 on the left and 2 on the right make 5".

In "3 + 2 = 5", the sentence states that there are 5 objects. The added numbers 3 and 2 are only steps of the
calculation. So the module that reads stated counts (:mod:`groundtrace.grading.responses.stated_counts`) first replaces
each correct sum by its result: "3 + 2 = 5" by 5. A wrong sum is not replaced: in "Total: 6 + 0 = 5", the 6 is still
read as a stated count.
"""

import re
from fractions import Fraction

from groundtrace.grading.answers.numerals import read_numerals
from groundtrace.schemas.patterns import compile_late

_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred"
_WORDS = (
    "zero|no|none|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|"
    f"seventeen|eighteen|nineteen|{_TENS}"
)
NUMBER = (
    rf"(?P<n>\d[\d,]*(?:\.\d+)?|(?:{_WORDS})(?:[- ](?:one|two|three|four|five|six|seven|eight|nine))?)(?![\w,.]*\d)\b"
)
"""Pattern of a number in digits or in English words, as the group ``n``."""
RESULT = "≡"
"""The sign that :func:`without_addends` writes before the result of a sum."""
_NUMBER = NUMBER.replace("?P<n>", "?:")
_SIGN = r"(?:[-+−–*×·]|x(?= ?\d)|\\times|\\cdot|plus|minus|times)"
_AND = r"(?:and|with|,|, and)"
_JOIN = rf"(?:,? ?{_SIGN} ?| ?{_AND} )"
_IS = (
    r"(?:=|→|⇒|=>|->|:|equals?|is|are|makes?|making|gives?|giving|yields?|yielding|totals?|totalling|adds? up to|"
    r"adding up to|sums? (?:up )?to|comes? to|amounts? to|for a total of|so|hence|thus|therefore)"
)
_EQUALS = rf",? ?(?:(?:which|that|this|it|they|together|altogether) )?{_IS} ?(?:that is |that makes |it is )?"
_NOT_A_WORD = rf"(?!(?:{_SIGN}|{_AND}|{_IS}|which|together)(?![\w-])|{_NUMBER})"
_ADDEND = rf"{_NUMBER}(?: {_NOT_A_WORD}[\w'-]++){{0,6}}+"  # without backtracking: the words are read in one way
_SUM = compile_late(
    rf"(?<![\w.,])(?:{RESULT} )?(?P<addends>{_ADDEND}(?:{_JOIN}{_ADDEND}){{1,30}}+){_EQUALS}(?P<result>{_NUMBER})",
    re.IGNORECASE,
)
_PART = compile_late(rf"(?:^|(?P<join>{_JOIN}))(?P<number>{_NUMBER})(?: {_NOT_A_WORD}[\w'-]++)*+", re.IGNORECASE)
_MINUS, _TIMES = frozenset("-−–") | {"minus"}, frozenset("*×·x") | {"times", "\\times", "\\cdot"}


def value_of(written: str) -> Fraction | None:
    """Return the value of a number such as "5", "1,200" or "twenty-one"; None if it cannot be read.

    ``written`` is a text that the pattern :data:`NUMBER` matches. "No" and "none" have the value 0.
    """
    number = read_numerals("0" if written.casefold() in ("no", "none") else written).single
    return None if number is None else number.value


def without_addends(sentence: str) -> str:
    """Return the sentence with each correct sum replaced by the sign :data:`RESULT` and the sum's result.

    For example, "Total: 3 + 2 = 5" becomes "Total: ≡ 5". The sign shows other modules that the number is a result. A
    sum that is wrong is not changed. If a result is added to further numbers ("3 + 2 = 5, 5 + 1 = 6"), the last result
    remains.
    """
    found = _SUM.search(sentence)
    while found is not None:
        if _is_right(found):
            sentence = f"{sentence[: found.start()]}{RESULT} {sentence[found.start('result') :]}"
            found = _SUM.search(sentence, found.start())
        else:
            found = _SUM.search(sentence, found.start("addends") + 1)
    return sentence


def _is_right(match: re.Match[str]) -> bool:
    """Return whether a stated sum such as "3 + 2 = 5" is correct. ``match`` is the match of the sum in a sentence."""
    total, term = Fraction(0), Fraction(0)
    for part in _PART.finditer(match["addends"]):
        value, join = value_of(part["number"]), (part["join"] or "").strip(" ,").casefold()
        if value is None:
            return False
        if join in _TIMES:
            term *= value
        else:
            total, term = total + term, -value if join in _MINUS else value
    return total + term == value_of(match["result"])
