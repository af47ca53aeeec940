"""Finds the explicit conclusions of a reasoning, and compares them with the gold (correct) answer.

A conclusion is a statement of the answer within the reasoning. These plain forms are read: "the answer is X" (also in
other languages), "the statement is false", "so yes", "option B is right". For counting questions, "so there are 5", "5
in total" and "that makes 5" are also read. This module does not read other forms; a judge model must judge them. A
conditional statement ("if the answer were 5") is not a conclusion. A count of only a part ("so there are 2 circles in
the left box", "there are 3 more") is not a conclusion either.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from groundtrace.grading.answers.choices import named_options
from groundtrace.grading.answers.grading import grade_answer
from groundtrace.grading.answers.numerals import read_numerals
from groundtrace.grading.answers.polarity import POLARITY, polarity
from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.grading.responses.stated_counts import stated_counts
from groundtrace.schemas.labels import counted_phrase, counted_words, words_of
from groundtrace.schemas.patterns import compile_late
from groundtrace.schemas.records import Question

_CLAUSE = r"(?:[^.;:\n!?]|[.:](?=\d)){1,80}"
_SO = (
    r"\b(?:so|thus|therefore|hence|in total|altogether|in all|overall|in sum|in conclusion|to conclude|finally)"
    r"\b[,:]?\s"
)
_ADVERBS = (
    r"(?:(?:therefore|thus|then|clearly|indeed|definitely|certainly|absolutely|surely|really|actually|simply|that) )*"
)
_ANSWER = compile_late(
    r"\b(?:final |correct |right |my |the |overall ){0,4}answer\s*"
    rf"(?:(?:is|was|must be|has to be|should be|would be|will be|equals)\b|'s\b|[:=])\s*{_ADVERBS}(?P<x>{_CLAUSE})"
    r"|(?:答案|答え)\s*(?:应该是|应为|是|为|は|：|:)\s*(?P<zh>[^。，；\n]{1,40})"
    r"|\b(?:la respuesta(?: correcta)? es|la réponse(?: correcte)? est|(?:die |richtige ){0,4}antwort (?:ist|lautet)|"
    r"(?:ist|lautet) die (?:richtige )?antwort|la risposta(?: corretta)? è|a resposta(?: correta)? é)\s*:?\s*"
    r"(?:(?:daher|also|somit|folglich|damit|demnach|deshalb|donc|alors|ainsi|entonces|por tanto|quindi)\b,?\s*)*"
    rf"(?P<eu>{_CLAUSE})",
    re.IGNORECASE,
)
_TRUE = r"(?:true|correct|right|accurate|valid|the case|supported)"
_SUBJECT = (
    r"(?:the|this|that)\s+(?:given |above )?(?:statement|claim|sentence|caption|assertion|proposition|description)"
)
_BE = (
    r"(?:is|was|must be|has to be|can be|could be|turns out(?: to be)?|seems|appears(?: to be)?|would be)"
    r"(?P<not{0}>n't|\s+not|\s+never)?"
)
_STATEMENT = compile_late(
    rf"\b(?<!what ){_SUBJECT}(?:'s)?\s+"
    r"(?P<cannot>cannot|can't|can not|must not|does not|doesn't|do not|did not|didn't|isn't|is not)?\s*"
    rf"(?:be\s+|{_BE.format(1)}\s+)?{_ADVERBS}"
    rf"(?:(?P<true>{_TRUE})|(?P<false>false|incorrect|wrong|inaccurate|invalid|untrue)|(?P<fails>fails)"
    r"|(?P<holds>holds?|matches|match|fits|fit|agrees|agree|applies|apply|stands|describes(?![^.;\n]{0,40}\b(?:incorrect|inaccurate|wrong|false|bad))))\b",
    re.IGNORECASE,
)
_PRONOUN = compile_late(
    rf"\b(?:it|this|that)(?:'s|\s+{_BE.format(2)})(?P<late>\s+not)?\s+(?P<so>therefore |thus |hence |so |then )?"
    rf"(?:clearly |indeed )?(?P<later>not\s+)?(?:(?P<true>{_TRUE})|(?P<false>false|incorrect|wrong|untrue))\b"
    r"(?!\s+that)",
    re.IGNORECASE,
)
_ELSEWHERE = compile_late(
    r"\b(?:die|diese|jene) (?:obige )?(?:aussage|behauptung|beschreibung)|\b(?:der|dieser) satz|"
    r"\b(?:(?:cette|la) (?:phrase|description|proposition)|l['’](?:affirmation|énoncé|assertion)|cet énoncé)|"
    r"\b(?:la|esta) (?:afirmación|frase|descripción)",
    re.IGNORECASE,
)
"""Matches phrases that mean "the statement" in languages other than English: German, French and Spanish."""
_VERDICT_ELSEWHERE = compile_late(
    r"^\s+(?:n['’]|ne |(?P<no>no ))?(?P<is>(?:ist|war|est|es)\s+)?"
    r"(?:(?:daher|also|somit|folglich|damit|demnach|deshalb|donc|alors|ainsi|bien|entonces|eindeutig|offensichtlich|"
    r"klar|tatsächlich|clairement|por tanto|claramente)\b,?\s*)*(?P<not>(?:nicht|pas)\s+)?"
    r"(?:(?P<true>wahr|richtig|korrekt|zutreffend|vraie?|correcte?|exacte?|juste|verdader[oa]|correct[oa]|ciert[oa])"
    r"|(?P<false>falsch|unwahr|inkorrekt|unzutreffend|unrichtig|fausse|faux|incorrecte?|inexacte?|fals[oa]|incorrect[oa])"
    r"|(?P<holds>stimmt|trifft|gilt))\b(?P<late>\s+(?:\w+\s+)?nicht\b)?",
    re.IGNORECASE,
)
"""Matches the words after a phrase of :data:`_ELSEWHERE` ("die Aussage") that call the statement true or false.

