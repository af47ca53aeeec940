"""Counts that a reasoning states, for questions that ask how many.

A sentence is read for what it claims: "there are 5 red cars", "the image shows five", "5 in total", "Total: 5", "so 5",
"they add up to 5", "2 + 3 = 5". What is said of a part ("in the left box", "so far", "two more") or of other things is
no claim about the whole.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from schemas.answers.numerals import read_numerals
from schemas.labels import words_of

_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred"
_N = (
    r"(?P<n>\d[\d,]*(?:\.\d+)?|(?:zero|no|none|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|"
    rf"fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|{_TENS})"
    r"(?:[- ](?:one|two|three|four|five|six|seven|eight|nine))?)(?![\w,.]*\d)\b"
)
_REST = r"(?=(?P<rest>.*))"  # ahead, so that a sentence can state several
_ONLY = r"(?:only |exactly |just |a total of |in total |in all |altogether |thus |therefore |precisely )*"
_SO = r"(?:so|thus|therefore|hence|then|finally|overall|in conclusion|to conclude|in short)"
_WHOLE = r"(?:in total|altogether|in all|overall|all told|all in all|in sum)"
_SUM = r"(?:total|count|result|sum|tally|number|grand total|final count)"
_IMAGE = r"(?:image|picture|photo|photograph|scene|figure|drawing)"
_SENTENCE = re.compile(r"(?:[^.;\n!?]|[.](?=\d))+")
_DRESSING = re.compile(r"\\[()\[\]]|\\(?:boxed|text|mathbf|textbf)|[*$_`{}]")
_ASIDE = re.compile(
    r"[\"“”‘’()]|'(?=\d)|(?<=\d)'|\b(?:clearly|indeed|really|certainly|definitely|absolutely|obviously|surely|evidently|"
    r"actually|simply|apparently)\b",
    re.IGNORECASE,
)
_CONTRACTED = re.compile(r"\b(there|it|that)['’]s\b", re.IGNORECASE)
_SHOWS = rf"\b(?:the|this) (?:whole |entire )?{_IMAGE} (?:has|shows|contains|holds|includes|depicts)"
_SEES = r"\b(?:we|i|one|you) (?:can )?(?:have|has|see|sees|count|counts|find|finds|get|gets)"
_SEEN = r"(?:can be (?:seen|found|counted)|(?:is|are) (?:visible|shown|present|there|seen|found)|appears?|exists?)"
_GRAND = r"(?:final |total |overall |whole )?"
_IS = r"(?:is|are|equals|comes to|=)"
_GIVES = (
    r"\b(?:makes?|making|gives?|giving|yields?|yielding|totals?|totalling|adds? up to|adding up to|sums? (?:up )?to|"
    r"comes? to|amounts? to|equals?)"
)
_FORMS: tuple[tuple[re.Pattern[str], bool], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), is_whole)
    for pattern, is_whole in (
        (rf"\bthere (?:are|is|were|must be)(?: then| thus| therefore)? {_ONLY}{_N}{_REST}", False),
        (rf"^\W*{_SO},? there (?:are|is|were) {_ONLY}{_N}{_REST}", True),
        (rf"{_SHOWS} {_ONLY}{_N}{_REST}", False),
        (rf"{_SEES} {_ONLY}{_N}{_REST}", False),
        (rf"^\W*(?:{_SO},? )?{_N}(?P<rest>(?: [\w'-]+)*? {_SEEN}\b.*)", False),
        (rf"{_N}(?P<rest>(?: [\w'-]+){{0,5}}?),? {_WHOLE}\b", True),
        (rf"\b(?:{_WHOLE}|total|count|{_SUM} ?(?:{_IS}|:))[,:]? {_ONLY}{_N}{_REST}", True),
        (rf"\bthe {_GRAND}{_SUM}(?: of (?P<of>[^.;\n]{{1,50}}?))? {_IS} {_ONLY}{_N}{_REST}", True),
        (rf"^\W*(?:{_SO})[,:]? (?:it is |it's |that is |that's |we are at )?{_ONLY}{_N}{_REST}", False),
        (rf"\b(?:for|to) a total of {_N}{_REST}", True),
        (rf"\b{_SUM}(?: of (?P<of>[^.;\n:=]{{1,50}}?))? ?[:=] ?{_N}(?P<rest>)", True),
        (rf"{_GIVES} {_ONLY}{_N}{_REST}", False),
        (rf"\d ?[-+*/×x] ?\d[^=]{{0,80}}= ?{_N}{_REST}", False),
    )
)
"""Wordings of a count, each with whether it speaks of the whole whatever follows."""
MAX_SENTENCE_CHARS = 400
"""How much of a sentence is read."""
_CONCLUDES = re.compile(rf"^\W*{_SO}\b", re.IGNORECASE)
_ALONE = re.compile(rf"^\W*{_N}\W*$", re.IGNORECASE)
_PART_BEFORE = re.compile(
    r"\b(?:left|right|first|second|third|fourth|fifth|last|middle|cent(?:er|re)|top|bottom|upper|lower|corner|row|column|"
    r"side|panel|region|group|half|quadrant|here|another|other|next|each|every|if|whether|unless|suppose|assum\w+|would|"
    r"could|might|may|question|asks?|statement|claims?)\b"
    rf"|\b(?:{_IMAGE}|frame) ?#?\d"
    rf"|\b(?:in|on|inside|within|from|under|above|below|near|beside|behind|among|with)\s"
    rf"(?!(?:the\s|this\s)?(?:whole\s|entire\s)?(?:{_IMAGE}|total|all|sum|conclusion|short)\b)",
    re.IGNORECASE,
)
_PART_BEHIND = re.compile(
    r"\b(?:more|left|others?|fewer|less|here|there|each|every|per|apiece|so far|now|already|yet|another|also|too|"
    r"that|which|who|whose|touch\w*|first|second|not)\b"
    rf"|\b(?:in|on|at|inside|within|under|above|below|near|beside|behind|from|to|with|without|of)\s"
    rf"(?!(?:the\s|this\s)?(?:whole\s|entire\s)?(?:{_IMAGE}|total|all|sum)\b)",
    re.IGNORECASE,
)
_FILLERS = frozenset([
    "in", "on", "the", "this", "whole", "entire", "of", "all", "total", "image", "picture", "photo", "photograph",
    "scene", "figure", "drawing", "altogether", "overall", "can", "be", "seen", "found", "counted", "is", "are",
    "visible", "shown", "present", "there", "appear", "appears", "exist", "exists", "told", "sum", "so", "then",
    "them", "these", "those", "and",
])  # fmt: skip


@dataclass(frozen=True)
class StatedCount:
    """A count as it stands in a text, its offsets and its value; ``is_whole`` where it surely speaks of all."""

    start: int
    end: int
    said: str
    value: Fraction
    is_whole: bool


def stated_counts(text: str, phrase: frozenset[str], words: frozenset[str]) -> Iterator[StatedCount]:
    """Yields the counts of what is asked for that sentences state, in order.

    ``phrase`` are the words for what is counted, ``words`` those of them that tell things apart. Linear in
    ``len(text)``.
    """
    sentences = list(_SENTENCE.finditer(text))
    for index, sentence in enumerate(sentences):
        plain = _CONTRACTED.sub(r"\1 is", _DRESSING.sub(" ", sentence.group()))
        plain = " ".join(_ASIDE.sub(" ", plain).split())
        is_dressed = bool(_DRESSING.search(sentence.group()))
        found = _claims(plain[:MAX_SENTENCE_CHARS], phrase, words)
        alone = None if found else _ALONE.match(plain)
        if alone is not None and (is_dressed or index == len(sentences) - 1):
            found = [(_value(alone["n"]), True)]
        said = sentence.group().strip()
        start = sentence.start() + sentence.group().index(said)
        for value, is_whole in found:
            if value is not None:
                yield StatedCount(start, start + len(said), said, value, is_whole)


def _claims(sentence: str, phrase: frozenset[str], words: frozenset[str]) -> list[tuple[Fraction | None, bool]]:
    """The counts that a sentence states, in order, each with whether it surely speaks of all."""
    claims: dict[int, tuple[Fraction | None, bool]] = {}
    concludes = _CONCLUDES.match(sentence) is not None
    for pattern, is_whole in _FORMS:
        for match in pattern.finditer(sentence):
            before, rest = sentence[: match.start("n")], match["rest"]
            if concludes:
                rest = re.sub(r" (?:here|of (?:them|these|those))\W*$", "", rest)
            of = frozenset(words_of(match.groupdict().get("of") or ""))
            if of and of - _FILLERS not in (phrase, words):
                continue
            noun = frozenset(words_of(rest)) - _FILLERS
            is_same = bool(noun) and noun in (phrase, words)
            if (noun and not is_same) or _PART_BEFORE.search(before) or _is_part(rest):
                continue
            known = claims.get(match.start("n"), (None, False))
            claims[match.start("n")] = _value(match["n"]), known[1] or is_same or is_whole
    return [claims[place] for place in sorted(claims)]


def _is_part(rest: str) -> bool:
    rest = re.sub(rf"^,?\s*of (?:them|these|those)(?=.*\b{_WHOLE})", "", rest, flags=re.IGNORECASE)
    rest = re.sub(r"\b(?:are|is) there$", "", rest)
    return _PART_BEHIND.search(rest) is not None


def _value(written: str) -> Fraction | None:
    number = read_numerals("0" if written.casefold() in ("no", "none") else written).single
    return None if number is None else number.value
