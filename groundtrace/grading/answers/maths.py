"""Compares mathematical answers with the library math-verify, in bounded time.

math-verify (0.9) stops a slow computation with a signal. This works only on the main thread. So this module calls
math-verify without timeouts, and refuses expressions that could take too long. It refuses all limits, all integrals,
and all sums and products over an index. It also refuses long text, deep nesting, powers of powers, large exponents and
factorials, expressions with very many terms after expansion, and expressions with many functions such as sines.

math-verify's function ``verify`` is asymmetric. This module always calls it with the arguments (gold, answer).
"""

from __future__ import annotations

import logging
import math
import re
import unicodedata
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sympy import Basic, MatrixBase

MAX_CHARS = 500
"""Longer text is not read as maths."""

_MAX_NESTING = 15
_MAX_DIGITS = 30
_MAX_POWER = 1000
_MAX_SYMBOLIC_POWER = 20
_MAX_TERMS = 300
"""The maximum number of terms of a product after it is multiplied out.

``(a + b + c)^{20}`` has 231 terms. ``(a + b + c + d)^{20}`` has 1,771 terms, and its comparison takes minutes.
"""
_MAX_FUNCTIONS = 4
"""The maximum number of functions, such as sines, in an expression with symbols such as x.

An expression with more functions is not read as maths, because a comparison would take too long. When two sums were
compared, it took four seconds if each sum had six sines, and more than ten seconds if each had 38 sines.
"""
_MAX_FUNCTIONS_OF_NUMBERS = 12
_MAX_DIVISIONS, _MAX_SETS = 8, 6
"""The maximum number of divisions by symbols, which need a common denominator, and of set operations.

Set operations are unions and intersections.
"""

_IS_MATHS = re.compile(r"\\[A-Za-z]|\^|=|[√π∞∪≤≥]|[⁰¹²³⁴⁵⁶⁷⁸⁹]|\$[^$]{1,500}\$|\\\(|\\\[")
_LEAD = re.compile(
    r"^(?:(?:so|thus|hence|therefore)[, ]+)?(?:the\s+)?(?:final\s+|correct\s+)?(?:answer|result|value)"
    r"\s*(?:is|:|=)\s*:?\s*",
    re.IGNORECASE,
)
_GROUP = re.compile(r"\$\$?([^$]+)\$\$?")
_WORD = re.compile(r"(?<!\\)(?<![A-Za-z\\])[A-Za-z]{4,}")
_WORD_LIKE = frozenset({"sqrt", "sinh", "cosh", "tanh"})
_UPRIGHT = re.compile(r"\\(?:text|mathrm|mbox|operatorname)\s*\{[^{}]*\}")
_UPRIGHT_WORD = re.compile(r"\\(?:text|mathrm|mbox|operatorname)\s*\{([^{}]*)\}")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_SUPERSCRIPT = re.compile(r"([⁺⁻]?)([⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
_SYMBOLS = str.maketrans(
    {
        "−": "-",
        "–": "-",
        "π": r"\pi ",
        "×": r"\times ",
        "·": r"\cdot ",
        "÷": "/",
        "°": r"^{\circ}",
        "≤": r"\le ",
        "≥": r"\ge ",
        "∞": r"\infty ",
        "∪": r"\cup ",
    }
)
_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\\[()\[\]]"), "$"),
    (re.compile(r"\\(?:text|mathrm|number)\s*\{\s*(\d+)\s*\}"), r"\1"),
    (re.compile(r"√\s*(\d+|[A-Za-z]|\([^()]*\)|\{[^{}]*\})"), r"\\sqrt{\1}"),
    (re.compile(r"(?<![\\A-Za-z])sqrt\s*\(([^()]*)\)"), r"\\sqrt{\1}"),
    (re.compile(r"(?<![\\A-Za-z])pi(?![A-Za-z])"), r"\\pi "),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"(?<=[\dA-Za-z)}])\s*\*\s*(?=[\\\dA-Za-z({])"), r" \\cdot "),
    (re.compile(r"(?<!\\)%"), r"\%"),
)
_UNIT = re.compile(
    r"(?<=[\d\s}])\s*(?:[cmdk]m|ft|in|[mk]g|m[lL]|units?|degrees?|cents?|feet|inches|met(?:er|re)s?)"
    r"(?:\s*\^\s*\{?[23]\}?)?$"
)
_ONE_NAME = {
    "feet": "ft",
    "inches": "in",
    "unit": "",
    "units": "",
    "degrees": "degree",
    "cents": "cent",
} | dict.fromkeys(("meter", "meters", "metre", "metres"), "m")
_OTHER_MEANING = re.compile(
    r"\b(?:or|and|not|cannot|never|no|wrong|false|incorrect|impossible|than|at\s+least|at\s+most)\b|n['’]t\b",
    re.IGNORECASE,
)
"""Matches words beside a formula that add something to the formula, or deny it."""
_DECIMALS = re.compile(r"-?\d{1,12}\.(\d{2,12})")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{[a-z]+\}")
_RATIO = re.compile(r"([^:=]+):([^:=]+)")
_REFUSED = re.compile(
    r"\\(?:int|iint|oint|sum|prod|lim|binom|choose|Gamma|zeta)(?![A-Za-z])|[)}\]!|]\s*!|\d(?:[,\s]*\d){3,}\s*!"
)
_POWER = re.compile(r"\^\s*")
_SYMBOL = re.compile(
    r"(?<![\\A-Za-z])[A-Za-z]|\\(?:alpha|beta|gamma|delta|epsilon|theta|lambda|mu|sigma|phi|omega|rho|tau)\b"
)
_FUNCTION = re.compile(
    r"\\?(?:arc|a)?(?:sin|cos|tan|cot|sec|csc)h?(?![a-z])|\\?(?:ln|log|exp)(?![a-z])|\||\be\s*\^|\\sqrt|\\lfloor|\\lceil"
)
_OVER = re.compile(r"\\[dt]?frac|/|\^\s*\{?\s*-")
_OF_SETS = re.compile(r"\\(?:cup|cap|setminus)(?![a-z])")
_STEP = re.compile(
    r"\^\s*(?:\{\s*[-+]?(?P<power>\d+)\s*\}|[-+]?(?P<bare>\d+))|\^\s*(?P<exponent>\{)|(?P<over>\\[dt]?frac|/)|[+\-]|[({\[]|[)}\]]"
)


