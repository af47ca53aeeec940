"""Finds coordinates in the prose of a response, which is the text outside of tags.

Such coordinates are a fault (:mod:`groundtrace.rewards.form`), because scorers check coordinates only in tags. There is
one exception: they are no fault if the question is about coordinates.

Every response is searched in two ways. :func:`place_in_prose` finds a position in a usual spelling, such as
"(120, 45)". :func:`place_in_words` finds coordinates in any spelling, such as "at 120, 45". The second search is needed
most for responses that must have only words (iVGR §3.2, the textual stream): a model that is trained on responses with
coordinates would learn to write coordinates.

Numbers alone are never coordinates, so counts, tables, dates and sums are not found. Numbers are coordinates only in
one of these forms: in brackets; with names of axes, sides or corners; as a pair after a preposition of place; in
pixels; or as shares of the width and height. Before the search, digits of other scripts and full-width characters are
converted, and invisible characters, LaTeX, quotes and marks of uncertainty ("about", "≈", "±2") are removed
(:func:`plain`).
"""

import re
import unicodedata

from groundtrace.grading.answers.number_words import WORDS
from groundtrace.schemas.patterns import compile_late

_HEDGES = compile_late(
    r"\s{0,3}±\s*\d{1,5}(?:\.\d{1,6})?|\b(?:about|around|approximately|approx\.?|roughly|circa|ca\.)(?=\s*[-~≈\d])|[~≈≃]"
    r"|\\(?:left|right|approx|sim|quad)(?![a-z])|\\[()\[\],;!: ]|\\(?:begin|end)\{[a-z]{0,8}matrix\*?\}"
)
_SIGNS = {
    ord(sign): to
    for signs, to in (
        ("−–—", "-"),
        ("⟨〈《「『【〔", "("),
        ("⟩〉》」』】〕", ")"),
        ("、،&", ","),
        ("×", "x"),
        ("→∈", "="),
    )
    for sign in signs
} | dict.fromkeys(map(ord, "$\"'“”‘’`*"))
"""Maps characters (as code points) to their replacements, so that the same sign always has one spelling.

Dashes, brackets and separators of numbers are replaced by ASCII signs, "×" by "x", and "→" and "∈" by "=". Quotes,
dollar signs, backticks and asterisks are removed.
"""

_FIGURE = r"-?(?:\d{1,5}(?:\.\d{1,6})?|\.\d{1,6})(?:e[+-]?\d{1,2})?"
_UNIT = r"(?:\s*(?:px|pixels?|%))?"
_NUMBER = rf"\s*{_FIGURE}\s*(?:px|pixels?)?\s*"
_PLACE = compile_late(
    rf"[(\[]{_NUMBER},{_NUMBER}(?:,{_NUMBER},{_NUMBER})?[)\]]"
    rf"|(?<![A-Za-z0-9_])x\d{{0,3}}\s*[=:]\s*{_NUMBER}[,;]?\s*(?:and\s+)?y\d{{0,3}}\s*[=:]\s*{_NUMBER}",
    re.IGNORECASE,
)

