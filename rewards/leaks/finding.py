"""Whether reasoning gives away that its writer was told the answer (SAIL-RL App. A.1 guides the teacher with it).

A model that learns from such reasoning learns to begin with an answer that it will not have. The gold answer is first
marked in the text, in any of its writings; then each sentence is read for structures that tell that the answer was
given, known, aimed at, inferred from or agreed with (:mod:`rewards.leaks.signs_anywhere`,
:mod:`rewards.leaks.signs_in_other_languages`), and the first sentence for an answer that is settled before anything was
looked at (:mod:`rewards.leaks.signs_at_the_start`). A conclusion in the same words at the end ("so the correct answer
is B") is none of these, nor is what the question itself says. Deviation: the paper does not say how it keeps the given
answer out of the reasoning.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rewards.leaks import signs_anywhere, signs_in_other_languages
from rewards.leaks.signs_at_the_start import AIMED, COMPARED, DERIVED, JUSTIFIED, OPENING, SEEN, SETTLED, STATED
from rewards.leaks.vocabulary import GOLD
from schemas.answers.choices import gold_options
from schemas.answers.number_words import WORDS
from schemas.quoting import visible
from schemas.records import Question

MAX_READ_CHARS = 20_000
"""How much of a text is read, from its beginning."""

State = Literal["leak", "open", "clean"]


@dataclass(frozen=True)
class Leak:
    """What the words show: ``leak``, ``clean``, or ``open`` where they leave it to a reader; and what was found."""

    state: State
    said: str = ""


def _compiled(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


_ANYWHERE = _compiled((*signs_anywhere.ANYWHERE, *signs_in_other_languages.ANYWHERE))
_SETTLED = _compiled(SETTLED)
_OPENING = _compiled((*OPENING, *signs_in_other_languages.OPENING))
_STATED, _JUSTIFIED, _DERIVED, _AIMED, _SEEN = _compiled((STATED, JUSTIFIED, DERIVED, AIMED, SEEN))
_COMPARED = re.compile(COMPARED)
_ASKED = re.compile(r"\b(?:whether|if)\b[^.◆]{0,60}◆|\bfor (?:the|this|it|that)\b[^.◆]{0,40} to be ◆", re.IGNORECASE)
"""The answer is a condition there, or what is asked: "whether the statement is true", "for it to be true"."""
_EITHER = re.compile(r"◆[\"'’]?(?: or |/)|(?: or |/)[\"'‘]?◆", re.IGNORECASE)
_SEEKING = (
    r"(?:answers?|solutions?|results?|conclusions?|options?|choices?|correct|obtain|get|arrive|reach|conclude|yields?"
    r"|explain|justify|see (?:that|why)|understand|prove|show)"
)
_ALONE = r"◆(?! (?:\w+ )?(?!is\b|was\b|as\b|has\b|needs\b|takes\b)\w+s\b)"
_SOUGHT = re.compile(rf"\b{_SEEKING}\b[^.;]{{0,60}}{_ALONE}|{_ALONE}[^.;]{{0,40}}\b{_SEEKING}\b", re.IGNORECASE)
"""The answer beside a word for what is sought; "in 3 steps" is none."""
_SOUGHT_AT_ONCE = re.compile(
    rf"\b{_SEEKING}(?:,| is| are| to be| must be| should be|:)? ◆"
    r"(?=[\"'’]?(?:\W*$|[.,;:)]| (?:but|and|because|as|so)\b))",
    re.IGNORECASE,
)
_COMMON = frozenset(("yes", "no", "true", "false", "none", "one", "1", "0", "right", "left", "correct", "both", "all"))
"""Answers that are everyday words, too ("no reasoning is needed"): they have to stand right behind what is sought."""
_BECAUSE = re.compile(
    r"◆[^.]{0,25}?(?:[:;–—]|\b(?:because|since|as|for|car|parce|porque|puisque|weil|da|denn|so (?:let|I|we))\b|因为)",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"◆(?:.{15,}|[^。]{0,8}[,:][^。]{4,})")
_BREAK = re.compile(r"(?<=[.!?])(?=\s)|(?<=[。！？])|\n\s*(?=\n|[-*•#]|\d+[.)])")
_NO_ARTICLE = r"(?=\W*$|\s?[^\w\s]|\s(?:is|as|has|must|fits|es|est|ist)\b)"
_SPACES = re.compile(r"\s+")
_DRESSING = re.compile(r"\*\*|__|\$|\\[()\[\]]|\\boxed|\\text(?:bf)?|[{}]|(?<!\w)[#>]+ |^[-*•] ", re.MULTILINE)
_ARTICLE = re.compile(r"^(?:the|this|that|your|an?|my|our|per|its|with)\s+", re.IGNORECASE)


def find_leak(text: str, question: Question) -> Leak:
    """Returns what the words of a judge or think section show. Never raises.

    ``open`` is a first sentence in which the answer stands next to a word of knowing, aiming or judging.
    """
    sentences = _sentences(text[:MAX_READ_CHARS], question)
    asked = _SPACES.sub(" ", question.question).casefold()
    for sentence in sentences:
        for pattern in _ANYWHERE:
            found = pattern.search(sentence)
            if found is not None and _ARTICLE.sub("", found.group()).casefold() not in asked:
                return Leak("leak", _shown(found.group(), question))
    state = _start(sentences, asked, question) if sentences else "clean"
    return Leak("clean") if state == "clean" else Leak(state, _shown(sentences[0], question))


def find_leak_in_judge_section(text: str, question: Question) -> Leak:
    """Returns what a judge section shows: the same as :func:`find_leak`, and the answer itself. Never raises.

    The section says whether a question needs reasoning, before there is any (SAIL-RL §3.2). An answer that stands there
    beside a word for what is sought was not found yet but told.
    """
    found = find_leak(text, question)
    if found.state != "clean" or _is_in_question(question):
        return found
    sought = _SOUGHT_AT_ONCE if question.answer.strip().casefold() in _COMMON else _SOUGHT
    for sentence in _sentences(text[:MAX_READ_CHARS], question):
        is_asked = _ASKED.search(sentence) or _EITHER.search(sentence) or _lists_options(sentence, question)
        if not is_asked and sought.search(sentence):
            return Leak("leak", _shown(sentence, question))
    return found


def _start(sentences: Sequence[str], asked: str, question: Question) -> State:
    """Whether the first sentence is the answer already, and the rest only justifies it."""
    first, rest = sentences[0], sentences[1:]
    if "answer" not in first.casefold() and any(_COMPARED.search(sentence) for sentence in rest):
        return "clean"
    if (rest or _BECAUSE.search(first)) and any(pattern.search(first) for pattern in _SETTLED):
        return "leak"
    if _is_in_question(question):
        return "clean"
    if (rest or _GOES_ON.search(first)) and any(pattern.search(first) for pattern in _OPENING):
        return "leak"
    if not rest or GOLD not in first or _DERIVED.search(first):
        return "clean"
    if _JUSTIFIED.search(rest[0]) and _STATED.search(first):
        return "leak"
    if _SEEN.search(first) or _ASKED.search(first) or _lists_options(first, question):
        return "clean"
    is_aimed = any(found.group().casefold() not in asked for found in _AIMED.finditer(first))
    return "open" if is_aimed else "clean"


def _lists_options(sentence: str, question: Question) -> bool:
    """Whether the sentence names another option beside the right one: then it is a list, which settles nothing."""
    said, right = sentence.casefold(), set(_option(question))
    return any(
        len(choice.strip()) > 1 and choice.strip() not in right and choice.strip().casefold() in said
        for choice in question.choices or ()
    )


def _shown(said: str, question: Question) -> str:
    return said.replace(GOLD, question.answer.strip()).strip()[:120]


def _sentences(text: str, question: Question) -> list[str]:
    """The sentences without markup, the gold answer marked in them."""
    plain = visible(text).replace(GOLD, " ")
    sentences = (_DRESSING.sub("", sentence) for sentence in _BREAK.split(plain) if sentence)
    marked = _gold(question)
    return [spaced for sentence in sentences if (spaced := _SPACES.sub(" ", marked.sub(GOLD, sentence)).strip())]


def _gold(question: Question) -> re.Pattern[str]:
    written = "|".join(sorted(_written(question), key=len, reverse=True))
    label = r"(?:(?:option|choice)\s+)?"
    return re.compile(
        rf"(?<![A-Za-zÀ-ɏ0-9_])(?<!\d[.,])(?i:{label})[\"'“”‘’(\[]?(?:{written})[\"'“”‘’)\]]?(?:\s?(?:\\?%"
        rf"|\^?\\circ|\^?°|degrees?\b|度))?(?![A-Za-zÀ-ɏ0-9_]|[.,]\d)"
    )


def _written(question: Question) -> Iterator[str]:
    """Patterns of the gold answer as it may stand in a text: a letter, a number in digits or words, a list's items."""
    for answer in dict.fromkeys((question.answer.strip(), *_option(question))):
        plain = _DRESSING.sub("", answer).strip() or answer
        if len(plain) == 1 and plain.isalpha():
            yield plain + (_NO_ARTICLE if plain in ("A", "a", "I") else "")
            continue
        article = "(?:the |an? )?" if plain[:1].isalpha() else ""
        yield rf"(?i:{article}{re.escape(plain)})"
        number = WORDS.get(plain.casefold())
        yield from (rf"(?i:{word})" for word, value in WORDS.items() if str(value) == plain)
        if number is not None:
            yield str(number)
        if plain.startswith("[") and plain.endswith("]"):
            items = [re.escape(item.strip(" '\"")) for item in plain[1:-1].split(",")]
            yield r"(?i:(?:an? |the )?" + r"(?:,| and| &|;)*\s*(?:an? |the )?".join(items) + ")"


def _option(question: Question) -> Iterator[str]:
    """The letters and the texts of the options that the answer names."""
    choices = question.choices or ()
    for index in sorted(gold_options(question.answer, choices)) if choices else ():
        yield from filter(None, (chr(65 + index), choices[index].strip()))


def _is_in_question(question: Question) -> bool:
    """Whether the question itself says the answer, other than as an option: then a first sentence may repeat it."""
    answer = question.answer.strip()
    return len(answer) > 1 and not question.choices and bool(_gold(question).search(question.question))