class MathsMatch(Enum):
    """Lists the possible results of comparing a predicted expression with the gold (correct) expression.

    ROUNDED means that the prediction is the rounded value of an irrational gold (4.24 for 3√2). GOLD_UNREADABLE means
    that the gold is not one mathematical expression, or that its evaluation could take too long.
    PREDICTION_UNREADABLE means the same for the prediction.
    """

    EQUAL = "equal"
    DIFFERENT = "different"
    ROUNDED = "the decimals to which the gold may be rounded"
    GOLD_UNREADABLE = "gold is not one mathematical expression"
    PREDICTION_UNREADABLE = "prediction is not one mathematical expression"


def is_maths(text: str) -> bool:
    """Return whether a short text looks like a formula.

    Such a text has a LaTeX command, a power, "=", a root, ``$…$`` or similar notation. The result is False for a text
    of more than ``MAX_CHARS`` characters.
    """
    return len(text) <= MAX_CHARS and _IS_MATHS.search(text) is not None


def compare_maths(gold: str, predicted: str) -> MathsMatch:
    """Compare a predicted formula with the gold (correct) formula by their mathematical meaning. Never raises.

    Two texts that differ only in spaces, dollar signs and notation are equal, even if they have several expressions ("x
    = 1, y = 2"). In all other cases, each text must be one expression, perhaps with a unit; otherwise the result is
    GOLD_UNREADABLE or PREDICTION_UNREADABLE. Expressions with different units are different. The prediction may also
    have prose around ``$…$``. A ratio a:b is read as a/b. Numbers are compared to six decimals, without other
    tolerance.
    """
    if len(gold) > MAX_CHARS:
        return MathsMatch.GOLD_UNREADABLE
    if len(predicted) > MAX_CHARS:
        return MathsMatch.PREDICTION_UNREADABLE
    if _spelling(gold) in {_spelling(predicted), _spelling(_LEAD.sub("", predicted.strip()))}:
        return MathsMatch.EQUAL
    gold_latex, predicted_latex = _one_expression(gold), _one_expression(predicted)
    if gold_latex is None or not _parsable(gold_latex):
        return MathsMatch.GOLD_UNREADABLE
    if predicted_latex is None or not _parsable(predicted_latex):
        return MathsMatch.PREDICTION_UNREADABLE
    if _verify(gold_latex, predicted_latex):
        units = {_unit(gold), _unit(predicted)} - {""}
        return MathsMatch.DIFFERENT if len(units) > 1 else MathsMatch.EQUAL
    return MathsMatch.ROUNDED if _is_rounded(gold_latex, predicted_latex) else MathsMatch.DIFFERENT


