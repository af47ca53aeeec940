"""Decides which sentences of a reasoning the embedded judge (a program without a model) can read.

The judge can read a sentence if all words of the sentence are known (:mod:`groundtrace.embedded.vocabulary`). There is
one exception: one word may be unknown if the sentence has at least three known words and shows what it is about. It
shows this by a number, a tag with points, a word of the question or answer, a word for a shape, or a word such as
"statement".

An unreadable sentence does not count as a fault of the reasoning: the judge's verdict is then "cannot judge".
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from groundtrace.embedded.hedges import HYPOTHETICAL, asserted, without_settled
from groundtrace.embedded.sight.labels import kind_word
from groundtrace.embedded.vocabulary import (
    DOUBT,
    PARTICLES,
    is_known,
    is_wordlike,
    is_worthless,
    words,
)
from groundtrace.grading.answers.numerals import read_numerals
from groundtrace.grading.answers.polarity import polarity
from groundtrace.grading.responses.response import parse_boxes
from groundtrace.grading.responses.tags import scan_tags
from groundtrace.schemas.labels import counted_phrase, plain_label, words_of
from groundtrace.schemas.records import Question

_NUMBER = r"(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten)"
_OPEN_NUMBERS = re.compile(
    rf"\b{_NUMBER},? (?:or|oder|ou) (?:maybe |perhaps )?{_NUMBER}\b|^\W*{_NUMBER} ?[/–-] ?{_NUMBER}\W*$"
)
_BLANK = re.compile(r":\s*(?:\.\.\.|…)|(?:^|[.\n])\s*(?:\.\.\.|…)")
_ROUGH = re.compile(
    r"\b(?:about|around|some|circa|etwa|ungefähr|environ) \d|\bgive or take\b"
    r"|\bma(?:de|k\w+) (?:(?:this|these|it|that|them|all|everything) )*up\b"
    r"|\b(?:left|leave|leaving) (?:it |them |one )?out\b(?![^.;]{0,60}\bnot\b)"
    r"|\b(?:must|should) be (?:excluded|ignored|removed|skipped)\b"
    r"|\b(?:need|require|want)\w* .{0,40}\bto (?:answer|tell|say|decide|see)\b"
)
_BAD_PAIR = re.compile(r"\b(?:the|an|a) (?:of|to|at|for|in|on|by|and|or|it|is|are|the|a)\b")
_TOKEN = re.compile(r"§|[^\W\d_]+|\d+(?:[.,]\d+)*|[^\w\s]")
SENTENCE = re.compile(r"(?:[^.;\n!?]|[.](?=\d))+[.;\n!?]?")
CLAUSE = re.compile(
    r",|:|\(|\)|—|–| - |\b(?:because|since|but|whereas|while)\b"
    r"|\b(?:so|hence|thus|therefore|also) (?=(?:the|it|this|that|there|i|we|yes|no|ja|nein|die|das|es)\b)"
)
_SEEING = (
    r"(?=(?:clearly |easily |only )?"
    r"(?:see|find|spot|make out|detect|identify|locate|count|discern|recogni[sz]e|point|confirm)\b)"
)
_COULD_SEE = re.compile(rf"\b(i|we|one|it) could {_SEEING}")
_UNABLE = re.compile(rf" (?:was|am|were|is|are) (?:unable|not able) to {_SEEING}")
_CANNOT, _WILL_NOT = re.compile(r"\bcan['’]t\b", re.IGNORECASE), re.compile(r"\bwon['’]t\b", re.IGNORECASE)
_APOSTROPHE = re.compile(r"(?<=\w)n['’]t\b")
_ABBREVIATED = re.compile(r"\b(?:i\. ?e\.|e\. ?g\.|z\. ?b\.|d\. ?h\.|u\. ?a\.|p\. ?ex\.|c\.-à-d\.)", re.IGNORECASE)
_I_HAVE = re.compile(r"\bj['’]ai\b", re.IGNORECASE)
MAX_REPEATS = 4
"""A reasoning that has the same words this number of times in a row is unreadable."""
_MAX_PERIOD = 14
_MAX_PARTICLES = 6
_MAX_MARKS = 4
STATEMENTS = words("statements")
_OF_OTHERS = words("of_others")
_ELSEWHERE = frozenset({"whatever", "regardless", "irrelevant"})
"""Words that show indifference to the result, e.g. "5 or whatever"; a reasoning with such a word is unreadable.

They are allowed in a sentence with a word such as "other", because they then refer to objects that the question does
not ask for: "the other objects are irrelevant".
"""
_FLIPS = re.compile(r"\b(?:wait|no,? wait|actually|scratch that|correction|hmm)\b")
MAX_FLIPS = 2
"""The largest number of times that a reasoning may replace a stated number: "wait, 5. No, wait, 6" is one time.

