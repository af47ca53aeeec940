"""Rewrites the notation of numbers in answers: signs, superscripts, LaTeX, powers of ten, separators, scales (5k).

Numbers and quantities are read from the plain notation that :func:`plain_notation` returns.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

_SUPERSCRIPT = re.compile(r"([⁺⁻]?)([⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
_SIGNS = str.maketrans(
    dict.fromkeys("−‐‑‒–—﹣－", "-") | {"⁄": "/", "∕": "/", "”": '"', "“": '"'} | dict.fromkeys("’′´", "'")
)
SIGNED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(?:minus|negative)\s+(?=[$€£¥₹]?[.\d])", re.I), "-"),
    (re.compile(r"^\s*([-+])\s+(?=[.\d])"), r"\1"),
)
_TIMES = r"(?:[x×*·⋅∙✕]|\\times|\\cdot)"
_RAISED = r"(?:\^|\*\*)\s?[({]?\s?([-+]?\d{1,2})(?!\d)\s?[)}]?"
_SHORT_SCALES = (
    ("[kK]", "thousand"),
    ("(?:[mM]|mn|mln)", "million"),
    ("(?:[bB]|bn)", "billion"),
    ("(?:T|tn)", "trillion"),
)
"""Abbreviations of scale words directly after an amount of money: in "$5k", "k" means thousand."""
_ATTACHED_SCALES = (("[kK]", "thousand"), ("(?:M|mn|mln)", "million"), ("(?:B|bn)", "billion"), ("tn", "trillion"))
"""Abbreviations of scale words directly after any number, outside formulas: in "5k", "k" means thousand.

"5m" and "5 K" stay unchanged, because they mean 5 metres and 5 kelvins.
"""


def _european(found: re.Match[str]) -> str:
    """Rewrite a number with points between its thousands and perhaps a decimal comma: 1.234,5 becomes 1234.5."""
    return ".".join([found.group(1).replace(".", ""), *found.groups()[1:]])


_NOTATIONS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"(?<![\w.])(\d+) and a half\b", re.I), r"\1.5"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,;:! ]"), ""),
    (re.compile(r"\\(?:text|mathrm|mathbf|textbf|number|mbox)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\^\s*(?:\\circ|\{\s*\\circ\s*\})"), "°"),
    (re.compile(r"\\[dt]?frac\s*\{?\s*(\d{1,15})\s*\}?\s*\{\s*(\d{1,15})\s*\}"), r" \1/\2 "),
    (re.compile(r"\\(?:left|right|displaystyle|textdollar|quad)(?![A-Za-z])"), ""),
    (re.compile(r"\\([$%#&])"), r"\1"),
    (re.compile(r"\\[()\[\]]"), " "),
    (re.compile(r"(?<!\d)\*\*|\*\*(?![-\d({])"), " "),
    *SIGNED,
    (re.compile(rf"(\d)\s?{_TIMES}\s?10\s?{_RAISED}"), r"\1e\2"),
    (re.compile(rf"(?<![\d.\w)^}}*×/+-])(?<![*×/+-]\s)10\s?{_RAISED}(?!\s?[*×/+-])"), r"1e\1"),
    (re.compile(r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+),(\d{1,2})(?![\d,.])"), _european),
    (re.compile(r"(?<![\d.,])(\d{1,3}(?:\.\d{3}){2,12})(?![\d,.])"), _european),
    (re.compile(r"(€\s?-?\d{1,3})\.(\d{3})(?![\d.,])"), r"\1\2"),
    (re.compile(r"(?<![\d.,])(\d{1,3})\.(\d{3})(\s?(?:€|EUR|euros?)(?!\w))"), r"\1\2\3"),
    *((re.compile(rf"([$€£¥₹]\s?-?\d[\d,.]*){short}\b(?![^$]*\$)"), rf"\1 {word}") for short, word in _SHORT_SCALES),
    *(
        (re.compile(rf"(?<![\w.,])(\d[\d,]*(?:\.\d+)?){short}(?![\w°]|\s*[-+*/^=(]\s*\w|[^$]*\$)"), rf"\1 {word}")
        for short, word in _ATTACHED_SCALES
    ),
)


def plain_notation(text: str) -> str:
    """Return a text with its numbers rewritten in a plain notation: "x²" becomes "x^2", and "1.234,5" becomes "1234.5".

    Signs, superscripts, Unicode compatibility forms, and LaTeX around digits are rewritten. Units and currencies stay.
    The text must have at most ``numerals.MAX_CHARS`` characters. The function takes time linear in its length.
    """
    text = _SUPERSCRIPT.sub(lambda found: "^" + unicodedata.normalize("NFKC", found.group()), text)
    text = re.sub(r"([¼-¾⅐-⅞])", r" \1", text)
    text = unicodedata.normalize("NFKC", text).translate(_SIGNS)
    for pattern, replacement in _NOTATIONS:
        text = pattern.sub(replacement, text)
    return text
