"""What a reasoning concludes in so many words, and whether that is the gold answer.

Read are the plain forms: "the answer is X" (and its like in other languages), "the statement is false", "so yes",
"option B is right", and for questions that count "so there are 5", "5 in total", "that makes 5". All else is left to a
judge. What is said under a condition ("if the answer were 5") is not a conclusion; nor is a part of a count ("so there
are 2 circles in the left box", "there are 3 more").
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from schemas.answers.grading import grade_answer
from schemas.answers.numerals import read_numerals
from schemas.answers.polarity import POLARITY
from schemas.answers.registry import answer_type_named
from schemas.labels import counted_phrase, counted_words, words_of
from schemas.records import Question

_CLAUSE = r"(?:[^.;:\n!?]|[.:](?=\d)){1,80}"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred"
_NUMBER = (
    r"(?P<n>\d[\d,]*(?:\.\d+)?|(?:zero|no|none|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|"
    rf"fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|{_TENS})"
    r"(?:[- ](?:one|two|three|four|five|six|seven|eight|nine))?)\b"
)
_SO = r"\b(?:so|thus|therefore|hence|in total|altogether|in all|overall|in sum|in conclusion|to conclude|finally)\b,?\s"
_ADVERBS = r"(?:therefore |thus |then |clearly |indeed |definitely |actually |simply |that )?"
_ANSWER = re.compile(
    r"\b(?:final |correct |right |my |the |overall )*answer\s*"
    rf"(?:(?:is|was|must be|has to be|should be|will be|equals)\b|[:=])\s*{_ADVERBS}(?P<x>{_CLAUSE})"
    r"|(?:答案|答え)\s*(?:应该是|应为|是|为|は|：|:)\s*(?P<zh>[^。，；\n]{1,40})"
    r"|\b(?:la respuesta(?: correcta)? es|la réponse(?: correcte)? est|die (?:richtige )?antwort (?:ist|lautet)|"
    rf"la risposta(?: corretta)? è|a resposta(?: correta)? é)\s*:?\s*(?P<eu>{_CLAUSE})",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"\b(?:the|this|that)\s+(?:given |above )?(?:statement|claim|sentence|caption|assertion|proposition|description)\s+"
    rf"(?:(?:is|was|must be|has to be|turns out(?: to be)?)(?P<not>n't|\s+not|\s+never)?\s+{_ADVERBS}"
    r"(?P<side>true|false|correct|incorrect|right|wrong|accurate|inaccurate|untrue|valid|invalid)\b"
    r"|(?P<fails>does not hold|doesn't hold|fails)\b|(?P<holds>holds)\b)",
    re.IGNORECASE,
)
_BARE_SIDE = re.compile(
    rf"{_SO}(?:it is |it's |the answer is )?(?P<side>yes|no|true|false)\s*(?=[.,;!\n]|$)", re.IGNORECASE
)
_OPTION = re.compile(
    r"\b(?:option|choice)\s*\(?(?P<x>[A-J])\)?\s+(?:is|must be)\s+(?:the\s+)?(?P<not>not\s+(?:the\s+)?)?"
    r"(?:correct|right|true|answer)\b",
    re.IGNORECASE,
)
_COUNT = re.compile(
    rf"(?P<so>{_SO}[^.;\n]{{0,40}}?)?\b(?:there (?:are|is|were)|it is|it's|(?:we|i) (?:get|have|count|see|find)|"
    r"one counts|(?:that|this|which) makes|giving|for a total of|a total of|totals|"
    r"the (?:final |total |overall )?(?:total|count|number|sum|tally)(?: of [^.;\n]{1,50}?)? "
    r"(?:is|are|equals|comes to|=))\s+(?:only |exactly |just |a total of |in total |altogether |thus |therefore )*"
    rf"{_NUMBER}(?P<rest>[^.;\n]{{0,80}})",
    re.IGNORECASE,
)
_TOTAL = re.compile(
    rf"\b{_NUMBER}(?P<rest>(?: [\w-]+){{0,4}}?) (?:in total|altogether|in all|overall)\b", re.IGNORECASE
)
_IF = re.compile(
    r"\b(?:if|whether|unless|suppose|assume|assuming|supposing|say|would|could|might|may|had)\b[^.;\n]{0,40}$",
    re.IGNORECASE,
)
_PART = re.compile(
    r"^(?:more|left|other|others|fewer|less|of (?:them|these|those|the|which)|here|there|each|per|apiece|"
    r"(?:in|on|at|inside|within|under|above|below|near|beside|behind|from|to|with|without|that|which|who)"
    r"\s(?!(?:the\s)?(?:whole\s|entire\s)?(?:image|picture|photo|photograph|scene|figure|total|all)\b))\b",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"\b(?:in|on|at|inside|within|from|under|above|below|near|beside|behind|among|of)\s"
    r"(?!(?:the\s)?(?:whole\s|entire\s)?(?:image|picture|photo|photograph|scene|figure|total|all)\b)[^.;\n]*$",
    re.IGNORECASE,
)
_STOPS = frozenset(["in", "on", "and", "so", "altogether", "overall", "visible", "shown", "present", "which", "as"])
_DENIED = re.compile(r"\s*(?:not|never)\s+", re.IGNORECASE)
_TAKEN_BACK = re.compile(r"\b(?:wait|actually|no,|let me|recount|correction|scratch that|hmm)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Conclusion:
    """A conclusion as it stands in a text, its offsets there, and whether it is the gold answer."""

    start: int
    end: int
    said: str
    right: bool


def contradiction(reasoning: str, question: Question) -> str | None:
    """Returns a conclusion of the reasoning that is not the question's gold answer, as it stands there; None where each
    one that can be read agrees.

    ``reasoning`` is prose, with labels in place of tags. What is taken back later ("wait, …") does not count. Never
    raises; linear in ``len(reasoning)``.
    """
    wrong = (each for each in conclusions(reasoning, question) if not each.right)
    return next((each.said for each in wrong if not _TAKEN_BACK.search(reasoning, each.end)), None)


def conclusions(reasoning: str, question: Question) -> list[Conclusion]:
    """Returns the conclusions that can be read, in order. Never raises; linear in ``len(reasoning)``."""
    found = [*_answers(reasoning, question), *_options(reasoning, question)]
    gold = POLARITY.get(question.answer.strip().casefold())
    if gold is not None:
        found += _sides(reasoning, gold)
    if answer_type_named(question.answer_type).is_number:
        found += _counts(reasoning, question)
    kept = (each for each in found if not _IF.search(reasoning[max(0, each.start - 60) : each.start]))
    return sorted(kept, key=lambda each: each.start)


def _conclusion(match: re.Match[str], right: bool) -> Conclusion:
    return Conclusion(match.start(), match.end(), match.group(), right)


def _graded(said: str, match: re.Match[str], question: Question, denied: bool) -> Iterator[Conclusion]:
    """The conclusion that an answer is said to be right, or not to be; none where only a judge could grade it."""
    value = grade_answer(said, question.answer, question.answer_type, question.choices).value
    if value is not None:
        yield _conclusion(match, (value == 1) != denied)


def _answers(text: str, question: Question) -> Iterator[Conclusion]:
    for match in _ANSWER.finditer(text):
        said = next(part for part in match.groupdict().values() if part)
        denied = _DENIED.match(said)
        # That some other answer is wrong says nothing.
        for each in _graded(said[denied.end() :] if denied else said, match, question, bool(denied)):
            if not (denied and each.right):
                yield each


def _options(text: str, question: Question) -> Iterator[Conclusion]:
    for match in _OPTION.finditer(text) if question.choices else ():
        for each in _graded(match["x"], match, question, bool(match["not"])):
            if not (match["not"] and each.right):
                yield each


def _sides(text: str, gold: bool) -> Iterator[Conclusion]:
    for match in _STATEMENT.finditer(text):
        side = match["holds"] is not None
        if match["side"]:
            side = match["side"].casefold() in ("true", "correct", "right", "accurate", "valid")
            side = side != bool(match["not"])
        yield _conclusion(match, side == gold)
    for match in _BARE_SIDE.finditer(text):
        yield _conclusion(match, POLARITY[match["side"].casefold()] == gold)


def _counts(text: str, question: Question) -> Iterator[Conclusion]:
    """Counts of what is asked for that are stated as the whole, and the last bare total."""
    counted, gold = counted_words(question.question), read_numerals(question.answer).single
    if counted is None or gold is None:
        return
    phrase = frozenset(counted_phrase(question.question) or ())
    last: Conclusion | None = None
    for match in sorted((*_COUNT.finditer(text), *_TOTAL.finditer(text)), key=re.Match.start):
        number = read_numerals("0" if match["n"].casefold() in ("no", "none") else match["n"]).single
        noun, is_part = _noun_and_part(match["rest"])
        before = text[max(0, match.start() - 80) : match.start()]
        if number is None or is_part or _PLACE.search(before) or (noun and noun not in (phrase, counted)):
            continue
        last = _conclusion(match, number.value == gold.value)
        if noun or match.re is _TOTAL or match["so"]:
            yield last
            last = None
    if last is not None:
        yield last


def _noun_and_part(rest: str) -> tuple[frozenset[str], bool]:
    """The words of what is counted in what follows a number, and whether only a part of the image is meant."""
    words: list[str] = []
    rest = rest.strip(" ,")
    while rest:
        if _PART.match(rest):
            return frozenset(words), True
        word = re.match(r"[^\W_]+(?:['’-][^\W_]+)*", rest)
        if word is None or rest[word.end() :].startswith(","):
            words += [] if word is None else words_of(word.group())
            break
        if word.group().casefold() in _STOPS:
            return frozenset(words), word.group().casefold() == "and"
        words += words_of(word.group())
        rest = rest[word.end() :].lstrip()
    return frozenset(words), False
