"""Finds the counts that a reasoning text states, for questions of the form "How many …?".

These statements are read in any sentence: "there are 5 red cars", "the image shows five", "5 in total", "Total: 5", "so
5", "they add up to 5", "2 + 3 = 5", "es sind also 5", "cela fait 5". Further statements are read only in the last
sentence of the reasoning: "I will go with 5", "5, then", "5 or 6", "between 5 and 6". The statements "5 or 6" and
"between 5 and 6" have two counts each, 5 and 6, so at least one of the two counts is wrong. A statement about a part
("in the left box", "so far", "two more") or about other things is not read. In a sum such as "2 + 3 = 5", only the
result 5 is read as a count, not 2 and 3 (:mod:`groundtrace.grading.responses.stated_sums`).
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from groundtrace.grading.responses.foreign_counts import foreign_count
from groundtrace.grading.responses.stated_sums import NUMBER, RESULT, value_of, without_addends
from groundtrace.schemas.labels import plain_label, words_of
from groundtrace.schemas.patterns import compile_late

_N = NUMBER
_REST = r"(?=(?P<rest>.*))"  # ahead, so that a sentence can state several
_ONLY = rf"(?:only |exactly |just |a total of |in total |in all |altogether |thus |therefore |precisely |{RESULT} )*"
_SO = r"(?:so|thus|therefore|hence|then|finally|overall|in conclusion|to conclude|in short)"
_WHOLE = r"(?:in total|altogether|in all|overall|all told|all in all|in sum)"
_SUM = (
    r"(?:amount|quantity|total|count|result|sum|tally|number|grand total|final count|verdict|conclusion|outcome|"
    r"estimate|"
    r"anzahl|summe|ergebnis|gesamtzahl)"
)
_IMAGE = r"(?:image|picture|photo|photograph|scene|figure|drawing)"
_SENTENCE = compile_late(r"(?:[^.;\n!?]|[.](?=\d))+")
_ENDED = compile_late(r"[.;\n!?](?!\d)")
_DRESSING = compile_late(r"\\[()\[\]]|\\(?:boxed|text|mathbf|textbf)|[$_`{}]|(?<!\d )\*|\*(?! \d)")  # not in "3 * 2"
_ASIDE = compile_late(
    r"[\"“”‘’()]|'(?=\d)|(?<=\d)'|\b(?:clearly|indeed|really|certainly|definitely|absolutely|obviously|surely|evidently|"
    r"actually|simply|apparently)\b",
    re.IGNORECASE,
)
_CONTRACTED = compile_late(r"\b(there|it|that)['’]s\b", re.IGNORECASE)
_SHOWS = rf"\b(?:the|this) (?:whole |entire )?{_IMAGE} (?:has|shows|contains|holds|includes|depicts)"
_SEES = r"\b(?:we|i|one|you) (?:can )?(?:have|has|see|sees|count|counts|find|finds|get|gets)"
_SEEN = r"(?:can be (?:seen|found|counted)|(?:is|are) (?:visible|shown|present|there|seen|found)|appears?|exists?)"
_GRAND = r"(?:final |total |overall |whole )?"
_IS = r"(?:is|are|equals|comes to|=)"
_GIVES = (
    r"\b(?:makes?|making|gives?|giving|yields?|yielding|totals?|totalling|adds? up to|adding up to|sums? (?:up )?to|"
    r"comes? to|amounts? to|equals?)"
)
_ALSO = r"(?:also |insgesamt |somit |damit |genau |zusammen |donc |exactement |en tout |au total )*"
_FORMS: tuple[tuple[re.Pattern[str], bool], ...] = tuple(
    (compile_late(pattern, re.IGNORECASE), is_whole)
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
        (rf"\b(?:for|to) a total of {_ONLY}{_N}{_REST}", True),
        (rf"\b{_SUM}(?: of (?P<of>[^.;\n:=]{{1,50}}?))? ?[:=] ?{_ONLY}{_N}(?P<rest>)", True),
        (rf"{_GIVES} {_ONLY}{_N}{_REST}", False),
        (rf"(?:{RESULT}|\d ?[-+*/×x] ?\d[^=]{{0,80}}=) ?{_N}{_REST}", False),
        (rf"^\W*(?:that|this|it) is {_ONLY}{_N}{_REST}", False),
        (rf"\b(?:es sind|sind es|das (?:sind|macht|ergibt)|es gibt) {_ALSO}{_N}{_REST}", False),
        (rf"\b(?:insgesamt|zusammen)(?: sind es| macht das)?:? {_N}{_REST}", True),
        (rf"\b(?:il y en a|(?:cela|ça) (?:fait|donne)) {_ALSO}{_N}{_REST}", False),
        (rf"\b(?:au total|en tout|en total)(?: il y en a| hay| son)?:? {_N}{_REST}", True),
    )
)
"""Pairs of a pattern, which matches a statement of a count such as "5 in total", and a bool.