Examples are "ist damit nicht wahr" and "est donc fausse".
"""
_BEFORE_SUBJECT = compile_late(r"\b(?:ist|war|macht|machen|rend|est)\s+$", re.IGNORECASE)
_SIDE_ELSEWHERE = compile_late(
    r"\b(?:also|daher|somit|folglich|donc|entonces|por tanto)\b[,:]?\s(?P<side>ja|nein|oui|non|sí)\s*(?=[.,;!\n]|$)",
    re.IGNORECASE,
)
_YES_WORDS = frozenset({"ja", "oui", "sí"})
_YES_NO = compile_late(r"\W*(?P<side>yes|no)\s*(?:[,:.!]|$)", re.IGNORECASE)
_BARE_SIDE = compile_late(
    rf"{_SO}(?:it is |it's |the answer is )?(?P<side>yes|no|true|false)\s*(?=[.,;!\n]|$)", re.IGNORECASE
)
_OPTION = compile_late(
    r"\b(?:option|choice)\s*\(?(?P<x>[A-J])\)?\s+(?:is|must be)\s+(?:the\s+)?(?P<not>not\s+(?:the\s+)?)?"
    r"(?:correct|right|true|answer)\b",
    re.IGNORECASE,
)
_IF = compile_late(
    r"\b(?:if|whether|unless|suppose|assume|assuming|supposing|would(?! say)|could|might|may|when|no reason|"
    r"not the case|part of|wenn|falls|ob|sofern|wäre|würde|si|s['’]il|serait)\b[^.;\n]{0,120}$",
    re.IGNORECASE,
)
_QUALIFIED = compile_late(r"\s*,?\s*(?:only|for|if|of|but|unless|except|when|in|on|wenn|falls|si)\b", re.IGNORECASE)
_BESIDE = compile_late(
    r"[,;(]?\s*\b(?:not|since|because|rather|instead|as|which|neither|so|whereas|while)\b.*$|\(.*$", re.IGNORECASE
)
_DENIED = compile_late(r"\s*(?:not|never)\s+", re.IGNORECASE)
TAKES_BACK = compile_late(
    r"\b(?:wait|actually|no,|let me|recount|correction|scratch that|hmm|missed|overlooked|forgot)\b", re.IGNORECASE
)
"""Matches words with which a reasoning corrects an earlier statement."""


@dataclass(frozen=True)
class Conclusion:
    """Holds one conclusion that a reasoning states, such as "so the answer is 5".

    ``text`` is the conclusion as written, from the offset ``start`` to the offset ``end`` of the reasoning. ``right``
    is True if the conclusion is the gold (correct) answer.
    """

    start: int
    end: int
    text: str
    right: bool


def contradiction(reasoning: str, question: Question) -> str | None:
    """Return the words of the first conclusion of a reasoning that contradicts the gold (correct) answer.

    ``reasoning`` is prose, in which words replace each tag of a point or box. ``question`` holds the gold answer. A
    wrong conclusion is ignored if the reasoning corrects it later ("wait, …", and then the right answer). Returns None
    if there is no wrong conclusion that this module can read. Never raises.
    """
    found = conclusions(reasoning, question)
    for wrong in found:
        taken_back = None if wrong.right else TAKES_BACK.search(reasoning, wrong.end)
        corrected = taken_back and _is_corrected(found, reasoning, taken_back.start(), question)
        if not wrong.right and not corrected:
            return wrong.text
    return None


def _is_corrected(found: list[Conclusion], reasoning: str, start: int, question: Question) -> bool:
    """Return whether the reasoning concludes the gold answer after it has corrected a wrong conclusion.

    ``found`` are all conclusions of the reasoning. ``start`` is the offset of the words of the correction, such as
    "wait". For a count, it is enough that the reasoning mentions the gold answer after ``start``, and concludes no
    other count there: "That's four. Hmm, I missed the one in the corner, which makes five."
    """
    later = [each for each in found if each.start >= start]
    if any(each.right for each in later):
        return True
    gold = read_numerals(question.answer).single
    if later or gold is None or not answer_type_named(question.answer_type).is_number:
        return False
    return any(each.value == gold.value for each in read_numerals(reasoning[start:]).numerals)


def conclusions(reasoning: str, question: Question) -> list[Conclusion]:
    """Return all conclusions of a reasoning that this module can read, right and wrong ones, in order.

    ``question`` holds the gold (correct) answer. Never raises; takes time linear in ``len(reasoning)``.
    """
    found = [*_answers(reasoning, question), *_options(reasoning, question)]
    gold = POLARITY.get(question.answer.strip().casefold())
    if gold is not None:
        found += _sides(reasoning, gold)
    if answer_type_named(question.answer_type).is_number:
        found += _counts(reasoning, question)
    kept = (each for each in found if not _IF.search(reasoning[max(0, each.start - 160) : each.start]))
    return sorted(kept, key=lambda each: each.start)


def _conclusion(match: re.Match[str], right: bool) -> Conclusion:
    return Conclusion(match.start(), match.end(), match.group(), right)


def _graded(text: str, match: re.Match[str], question: Question, denied: bool) -> Iterator[Conclusion]:
    """Yield the conclusion that ``match`` holds; yield nothing if only a judge model can grade the conclusion.

    ``text`` is the answer in the conclusion. ``denied`` is True if the conclusion denies this answer ("the answer is
    not 5"). The field ``right`` of the result is True if the answer is the gold (correct) answer of ``question``. If
    the answer is denied, ``right`` is True if the answer is not the gold answer.
    """
    plain = _BESIDE.sub("", text).strip(" ,") or text
    value = grade_answer(plain, question.answer, question.answer_type, question.choices).value
    if value == 0 and not _names_another(text, question):
        return
    if value is not None:
        yield _conclusion(match, (value == 1) != denied)


def _names_another(text: str, question: Question) -> bool:
    """Return whether a text that was graded as wrong clearly names an answer other than the gold (correct) answer.

    If the question has choices, the text must name one of them. If the gold answer is yes or no, the text must mean yes
    or no, and must not contain both words. If it is a number, the text must have numbers, and none of them may be the
    gold answer. In all other cases, the result is True.
    """
    gold, numerals = read_numerals(question.answer).single, read_numerals(text).numerals
    if question.choices:
        return bool(named_options(text, question.choices).indices)
    if POLARITY.get(question.answer.strip().casefold()) is not None:
        return polarity(text) is not None and not {"yes", "no"} <= {*words_of(text)}
    if gold is not None and answer_type_named(question.answer_type).is_number:
        return bool(numerals) and all(numeral.value != gold.value for numeral in numerals)
    return True


def _answers(text: str, question: Question) -> Iterator[Conclusion]:
    for match in _ANSWER.finditer(text):
        answer = next(part for part in match.groupdict().values() if part)
        denied = _DENIED.match(answer)
        # The statement that another answer is wrong is not a conclusion.
        for each in _graded(answer[denied.end() :] if denied else answer, match, question, bool(denied)):
            if not (denied and each.right):
                yield each


def _options(text: str, question: Question) -> Iterator[Conclusion]:
    for match in _OPTION.finditer(text) if question.choices else ():
        for each in _graded(match["x"], match, question, bool(match["not"])):
            if not (match["not"] and each.right):
                yield each


def _sides(text: str, gold: bool) -> Iterator[Conclusion]:
    for match in _STATEMENT.finditer(text):
        if _QUALIFIED.match(text, match.end()):
            continue
        denied = bool(match["cannot"]) != bool(match["not1"])
        side = bool(match["true"] or match["holds"]) != denied
        yield _conclusion(match, side == gold)
    body = text.rstrip(" \t\r\n.;!?*_")
    last = max(body.rfind(mark) for mark in ".;\n!?") + 1
    for match in _PRONOUN.finditer(text):
        denied = bool(match["not2"] or match["late"] or match["later"])
        side = bool(match["true"]) != denied
        if match["so"] or match.start() >= last:
            yield _conclusion(match, side == gold)
    for match in _BARE_SIDE.finditer(text):
        yield _conclusion(match, POLARITY[match["side"].casefold()] == gold)
    yield from _sides_elsewhere(text, gold)
    answer = _YES_NO.match(text[last:])
    if answer is not None and text[last - 1 : last] != "?":
        right = POLARITY[answer["side"].casefold()] == gold
        yield Conclusion(last + answer.start(), last + answer.end(), answer.group(), right)


def _sides_elsewhere(text: str, gold: bool) -> Iterator[Conclusion]:
    """Yield conclusions in German, French and Spanish that are only yes or no, or that call a statement true or false.

    ``gold`` is True if the gold (correct) answer is yes or true, and False if it is no or false.
    """
    for subject in _ELSEWHERE.finditer(text):
        verdict = _VERDICT_ELSEWHERE.match(text[subject.end() : subject.end() + 80])
        if verdict is None or _QUALIFIED.match(text, subject.end() + verdict.end()):
            continue
        if not (
            verdict["is"]
            or verdict["holds"]
            or _BEFORE_SUBJECT.search(text[max(0, subject.start() - 20) : subject.start()])
        ):
            continue
        denied = bool(verdict["no"] or verdict["not"] or verdict["late"])
        side = (verdict["false"] is None) != denied
        end = subject.end() + verdict.end()
        yield Conclusion(subject.start(), end, text[subject.start() : end], side == gold)
    for match in _SIDE_ELSEWHERE.finditer(text):
        yield _conclusion(match, (match["side"].casefold() in _YES_WORDS) == gold)


def _counts(text: str, question: Question) -> Iterator[Conclusion]:
    """Yield the conclusions that are counts of the things that the question counts, such as "there are 5 cups".

    Not all counts are conclusions: "2 cups so far" is a running count, i.e. a count of only the first cups. A count is
    a conclusion in three cases:

    - The count certainly includes all things ("5 in total").
    - The count is the last one of the text.
    - The count is above the gold (correct) answer. A running count is never above the gold answer, so this count is not
      a running one.
    """
    words, gold = counted_words(question.question), read_numerals(question.answer).single
    if words is None or gold is None:
        return
    stated = list(stated_counts(text, frozenset(counted_phrase(question.question) or ()), words))
    for index, each in enumerate(stated):
        right = each.value == gold.value
        if each.is_whole or index == len(stated) - 1 or each.value > gold.value:
            yield Conclusion(each.start, each.end, each.text, right)