Only sentences with a word such as "wait" are counted. A reasoning with more replacements is unreadable.
"""
_UNPOINTED = re.compile(
    r"\b(?:plus|and|with|besides) (?:at least |perhaps )?(?:one|two|three|another|a (?:second|third|further)|\d+)"
    r"(?: (?:more|others?|further|extra|additional|hidden))+\b[^§]*$"
)

NEGATIONS = words("negations")


def unreadable(reasoning: str, question: Question) -> str | None:
    """Return the reason why the embedded judge cannot read a reasoning (the text that explains an answer), else None.

    The judge is a program without a model, and can read only sentences of words that it knows. The words of the
    question and of its answer, which ``question`` holds, are added to the words that the judge knows. A reasoning of
    known words can also be unreadable, for example if it does not decide between two possibilities, or repeats itself.
    """
    text = spelled("".join(parts_of(reasoning, " § ")).replace("*", " "))
    own = {*words_of(question.question), *words_of(question.answer)}
    own |= {*_TOKEN.findall(f"{question.question} {question.answer}".casefold())}
    counts = counted_phrase(question.question) is not None
    open_text, sentences = "", SENTENCE.findall(text)
    for sentence, behind in itertools.pairwise([*sentences, ""]):
        if counts and _UNPOINTED.search(sentence):
            return f"it counts what it does not point at: {sentence.strip()!r:.80}"
        is_open = sentence.rstrip().endswith("?") or HYPOTHETICAL.search(sentence) is not None
        lacking = _beyond(_TOKEN.findall(sentence), own, is_open)
        if lacking is not None:
            return lacking
        asks, unsettled = sentence.rstrip().endswith("?"), without_settled(sentence, behind)
        if is_open and not asks and DOUBT & {*_TOKEN.findall(unsettled)} and not _resolved(sentence):
            return f"it is left open: {sentence.strip()!r:.80}"
        open_text += "" if asks else unsettled
    flips = _flips(text)
    if flips is not None:
        return flips
    if _BLANK.search(text) or _ROUGH.search(text) or _OPEN_NUMBERS.search(open_text):
        return "it leaves something open"
    tokens = _TOKEN.findall(text)
    return _repeats(tokens) or _salad(tokens)


def _beyond(tokens: Sequence[str], own: set[str], is_open: bool) -> str | None:
    """Return the reason why a sentence is unreadable; None if it is readable.

    ``tokens`` are the words and signs of the sentence. ``own`` are the words of the question and the answer, which also
    count as known words. ``is_open`` is True if the sentence is a question or a supposition. A sentence is unreadable
    in these cases:

    - It has a word, not in ``own``, that makes a reasoning worthless ("guess", "sorry").
    - It has a word of doubt ("perhaps") that is not in ``own``, and ``is_open`` is False.
    - It has too many unknown words, or an unknown word that does not look like a word.
    - An unknown word is at a position that decides the meaning: after a number, after a possessive ("my"), or as the
      predicate after "is" or "is a".
    """
    unknown, known = list[int](), 0
    for place, word in enumerate(tokens):
        if not word[0].isalpha():
            known += word == "§" or word[0].isdigit()
        elif word in own:
            known += 1
        elif (is_worthless(word) and not (word in _ELSEWHERE and _OF_OTHERS & {*tokens})) or (
            word in DOUBT and not is_open
        ):
            return f"it rests on {word!r}"
        elif word in DOUBT or is_known(word):
            known += 1
        else:
            unknown.append(place)
    about = STATEMENTS & {*tokens}
    for place in unknown:
        before, behind = tokens[place - 1] if place else "", tokens[place + 1 : place + 3]
        leads_on = behind[:1] and behind[0][0].isalpha() and is_known(behind[0])
        is_predicate = before in ("is", "are", "was", "were") or (before in ("a", "an") and not leads_on)
        is_predicate = is_predicate and not about and "§" not in behind
        counted = before.isdigit() or read_numerals(before).single is not None
        if not is_wordlike(tokens[place]) or counted or is_predicate or before in ("my", "your", "his", "her", "their"):
            return f"the word {tokens[place]!r} is beyond it"
    anchors = own - PARTICLES - {"are", "there", "image", "yes", "no", "answer", "how", "many"}
    anchored = about or any(
        word[0] in "§0123456789" or word in anchors or kind_word(word) is not None for word in tokens
    )
    if unknown and (len(unknown) > 1 or known < 3 or not anchored):
        return f"the words {', '.join(tokens[place] for place in unknown)!r:.80} are beyond it"
    return None


def _flips(text: str) -> str | None:
    """Return a message if a text replaces its stated number more than ``MAX_FLIPS`` times; else None.

    Only sentences with a word such as "wait" are counted. For example, "wait, 5. No, wait, 6. No, wait, 5." has two
    replacements, which is still allowed.
    """
    values: list[Fraction] = []
    for sentence in SENTENCE.findall(text):
        numbers = read_numerals(sentence).numerals
        if numbers and _FLIPS.search(sentence):
            values.append(numbers[-1].value)
    changes = sum(before != after for before, after in itertools.pairwise(values))
    return "it does not make up its mind" if changes > MAX_FLIPS else None


def _resolved(sentence: str) -> bool:
    return re.search(r"\b(?:but|yet|had|if)\b", sentence) is not None


def _repeats(tokens: Sequence[str]) -> str | None:
    """Return a message if a text repeats the same words too often in a row; else None.

    ``tokens`` are the words and signs of the text. The token § replaces a tag, by which the reasoning points at
    objects. Tags are never treated as the same word.
    """
    for period in range(1, _MAX_PERIOD + 1):
        run = words = 0
        for here, there in zip(tokens, tokens[period:], strict=False):
            run, words = (run + 1, words + here[0].isalpha()) if here == there != "§" else (0, 0)
            if run >= (MAX_REPEATS - 1) * period and words >= MAX_REPEATS - 1:
                return "it repeats itself"
    return None


def _salad(tokens: Sequence[str]) -> str | None:
    """Return a message if the tokens are not a sentence; else None.

    ``tokens`` are the words and signs of a text. They are not a sentence in three cases:

    - An article is directly before a word such as "of" or "and".
    - Too many particles (short words such as "of") follow each other.
    - Too many punctuation marks follow each other, and at least three of these marks are different.
    """
    if _BAD_PAIR.search(" ".join(tokens)):
        return "it is not a sentence"
    particles, marks = 0, list[str]()
    for token in tokens:
        particles = particles + 1 if token in PARTICLES else 0
        marks = [*marks, token] if not token[0].isalnum() and token not in "§\"'()[]" else []
        if particles > _MAX_PARTICLES or (len(marks) > _MAX_MARKS and len(set(marks)) > 2):
            return "it is not a sentence"
    return None


def _asks_last(text: str, answer: Fraction) -> str | None:
    """Return a message if the last question in a text names a wrong number and remains unanswered; else None.

    A wrong number is a number other than ``answer``: 5 in "Or 5?", if the answer is 4. The question is answered if the
    text after the question states ``answer`` or has the word "no".
    """
    before, mark, after = text.rpartition("?")
    asked = SENTENCE.findall(before)[-1:] if mark else []
    others = any(each.value != answer for written in asked for each in read_numerals(written).numerals)
    if not others or re.search(r"\bno\b", after, re.IGNORECASE):
        return None
    after = re.sub(r"\bone of(?: the| these)? \w+", " ", after, flags=re.IGNORECASE)
    is_answered = any(each.value == answer for each in read_numerals(after).numerals)
    return None if is_answered else f"it leaves a question open: {asked[0].strip()!r:.80}"


def ends_on_another(text: str, question: Question) -> str | None:
    """Return a message if a reasoning ends with a number other than its answer; None if it does not.

    ``text`` is the reasoning, and ``question`` holds its answer. There are two cases. First, the last word of the text
    is a number, and no number in the last sentence is the answer ("So I count 5", but the answer is 4). Second, the
    last question in the text names another number ("Or 5?"), and no later sentence states the answer. If the answer is
    not a number, the result is None.
    """
    answer = read_numerals(question.answer).single
    sentences = [each.strip() for each in SENTENCE.findall(text) if each.strip(" .\n")]
    if answer is None or polarity(question.answer) is not None or not sentences:
        return None
    asked = _asks_last(text, answer.value)
    if asked is not None:
        return asked
    last = asserted(sentences[-1].casefold())
    numerals = read_numerals(last).numerals
    ends = numerals and re.search(r"(?:\d|[a-z]{3,})\W*$", last) and read_numerals(last.split()[-1]).single is not None
    if (
        ends
        and all(each.value != answer.value for each in numerals)
        and not NEGATIONS & {*re.findall(r"[^\W\d_]+", last)}
    ):
        return f"it ends on another number: {last!r:.80}"
    return None


def spelled(text: str) -> str:
    """Return the text in lower case and with its short forms spelt out: "isn't" becomes "is not".

    Abbreviations such as "i.e." lose their full stops. "I could see" becomes "i can see".
    """
    text = _ABBREVIATED.sub(lambda found: found.group().replace(".", "").lower(), text)
    text = _I_HAVE.sub("je", text)
    text = _APOSTROPHE.sub(" not", _CANNOT.sub("can not", _WILL_NOT.sub("will not", text))).casefold()
    return _COULD_SEE.sub(r"\1 can ", _UNABLE.sub(" can not ", text))


def parts_of(reasoning: str, mark: str = "") -> Iterator[str]:
    """Split a reasoning at its tags (XML elements with points or boxes), and replace each tag by a plain text.

    Yields the texts between the tags and, in place of each tag, the text ``mark``. If ``mark`` is empty, the label of
    the tag is yielded instead.
    """
    done = 0
    for tag in scan_tags(reasoning):
        yield reasoning[done : tag.start]
        boxes = parse_boxes(reasoning[tag.start : tag.end])
        yield mark or plain_label(boxes[0].label if boxes else tag.label)
        done = tag.end
    yield reasoning[done:]


def clauses(sentence: str) -> list[str]:
    """Split a sentence into its clauses, at commas, colons, brackets, dashes and words such as "because" or "but".

    Each clause makes one claim. Empty parts are left out.
    """
    return [clause for clause in CLAUSE.split(sentence.rstrip(" .;!\n")) if clause and clause.strip()]