_COMMA = r"\s*[,;]\s*"
_PAIR = rf"{_FIGURE}{_UNIT}\s*(?:[,;|]|\s/\s)\s*{_FIGURE}{_UNIT}"
_LOOSE_PAIR = rf"{_FIGURE}{_UNIT}(?:\s*[,;/|x]\s*|\s+(?:and|y|und|et|by)?\s*){_FIGURE}"
_NO_LIST = r"(?!\.?\d|,\d{3}\b|\s*,?\s*(?:and|or|&)\s*\d|\s*[,;/-]\s*\d|\s+(?:are|stand|remain|more|others?)\b)"
"""A negative lookahead, to be placed after the pattern of a pair of numbers.

The pair does not match if it is the beginning of a longer list, a date, or a number with thousands separators, or if a
word such as "are" or "more" follows.
"""
_NO_THOUSANDS = r"(?!\d{1,3}(?:,\d{3})+(?![\d]))"
_NUMERAL = (
    r"(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|"
    r"(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundred)\b"
)
_ONES = r"one|two|three|four|five|six|seven|eight|nine"
_TENS = r"twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_IN_LETTERS = compile_late(
    rf"\b(?:({_ONES})\s+hundred\b(?:\s+and\b)?)(?:\s+({_TENS})\b(?:[\s-]({_ONES})\b)?)?"
    rf"|\b({_TENS})\b(?:[\s-]({_ONES})\b)?",
    re.IGNORECASE,
)
"""Matches numbers from twenty on that are written in English words; :func:`place_in_words` converts them to digits.

Words for smaller numbers are not matched, because they usually count things and seldom give positions.
"""
_SAID = r"(?:(?:of|is|are|at|equals|from|between|ranges?|spans?|runs?|goes|lies|value)\b\W{0,3}){0,4}"
_X, _Y = (
    rf"(?<![A-Za-z0-9_])(?:c|c_|cent(?:er|re)_?)?{axis}"
    r"(?:_?[012c]|_?min|_?max|[ _-]?coordinates?|[ _-]?positions?|_?cent(?:er|re))?"
    rf"(?![\w'-])\s*[=:>-]{{0,2}}\s*{_SAID}(?:{_FIGURE}|{_NUMERAL})"
    for axis in ("[xu]", "[yv]")
)
_CORNER = (
    r"(?:(?:top|upper|bottom|lower)[ _-]?(?:left|right)|(?:left|right)[ _-](?:top|upper|bottom|lower)"
    r"|[左右][上下]角?|[上下][左右]角?)"
)
_SPOT = (
    r"(?:\b(?:coordinates?|coordonn[ée]es|coordenadas|koordinaten|coordinate|pixels?|location|position|"
    r"cent(?:er|re)d?|midpoint|point|coordinate pair|grid cell"
    r"|posici[óo]n|posizione|posiç[ãa]o|punkt|точке)\b|坐标|座標|像素|位置|中心点?|좌표)"
)
_SIDE = r"(?:[xy]?[ _]?(?:min|max)|[xy][ _]?[12]|left|top|right|bottom|width|height)"
_ACROSS, _DOWN = r"(?:left|right|width|across|horizontal\w*)", r"(?:top|bottom|height|down|vertical\w*)"
_LONG = r"(?<![\d.])(?:\d{2,4}(?:\.\d{1,6})?|0?\.\d{1,6})(?:\s*(?:px|pixels?|units?|%|percent))?"
"""A pattern for numbers that are typical of coordinates and rare for counts. Such a number has two to four digits
before the decimal point, or is a decimal fraction below 1.
"""
_FAR = r"(?<![\d.])\d{3,4}(?:\.\d{1,6})?(?:\s*(?:px|pixels?|units?))?"
_IMAGE = r"(?:image|picture|photo|frame|scene)"
_EDGE = r"(?:left|right|top|bottom|upper|lower)"
_NO_LENGTH = r"(?!\d|\s*(?:m|cm|mm|km|ft|in|feet|met(?:er|re)s?|inch(?:es)?)\b)"
_SHARE = rf"{_FIGURE}\s*(?:%|percent)\s+(?:\w+\s+){{0,3}}"
_RANGE = rf"{_FIGURE}\s*(?:-|\.\.|to)\s*{_FIGURE}"
_IN_WORDS = compile_late(
    "|".join(
        (
            # Four numbers in brackets or after a word for a box; two in brackets with a separator other than a comma.
            rf"[(\[{{]\s*{_FIGURE}(?:[\s,;/-]{{1,3}}{_FIGURE}){{3}}",
            rf"\b(?:b?box(?:es)?|bound(?:ing|ed)|corners?|region)\b[^.\n\d]{{0,24}}{_FIGURE}(?:[\s,;/-]{{1,3}}{_FIGURE}){{3}}",
            rf"\bbounding box\b[^.\n\d]{{0,24}}{_FIGURE}(?:[\s,]{{1,3}}(?:and\s+)?{_FIGURE}){{3}}",
            rf"\[\s*{_FIGURE}\s*:\s*{_FIGURE}\s*,\s*{_FIGURE}\s*:\s*{_FIGURE}\s*\]",
            rf"[(\[]\s*{_FIGURE}{_UNIT}(?:\s*[;|]\s*|\s+){_FIGURE}{_UNIT}\s*[)\]]",
            rf"<\s*{_FIGURE}{_COMMA}{_FIGURE}\s*>|\|\s*{_FIGURE}{_COMMA}{_FIGURE}\s*\|",
            # Two or four numbers after a word of place; several pairs in a row.
            rf"\b(?:at|near)\s+(?:the\s+)?[(\[{{,]?\s*{_NO_THOUSANDS}{_PAIR}(?:{_COMMA}{_PAIR})?{_NO_LIST}",
            rf"\b(?:at|near)\s+{_FIGURE}\s*(?:x|by)\s*{_FIGURE}(?!\s*(?:px|pixels?|grid|resolution|cells?|matrix))",
            rf"@\s*[(\[]?\s*{_PAIR}",
            rf"{_SPOT}[是为在]?\W{{0,3}}(?:(?:are|is|at|of|lies)\b\W{{0,3}}){{0,2}}{_LOOSE_PAIR}{_NO_LIST}",
            rf"{_CORNER}[^.;\n\d]{{0,24}}{_LOOSE_PAIR}{_NO_LIST}",
            r"(?<![\d.,])\d{2,4}(?:,\s?|\s)\d{2,4}(?:\s*;\s*|\s+(?:-|to)\s+)(?:\w+\s+){0,2}\d{2,4}(?:,\s?|\s)\d{2,4}(?![\d.,]*\d)",
            rf"(?:\b(?:bei|situé[es]*\s+[àa]|está\s+en|точке)\s+|[在于]){_PAIR}{_NO_LIST}(?!\s*[年月日点時时岁])",
            # A pair without a word of place: in braces, after an arrow, as shares or in coordinates of the image.
            rf"[{{<]\s*(?:{_FAR}[\s,;|]+{_LONG}|{_LONG}[\s,;|]+{_FAR})\s*[}}>]",
            rf"->\s*{_NO_THOUSANDS}{_LONG}\s*[,;|]\s*{_LONG}{_NO_LIST}",
            rf"{_FIGURE}\s*(?:%|percent)\s*(?:x|by)\s*{_FIGURE}\s*(?:%|percent)\s+of\s+the\s+{_IMAGE}",
            rf"\b(?:normali[sz]ed|relative|image|pixel)\s+coordinates?\b[^.\n\d]{{0,30}}{_LONG}\W{{1,3}}(?:and\s+)?{_LONG}",
            rf"\binto\s+\d{{3,4}}\s+units\b[^.\n\d]{{0,30}}{_LONG}\W{{1,3}}(?:and\s+)?{_LONG}",
            r"\bcell\s+\d{1,4}\s*,\s*\d{1,4}(?=\s*(?:$|[.;)]))",
            # One axis by its name, and steps along both.
            rf"\b(?:horizontal|vertical)\s+(?:positions?|coordinates?|offsets?|locations?)\b[^.\n\d]{{0,24}}{_LONG}",
            rf"\b(?:abscissa|ordinate)\b[^.\n\d]{{0,16}}{_FIGURE}",
            rf"{_FAR}\s+(?:to\s+the\s+)?(?:right|left|across)\b[^.\n\d]{{0,12}}{_LONG}\s+(?:down|up|below|above)\b",
            rf"{_FAR}\s+(?:down|up|below|above)\b[^.\n\d]{{0,12}}{_LONG}\s+(?:to\s+the\s+)?(?:right|left|across)\b",
            rf"\b(?:located|lies|found|centred|centered)\s+(?:\w+\s+)?{_FIGURE}\s*(?:%|percent)\s+of\s+the\s+(?:{_IMAGE}(?:s|'s)?"
            rf"\s+)?(?:width|height)\b(?!\s+of\s+(?!the\s+{_IMAGE}))",
            rf"\bat\s+(?:an?|the)\s+(?:width|height)\s+of\s+{_FIGURE}{_NO_LENGTH}[^.\n\d]{{0,20}}\b(?:width|height)\s+of\s+{_FIGURE}"
            rf"{_NO_LENGTH}",
            rf"[距离](?:离|图片?|画面)?[左右上下](?:边|侧|方|缘|边缘)?(?:约|大约)?\s*{_FIGURE}\s*(?:px|像素|%)",
            # Sides and edges.
            rf"\b[ltrb]\s*[:=]\s*{_LONG}\W{{1,3}}[ltrb]\s*[:=]\s*{_LONG}\W{{1,3}}[ltrb]\s*[:=]\s*{_LONG}",
            rf"\b{_SIDE}\s*[=:]?\s*{_FIGURE}\W{{1,4}}{_SIDE}\s*[=:]?\s*{_FIGURE}\W{{1,4}}{_SIDE}\b",
            r"[(\[]\s*x_?1\s*,\s*y_?1\b|\b(?:xyxy|xywh|cxcywh)\b",
            rf"\b(?:left|right|top|bottom|upper|lower)\s+(?:edge|side|border|boundary)\s+(?:\w+\s+)?at\s+{_FIGURE}",
            rf"[(\[,{{]\s*left\s*[=:]?\s*{_FIGURE}\s*,\s*top\s*[=:]?\s*{_FIGURE}\s*[)\],}}]",
            rf"\bleft\s+(?:is|=)\s*{_FIGURE}\W{{1,4}}(?:and\s+)?top\s+(?:is|=)\s*{_FIGURE}",
            # Pixels and shares from an edge, ranges along both sides, rows and columns of pixels.
            rf"{_FIGURE}\s*(?:px|pixels?)\s+(?:in\s+|down\s+|across\s+|up\s+)?(?:from|off)\s+(?:the\s+)?{_EDGE}\b",
            rf"{_FIGURE}\s*(?:%|percent)\s+(?:of\s+the\s+way\s+)?(?:in\s+|down\s+|across\s+|up\s+)?from\s+(?:the\s+)?{_EDGE}"
            rf"(?=\s*(?:$|[.,;:)])|\s+(?:edge|side|border|corner|margin|and|to|of\s+the\s+{_IMAGE})\b)",
            rf"{_FIGURE}\s*(?:px|pixels?)\s+(?:right|left|down|up|across|below|above)\b",
            rf"{_SHARE}{_ACROSS}\b[^.\n]{{0,30}}?{_SHARE}{_DOWN}\b|{_SHARE}{_DOWN}\b[^.\n]{{0,30}}?{_SHARE}{_ACROSS}\b",
            rf"{_RANGE}\s*(?:px|pixels?)?\s*(?:horizontally|vertically|in\s+[xy]\b)",
            rf"{_RANGE}\s*x\s*{_RANGE}",
            r"\bpixels?\b[^.\n\d]{0,20}\b(?:row|column)\s+\d+\W{1,5}(?:column|row)\s+\d+",
            r"\bpixels?\s+(?:row|column)\s+\d{2,5}|\b\d{1,4}(?:st|nd|rd|th)\s+(?:pixel|(?:column|row)\s+of\s+pixels)\b",
            r"\brow\s+index\s+\d+\W{1,5}col(?:umn)?\s+index\s+\d+|\br\s*=\s*\d+\W{1,3}c\s*=\s*\d+",
            r"\b(?:row\s+\d{3,5}\W{1,5}column\s+\d+|column\s+\d{3,5}\W{1,5}row\s+\d+)",
        )
    ),
    re.IGNORECASE,
)