def _unit(text: str) -> str:
    """Return the unit at the end of an answer in a uniform spelling, such as "cm^2"; "" if the answer has no unit."""
    text = _rewrite(text).replace("$", " ").strip().rstrip(" .。")
    found = _UNIT.search(_UPRIGHT_WORD.sub(r" \1", text))
    name, _, power = re.sub(r"[\s{}]", "", found.group() if found else "").partition("^")
    name = _ONE_NAME.get(name.lower(), name.lower())
    return name + (f"^{power}" if name and power else "")


def _is_rounded(gold_latex: str, predicted_latex: str) -> bool:
    """Return whether a decimal answer is the rounded value of an irrational gold, such as 4.24 for 3√2."""
    from sympy import Expr

    decimals = _DECIMALS.fullmatch(predicted_latex.strip())
    gold = _parse(gold_latex)[0]
    if decimals is None or not isinstance(gold, Expr) or not gold.is_irrational:
        return False
    return abs(gold.evalf() - Fraction(predicted_latex.strip())) * 2 <= Fraction(1, 10 ** len(decimals.group(1)))


def _spelling(text: str) -> str:
    """Return the text in LaTeX, without the characters that do not change a formula's meaning.

    Such characters are dollar signs, spaces, a final full stop, and commands such as ``\\left``. Spaces between two
    digits stay.
    """
    text = re.sub(r"\$+", " ", _rewrite(text)).strip(" \n\t").rstrip(" .。\n\t")
    text = re.sub(r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\[,;:! ]", "", text.replace("dfrac", "frac"))
    return re.sub(r"(?<!\d)\s+|\s+(?!\d)", "", text)


def _rewrite(text: str) -> str:
    """Rewrite typographic and programming notation as LaTeX: "√2" becomes ``\\sqrt{2}``, and "2**3" becomes ``2^3``."""
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    text = _SUPERSCRIPT.sub(lambda found: f"^{{{unicodedata.normalize('NFKC', found.group())}}}", text)
    return text.translate(_SYMBOLS)


def _one_expression(text: str) -> str | None:
    """Return the single expression of an answer as LaTeX without dollar signs.

    Returns None if the answer is not one expression, or if its evaluation could take too long.
    """
    text = _rewrite(_LEAD.sub("", text.strip())).strip().rstrip(".。").strip()
    if "$" in text:
        groups = _GROUP.findall(text)
        around = _GROUP.sub(" ", text)
        # Digits or another formula outside the dollars would be lost, so there is more than one part.
        if len(groups) != 1 or re.search(r"[\d$\\=^]", around) or _OTHER_MEANING.search(around):
            return None
        text = groups[0].strip()
    text = _UNIT.sub("", text)
    words = set(_WORD.findall(_COMMAND.sub(" ", _UPRIGHT.sub(" ", _ENVIRONMENT.sub(" ", text)))))
    if not text or words - _WORD_LIKE or re.search(r"[⺀-鿿＀-￯∵∴\n]", text):
        return None
    ratio = _RATIO.fullmatch(text)
    if ratio is not None:
        text = f"({ratio.group(1)})/({ratio.group(2)})"
    return text if _is_cheap(text) else None


def _is_cheap(latex: str) -> bool:
    """Return whether the expression can certainly be evaluated and compared in a short time."""
    if _REFUSED.search(latex) or re.search(rf"\d{{{_MAX_DIGITS + 1}}}", latex):
        return False
    depth = deepest = 0
    for char in latex:
        depth += (char in "({[") - (char in ")}]")
        deepest = max(deepest, depth)
    if deepest > _MAX_NESTING:
        return False
    has_symbol = re.search(r"(?<![\\A-Za-z])[A-Za-z](?![A-Za-z])", _COMMAND.sub(" ", _UPRIGHT.sub(" ", latex)))
    powers = [_power_bound(latex, match.end()) for match in _POWER.finditer(latex)]
    if math.prod(powers) > (_MAX_SYMBOLIC_POWER if has_symbol else _MAX_POWER):
        return False
    symbols = len(set(_SYMBOL.findall(latex)))
    functions = len(_FUNCTION.findall(latex))
    if functions > (_MAX_FUNCTIONS if symbols else _MAX_FUNCTIONS_OF_NUMBERS):
        return False
    if symbols and len(_OVER.findall(latex)) > _MAX_DIVISIONS:
        return False
    if len(_OF_SETS.findall(latex)) > _MAX_SETS or _terms(latex) > _MAX_TERMS:
        return False
    return not any(_is_tower(latex, match.end()) for match in re.finditer(r"\^", latex))


def _power_bound(latex: str, at: int) -> int:
    """Return an estimate of the value of the exponent that begins at the offset ``at``.

    The estimate is the product of the whole numbers in the exponent, in which a 0 counts as 1. It is 1 if the exponent
    has no number. For example, it is 99 for ``^(3 \\cdot 33)``, whose value is also 99, and 99 for ``^{1+99}``, whose
    value is 100. The estimate is rarely too small, and then usually only by a little. If the exponent has a factorial,
    the result is above ``_MAX_POWER``, so the expression is refused.
    """
    if latex[at : at + 1] in {"{", "("}:
        exponent = latex[at : _group_end(latex, at)]
    else:
        found = re.compile(r"[-+]?\d*\s*!?").match(latex, at)
        exponent = found.group() if found else ""
    if "!" in exponent:
        return _MAX_POWER + 1
    return math.prod(max(int(number), 1) for number in re.findall(r"\d+", exponent))


def _terms(latex: str) -> int:
    """Return an upper bound on the number of terms of an expression.

    The terms are counted as if the expression were multiplied out over a common denominator.
    """
    sums, products, denominator, done = [0], [1], 1, 0
    is_below = False
    for step in _STEP.finditer(latex):
        if step.start() < done:
            continue
        sign = step.group()[0]
        if sign in "({[":
            sums.append(0)
            products.append(1)
        elif sign in ")}]" and len(sums) > 1:
            terms = sums.pop() + products.pop()
            power = _STEP.match(latex, step.end())
            if power is not None and (number := power["power"] or power["bare"]):
                terms = math.comb(terms + int(number) - 1, terms - 1)
            products[-1] = min(products[-1] * terms, _MAX_TERMS + 1)
            denominator = min(denominator * terms, _MAX_TERMS + 1) if is_below else denominator
        elif step["over"]:
            is_below = True
        elif step["exponent"]:
            done = _group_end(latex, step.start("exponent"))
        elif sign in "+-":
            sums[-1], products[-1] = min(sums[-1] + products[-1], _MAX_TERMS + 1), 1
    return (sum(sums) + math.prod(products)) * denominator


def _is_tower(latex: str, at: int) -> bool:
    """Return whether an exponent is part of a tower of powers, such as ``2^{3^4}`` or ``2^3^4``.

    ``at`` is the offset of the exponent in ``latex``. The result is True in two cases: a second ``^`` directly follows
    the exponent, or the exponent contains a power. Only the first power in the exponent is checked. It does not count
    if its base is a symbol other than e, because it is then not evaluated: ``x^2`` in ``e^{x^2}`` does not count, but
    ``e^3`` in ``2^{e^3}`` counts.
    """
    while at < len(latex) and latex[at] == " ":
        at += 1
    end = at + 1
    if latex[at : at + 1] in {"{", "("}:
        end = _group_end(latex, at)
    exponent = latex[at:end]
    if re.match(r"[\d\s]*\^", latex[end:]):
        return True
    inner = exponent.find("^")
    # A power of a symbol within an exponent stays symbolic (e^{x^2}); anything else may be evaluated.
    return inner >= 0 and not (exponent[inner - 1].isalpha() and exponent[inner - 1] != "e")


def _group_end(latex: str, at: int) -> int:
    """Return the offset after the bracket that closes the bracket at the offset ``at``."""
    depth, end = 0, at
    for end in range(at, len(latex)):
        depth += (latex[end] in "{(") - (latex[end] in "})")
        if depth == 0:
            break
    return end + 1


@lru_cache(maxsize=4096)
def _parse(latex: str) -> tuple[Basic | MatrixBase, ...]:
    """Return the sympy objects of one expression, without the strings that math-verify adds as a fallback."""
    # Loading sympy takes half a second: only runs with mathematical answers need it.
    from math_verify import LatexExtractionConfig, parse

    _silence()
    found = parse(f"${latex}$", extraction_config=[LatexExtractionConfig()], parsing_timeout=0)
    return tuple(item for item in found if not isinstance(item, str))


def _parsable(latex: str) -> bool:
    """Return whether math-verify can parse the expression."""
    return bool(_parse(latex))


@lru_cache(maxsize=4096)
def _verify(gold_latex: str, predicted_latex: str) -> bool:
    """Return whether math-verify finds the gold and the answer equal; the order of the arguments matters."""
    from math_verify import verify

    gold: list[Basic | MatrixBase | str] = [*_parse(gold_latex)]
    predicted: list[Basic | MatrixBase | str] = [*_parse(predicted_latex)]
    return verify(gold, predicted, timeout_seconds=0)


@lru_cache(maxsize=1)
def _silence() -> None:
    """Suppress math-verify's warning that its timeouts are off; this module turns them off on purpose."""
    logging.getLogger("math_verify").setLevel(logging.ERROR)