The counted things are those that the question asks for. The bool is True if the matched words always mean all counted
things, as "5 in total" does. If the bool is False, the count certainly includes all of them only if the statement also
names them, as in "there are 5 red cars".
"""
_I = r"(?:i|we|let us|let me|let['’]?s|i['’]d|i['’]ll|my|our|ich|wir|meine?|unsere?|je|nous|mon|notre)"
_AT_THE_END = tuple(
    compile_late(pattern, re.IGNORECASE)
    for pattern in (
        rf"^\W*(?:(?:okay|ok|well|{_SO}|also|donc)\W+)*(?P<led>{_I}(?: [\w'’]+){{0,6}}?)"
        rf" (?:with|on|at|to|for|say|be|is|are|as|choose|pick|take|answer|report|conclude|reach|obtain|get|count|auf|"
        rf"für|bei|mit|sage|ist|nehme|zähle|dis|arrive à):? {_ONLY}{_N}(?P<rest>(?: [\w'-]+){{0,3}})\W*$",
        rf"^(?P<led>.{{0,200}}?)\b{_SUM}\b(?: [\w'-]+){{0,6}}? (?:at|to|is|of|be|equals|beträgt|ist|est|es):? "
        rf"{_ONLY}{_N}"
        r"(?P<rest>(?: [\w'-]+){0,3})\W*$",
        rf"^\W*{_N}(?P<rest>) is (?:my|the|our) (?:final |correct )?(?:answer|{_SUM})\W*$",
        rf"(?:→|⇒|=>|->|=|{RESULT}) ?{_N}(?P<rest>(?: [\w'-]+){{0,3}})\W*$",
        rf"^\W*{_N}(?P<rest>),? (?:then|it is|in all)\W*$",
        rf"\b(?:so |hence |thus ){_N}(?P<rest>) it is\W*$",
    )
)
"""Patterns that find a conclusion with a count, such as "I will go with 5", in the last sentence of a text."""
_M = _N.replace("?P<n>", "?P<m>")
_EITHER = compile_late(
    rf"^(?P<led>\D{{0,200}}?)\b{_N}(?P<rest>(?: [\w'-]+){{0,3}}?)(?:,? (?:or|oder|ou) | ?(?:/|–|-) ?| (?:to|bis) )"
    rf"(?:maybe |perhaps |possibly |even |vielleicht |peut-être )*{_M}(?P<behind>[^.]*)$"
    rf"|^(?P<led2>\D{{0,200}}?)\b(?:between|zwischen|entre) {_N.replace('?P<n>', '?P<n2>')} (?:and|und|et) "
    rf"{_N.replace('?P<n>', '?P<m2>')}(?P<rest2>[^.]*)$",
    re.IGNORECASE,
)
_WOULD_SAY = compile_late(r"\bwould (?:say|be|go|answer|put)\b|['’]d\b", re.IGNORECASE)
_UNDECIDED = compile_late(
    r"^\W*$|\b(?:answers?|it is|there (?:are|is)|say|either|counts?|totals?|numbers?|so|es sind|antwort|réponse)\b",
    re.IGNORECASE,
)
MAX_SENTENCE_CHARS = 400
"""The maximum number of characters that are read of a sentence."""
_LISTED = compile_late(r":(?=\s)|—|\s–\s")
"""Matches the sign between a count and a list of the counted things, such as the colon in "5 cars: one here, …"."""
_CONCLUDES = compile_late(rf"^\W*{_SO}\b", re.IGNORECASE)
_ALONE = compile_late(rf"^\W*{_N}\W*$", re.IGNORECASE)
_IN_LABEL = compile_late(
    rf"\W*(?:(?:the|all|these|those|exactly|only|just|about|a|total|of)\s+)*{_N}(?=\s+[^\W\d]|\W*$)", re.IGNORECASE
)
"""Matches the number of things at the beginning of a label, such as "five yellow squares"."""
_CLAIMS_ALL = compile_late(rf"^\W*{_SO}\b|\b(?:{_WHOLE}|{_SUM}|counts?|counted|exactly|only|just)\b", re.IGNORECASE)
"""Matches words which announce that the count after them includes all counted things.