_ON_AXES = compile_late(
    rf"{_X}[^.\n]{{0,40}}?{_Y}|{_Y}[^.\n]{{0,40}}?{_X}"
    rf"|\b(?:between|from)\s+(?:{_X}\s+(?:and|to)\s+{_X}|{_Y}\s+(?:and|to)\s+{_Y})"
    rf"|{_FIGURE}\s+(?:on|along)\s+the\s+(?:x|horizontal)\b[^.\n]{{0,30}}?{_FIGURE}\s+(?:on|along)\s+the\s+(?:y|vertical)\b",
    re.IGNORECASE,
)
"""Matches numbers for both axes, such as "x is 120 and y is 45".

They are not coordinates if the question is about axes, or about unknowns called x and y (:func:`place_in_words`).
"""

_SPACES = re.compile(r"[^\S\n]+")
_BLANK_LINES = re.compile(r" ?\n\s*")


def plain(text: str) -> str:
    """Return the text in a normal form, so that coordinates in it are easier to find.

    The digits of other scripts become ASCII digits. Brackets, dashes and separators of numbers get one spelling each.
    Quotes, invisible characters, some LaTeX commands, and words such as "about" are removed. Several spaces in a row
    become one space, because each further space multiplies the time of a search.
    """
    text = "".join(_plain_sign(sign) for sign in unicodedata.normalize("NFKC", text))
    text = _HEDGES.sub(" ", text).translate(_SIGNS)
    return _BLANK_LINES.sub("\n", _SPACES.sub(" ", text))


def _plain_sign(sign: str) -> str:
    if sign.isascii():
        return sign
    if unicodedata.category(sign) == "Cf":
        return ""
    digit = unicodedata.digit(sign, None)
    return sign if digit is None else str(digit)


def _in_digits(found: re.Match[str]) -> str:
    hundreds, *rest = (WORDS.get((word or "").casefold(), 0) for word in found.groups())
    return str(hundreds * 100 + sum(rest))


def place_in_prose(prose: str) -> str | None:
    """Return the first coordinates in the text, such as "(120, 45)" or "x = 120, y = 45"; None if there are none.

    ``prose`` is the text of a response without its tags.
    """
    return _first(_PLACE, plain(prose))


def place_in_words(text: str, is_of_axes: bool = False) -> str | None:
    """Return the first coordinates in the text, in any spelling, such as "at 120, 45"; None if there are none.

    ``is_of_axes`` is whether the question is about axes, or about unknowns called x and y. If so, values of x and y are
    not coordinates.
    """
    digits = _IN_LETTERS.sub(_in_digits, plain(text))
    found = _first(_IN_WORDS, digits)
    return found if found is not None or is_of_axes else _first(_ON_AXES, digits)


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return None if found is None else found.group()