Examples are "so" at the beginning of a sentence, and "in total", "I counted" or "exactly" anywhere. The pattern is
searched for in the part of a sentence before a tag.
"""
_PART_BEFORE = compile_late(
    r"\b(?:left|right|first|second|third|fourth|fifth|last|middle|cent(?:er|re)|top|bottom|upper|lower|corner|row|column|"
    r"side|panel|region|group|half|quadrant|here|another|other|next|each|every|if|whether|unless|suppose|assum\w+|would|"
    r"could|might|may|question|asks?|statement|claims?)\b"
    rf"|\b(?:{_IMAGE}|frame) ?#?\d"
    rf"|\b(?:in|on|inside|within|from|under|above|below|near|beside|behind|among|with)\s"
    rf"(?!(?:the\s|this\s)?(?:whole\s|entire\s)?(?:{_IMAGE}|total|all|sum|conclusion|short)\b)",
    re.IGNORECASE,
)
_PART_BEHIND = compile_late(
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
    "them", "these", "those", "and", "au", "en", "tout", "insgesamt", "zusammen", "im", "bild", "dans",
])  # fmt: skip


@dataclass(frozen=True)
class StatedCount:
    """Holds one count that a text states, such as "there are 5 red cars".

    ``text`` is the sentence as written. ``start`` and ``end`` are its offsets in the text that was searched. ``value``
    is the stated number. ``is_whole`` is True if the count certainly includes all counted things, as in "5 in total".
    """

    start: int
    end: int
    text: str
    value: Fraction
    is_whole: bool


def spoken_label(label: str, points: int, before: str) -> str:
    """Return the words that replace a point or box tag when stated counts are searched for in the text.

    ``label`` is the tag's label, ``points`` is the number of points or boxes of the tag, and ``before`` is the prose
    before the tag. The result is usually the plain form of the label: without a number, and in lower case
    (:func:`groundtrace.schemas.labels.plain_label`). For example, the text "I see" is followed by a tag with the
    label "one cup" and one point. The result is "cup", since the word "one" only counts the points of the tag.

    There is one exception: if the number at the start of the label states a count of all things, the label is returned
    unchanged. This is assumed in two cases (the angle brackets mark the label of the tag):

    - The number differs from the number of points, as in "there are <five cups>" with one point.
    - The sentence has a word before the tag that announces a count, such as "so" in "so there is <one cup>".
    """
    found = _IN_LABEL.match(label)
    sentence = _ENDED.split(before)[-1]
    if found is None or (value_of(found["n"]) == points and not _CLAIMS_ALL.search(sentence)):
        return plain_label(label)
    return label


def stated_counts(text: str, phrase: frozenset[str], words: frozenset[str]) -> Iterator[StatedCount]:
    """Yield the counts that the sentences of a text state for the counted things, in order.

    ``phrase`` holds the words of the question for the counted things, such as "small" and "object" for "How many small
    objects …?". ``words`` holds the same words without general words such as "object" and "thing". The function takes
    time linear in ``len(text)``.
    """
    sentences = list(_SENTENCE.finditer(text))
    for index, sentence in enumerate(sentences):
        plain = _CONTRACTED.sub(r"\1 is", _DRESSING.sub(" ", sentence.group()))
        plain = " ".join(_ASIDE.sub(" ", unicodedata.normalize("NFKC", plain)).split())  # 𝟓 and ⁵ are 5
        is_dressed = bool(_DRESSING.search(sentence.group()))
        head, tail = (without_addends(part) for part in (plain[:MAX_SENTENCE_CHARS], plain[-MAX_SENTENCE_CHARS:]))
        found = _claims(head, phrase, words)
        if index == len(sentences) - 1 and not text[sentence.end() :].startswith("?"):
            found = _either(head, phrase, words) or found or _final(tail, phrase, words)
        alone = None if found or len(plain) > MAX_SENTENCE_CHARS else _ALONE.match(plain)
        if alone is not None and (is_dressed or index == len(sentences) - 1):
            found = [(value_of(alone["n"]), True)]
        if not found and (foreign := foreign_count(plain[:MAX_SENTENCE_CHARS])) is not None:
            found = [(foreign, True)]
        written = sentence.group().strip()
        start = sentence.start() + sentence.group().index(written)
        for value, is_whole in found:
            if value is not None:
                yield StatedCount(start, start + len(written), written, value, is_whole)


def _claims(sentence: str, phrase: frozenset[str], words: frozenset[str]) -> list[tuple[Fraction | None, bool]]:
    """Return the counts that a sentence states for the things that the question asks for, in order.

    Each count is paired with a bool: True if the count certainly includes all these things, as in "5 in total" or
    "there are 5 red cars". A count that cannot be read is None. ``phrase`` holds the question's words for the things,
    such as "small" and "object". ``words`` holds the same words without general words such as "object".
    """
    claims: dict[int, tuple[Fraction | None, bool]] = {}
    concludes = _CONCLUDES.match(sentence) is not None
    for pattern, is_whole in _FORMS:
        for match in pattern.finditer(sentence):
            before, rest = sentence[: match.start("n")], match["rest"]
            rest = _LISTED.split(rest)[0]
            if concludes:
                rest = re.sub(r" (?:here|of (?:them|these|those))\W*$", "", rest)
            of = frozenset(words_of(match.groupdict().get("of") or ""))
            if of and of - _FILLERS not in (phrase, words):
                continue
            named = [word for word in words_of(rest) if word not in _FILLERS]
            noun = frozenset(named)
            if len(named) > len(noun) and value_of(match["n"]) == 1:
                continue  # "one cup, cup and cup" lists three
            is_same = bool(noun) and noun in (phrase, words)
            if (noun and not is_same) or _PART_BEFORE.search(before) or _is_part(rest):
                continue
            known = claims.get(match.start("n"), (None, False))
            claims[match.start("n")] = value_of(match["n"]), known[1] or is_same or is_whole
    return [claims[place] for place in sorted(claims)]


def _final(sentence: str, phrase: frozenset[str], words: frozenset[str]) -> list[tuple[Fraction | None, bool]]:
    """Return the count that a text's last sentence has as its conclusion: 5 for "I will go with 5" or "5, then".

    The result is a list of one pair (count, True), or an empty list if the conclusion is not a count. A count that
    cannot be read is None. True means that the count includes all counted things; a conclusion always does. ``phrase``
    holds the question's words for the counted things, such as "small" and "object". ``words`` holds the same words
    without general words such as "object".
    """
    for pattern in _AT_THE_END:
        match = pattern.search(sentence)
        if match is not None and _is_of(match["rest"], phrase, words) and not _PART_BEFORE.search(_led(match)):
            return [(value_of(match["n"]), True)]
    return []


def _either(sentence: str, phrase: frozenset[str], words: frozenset[str]) -> list[tuple[Fraction | None, bool]]:
    """Return both counts if a text's last sentence states two alternatives, such as "5 or 6" or "between 5 and 6".

    The result is empty for any other sentence. ``phrase`` holds the question's words for the counted things, such as
    "small" and "object". ``words`` holds the same words without general words such as "object". Each count is paired
    with True, because it includes all counted things.
    """
    match = _EITHER.match(sentence)
    if match is None:
        return []
    led, rest = match["led"] or match["led2"] or "", match["rest"] or match["rest2"] or ""
    if (
        not _UNDECIDED.search(led)
        or _PART_BEFORE.search(_WOULD_SAY.sub(" ", led))
        or not _is_of(rest, phrase, words)
        or re.search(r"\d", match["behind"] or "")
    ):
        return []
    pair = value_of(match["n"] or match["n2"]), value_of(match["m"] or match["m2"])
    return [(value, True) for value in pair] if pair[0] != pair[1] else []


def _led(match: re.Match[str]) -> str:
    return _WOULD_SAY.sub(" ", match.groupdict().get("led") or "")


def _is_of(rest: str, phrase: frozenset[str], words: frozenset[str]) -> bool:
    """Return whether the text after a number names the counted things, or has only filler words such as "in total".

    ``rest`` is this text. ``phrase`` holds the question's words for the counted things, such as "small" and "object".
    ``words`` holds the same words without general words such as "object".
    """
    noun = frozenset(words_of(rest)) - _FILLERS - {"here", "now", "then"}
    return not noun or noun in (phrase, words)


def _is_part(rest: str) -> bool:
    rest = re.sub(rf"^,?\s*of (?:them|these|those)(?=.*\b{_WHOLE})", "", rest, flags=re.IGNORECASE)
    rest = re.sub(r"\b(?:are|is) there$|,?\s*\bof (?:them|these|those)\W*$", "", rest)
    return _PART_BEHIND.search(rest) is not None
