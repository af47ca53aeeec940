"""Finds the options of a multiple-choice question that an answer names, by letter or by text.

A letter is read only as a label ("B", "(B)", "B. Yes", "option B"), never as a word ("A dog"). The text after a label
is usually an explanation ("B, since the cat is smaller") and is ignored. If this text has only further labels and
options, the answer names all of them ("A. cat B. dog", "A.B.C", "B. dog and cat").

A letter means the option at its position (A is the first option). There is one exception: the texts of the options may
be letters in another order, such as ``['C)', 'A)', 'B)']``. A letter then means the option with this text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from groundtrace.grading.answers.maths import MathsMatch, compare_maths, is_maths
from groundtrace.grading.answers.numerals import (
    is_qualified,
    last_side,
    read_count,
    read_numerals,
    same_value,
    with_digits,
)
from groundtrace.grading.answers.polarity import POLARITY, polarity
from groundtrace.grading.answers.quantities import same_exactly, whole_quantity
from groundtrace.grading.answers.wrapping import without_answer_phrase, without_markup, without_wrapping

_NAMING = re.compile(
    r"(?:(?:the|my)\s+)?(?:(?:final|correct|best|right)\s+)?(?:answer|option|choice|letter|opci[óo]n|opção|opzione)"
    r"\s+(?=[\[(\"'“‘]*[A-Za-z](?![A-Za-z]))",
    re.IGNORECASE,
)
_BARE_LETTER = re.compile(r"[\[(<]?\s*([A-Za-z])\s*[\])>]?\s*[.:)。]?")
_LISTED = re.compile(r"[\[(]?[A-Z][\])]?(?:\s*(?:,|/|&|\band\b|\bor\b|,\s*and\b|,\s*or\b)\s*[\[(]?[A-Z][\])]?)+\.?")
_LABELLED = (
    re.compile(r"[\[(]\s*([A-Za-z])\s*[\])]\s*[.:,-]?\s*(\S.*)", re.DOTALL),
    re.compile(r"([A-Za-z])\s*[.):。、．：]\s*(\S.*)", re.DOTALL),
    re.compile(r"([A-Z])\s*\((\S.*)\)", re.DOTALL),
    re.compile(r"([A-Z])\s*[,–—-]\s+(\S.*)", re.DOTALL),
    re.compile(r"([A-Z])\s*=\s*(\S.*)", re.DOTALL),
    re.compile(r"([A-Z])\s+((?:is|because|since|as it)\b.*)", re.DOTALL),
)
_LETTER_AND_TEXT = re.compile(r"([A-Z])\s+(\S.*)", re.DOTALL)
_TEXT_AND_LETTER = re.compile(r"(\S.*?)\s*[\[(]([A-Z])[\])]", re.DOTALL)
_OTHER_LABEL = re.compile(r"(?:\b(?:or|and|option|choice|answer|answer is)\s+|[\[(])([A-Z])(?![A-Za-z'’])")
_INNER_LABEL = re.compile(r"(?<![^\W_])(?:([A-Z])(?![^\W_])|([a-z])(?=\s*[.):]))")
_LABEL_FIRST = re.compile(r"[\[(]?\s*([A-Za-z])\s*[\])]?\s*[.:,]?\s+")
_DENIED = re.compile(
    r"(?:(?:is|was|are|be)\s+)?(?:(?:clearly|definitely|certainly|obviously|simply|also|just|actually|probably)\s+)*"
    r"(?:not|never|wrong|incorrect|false)\b|(?:isn['’]t|wasn['’]t|cannot|can['’]t|couldn['’]t|can\s+not)\b"
    r"|(?:this|that)\s+(?:is|was)\s+(?:wrong|incorrect|false|not\s+(?:correct|right|true))\b"
    r"|(?:is\s+)?(?:ruled\s+out|impossible|excluded|eliminated)[,;.]?\s+(?=(?:so|but|hence|therefore|thus|then)\b)"
    r"|(?:no|falsch|faux|falso|wrong)\s*[,;]\s*(?=[A-Z]\s*[:)])",
    re.IGNORECASE,
)
_DENYING = re.compile(
    r"(?:not|neither|anything\s+but|all\s+but|everything\s+but|except"
    r"|(?:(?:it|this|that|the\s+answer)\s+)?(?:is\s+not|isn['’]t|cannot\s+be|can['’]t\s+be))\b",
    re.IGNORECASE,
)
_OTHER_DENIED = re.compile(r"(?:not|never)\s+[\[(]?[A-Z](?![A-Za-z'’])")
_CLAUSE_END = re.compile(r"[,;.]\s*(?:so|but|hence|therefore|thus)?\s+|\s+(?:so|but|hence|therefore)\s+", re.IGNORECASE)
_AFFIRMED = re.compile(
    r"\s+(?:is|would\s+be|must\s+be)\s+(?:the\s+)?(?:correct|right|best)(?:\s+(?:answer|option|choice|one))?[.!]?\Z",
    re.I,
)
_ALONE = re.compile(r"(?<![^\W_])(?:([B-HJ-Z])(?![^\W_]|['’])|(A)(?=\s*(?:[.,;:!?)\]]|\Z|\s(?:is|and|or|but)\b)))")
_JOINING = frozenset({"and", "or", "also", "either", "both", "maybe", "perhaps", "then", "option", "choice", "answer"})
_DASHES = str.maketrans(dict.fromkeys("−‐‑‒–", "-"))
_ARTICLES = frozenset({"a", "an", "the"})


@dataclass(frozen=True)
class NamedOptions:
    """Holds the options of a multiple-choice question that an answer names. Positions of options start at 0.

    Attributes:
        indices: the positions of the named options. The set is empty if the answer names no option, and has several
            positions if the answer names several options.
        is_mention: True if the answer only contains the words of the option within a sentence ("it looks like the red
            car there"), and does not choose the option clearly. Such a sentence may also deny the option.
        denied: the positions of the options that the answer calls wrong ("B is wrong"). The set is empty if the answer
            names an option.
    """

    indices: frozenset[int]
    is_mention: bool = False
    denied: frozenset[int] = frozenset()


def normalise_text(text: str) -> str:
    """Return a text in a normal form, so that two texts with the same words have the same normal form.

    For example, "The cat!" and "cat" both become "cat". The text is brought to lower case and to Unicode's form NFKC.
    Articles, punctuation and invisible characters are removed, and words are separated by one space. The last word
    stays, even if it is like an article ("vitamin A"). Signs, points and slashes stay if they are part of a number or
    date (-2, 1.5, 18/06). Symbols such as < or ° stay.
    """
    text = unicodedata.normalize("NFKC", text).translate(_DASHES).casefold()
    kept: list[str] = []
    for index, char in enumerate(text):
        category = unicodedata.category(char)
        if char in "'’" or category == "Cf":
            continue
        if category[0] not in "PZC":
            kept.append(char)
            continue
        binds = char in "-.:/" and index + 1 < len(text) and text[index + 1].isdigit()
        kept.append(char if binds else " ")
    *words, last = "".join(kept).split() or [""]
    # A last word is not an article: "vitamin A", "plan A".
    return " ".join([*(word for word in words if word not in _ARTICLES), last])


def named_options(predicted: str, choices: tuple[str, ...]) -> NamedOptions:
    """Return the options of a multiple-choice question that an answer names. Never raises.

    ``predicted`` is the answer; the caller must limit its length. ``choices`` are the texts of the options. The
    function searches in this order:

    - the exact text of an option;
    - a label, such as "B" or "option B";
    - a text that equals the text of an option after normalisation, or that has the same value;
    - the words of an option within a sentence.

    The answer "A and B" names two options. Special case: if an option has the text "A and B", the answer names only
    this option.
    """
    plain = predicted.replace("**", "").strip()
    bare = _AFFIRMED.sub("", without_answer_phrase(without_wrapping(without_markup(plain))))
    label = without_wrapping(_NAMING.sub("", bare, count=1)) if _NAMING.match(bare) else without_wrapping(bare)
    for text in (plain, bare, label):
        exact = _matching(text, choices, _tight)
        if exact:
            return NamedOptions(exact)
    letters = _letters(choices)
    if _LISTED.fullmatch(label):
        found = {letters[letter] for letter in re.findall(r"\b[A-Z]\b", label) if letter in letters}
        return NamedOptions(frozenset(found)) if len(found) > 1 else NamedOptions(frozenset())
    if _is_denied(label, choices, letters):
        return _after_denial(
            label, choices, frozenset({letters[inner] for inner in label[:2].upper() if inner in letters})
        )
    labelled = _labelled(label, choices, letters)
    if labelled:
        return NamedOptions(labelled)
    for equal in (_matching(bare, choices, normalise_text), _equal_in_value(bare, choices)):
        if equal:
            return NamedOptions(equal)
    denying = _DENYING.match(bare)
    if denying is not None:
        clause, *others = _CLAUSE_END.split(bare[denying.end() :], maxsplit=1)
        denied = _mentioned(clause, choices) or inner_letters(clause, choices)
        rest = _mentioned(others[0], choices) if others else frozenset[int]()
        return NamedOptions(rest, is_mention=True) if len(rest) == 1 else NamedOptions(frozenset(), denied=denied)
    mentioned = _mentioned(bare, choices)
    return NamedOptions(mentioned, is_mention=len(mentioned) == 1)


def _after_denial(text: str, choices: tuple[str, ...], denied: frozenset[int]) -> NamedOptions:
    """Return the options named after a clause that denies an option ("A is wrong, so B").

    ``text`` is the whole answer, and ``denied`` holds the positions of the options that the first clause denies. If the
    rest of the answer names no option, the result names none either, and holds ``denied``.
    """
    _, *rest = _CLAUSE_END.split(text, maxsplit=1)
    named = named_options(rest[0], choices) if rest and rest[0].strip() else NamedOptions(frozenset())
    return named if named.indices else NamedOptions(frozenset(), denied=denied)


def inner_letters(text: str, choices: tuple[str, ...]) -> frozenset[int]:
    """Return the positions (from 0) of the options whose letters are separate words in the text.

    For example, the text "so it must be B" gives {1}. The words "a" and "I" are not letters of options. ``choices`` are
    the texts of the options.
    """
    letters = _letters(choices)
    return frozenset(letters[letter] for found in _ALONE.findall(text) if (letter := "".join(found)) in letters)


def implied_letters(gold: str) -> tuple[str, ...] | None:
    """Return the possible option letters of a question whose choices are unknown, if its gold answer is one letter.

    The letters are A to H. If the gold's letter is after H, they are A to this letter (A to J for the gold J). Returns
    None if the gold is not one letter.
    """
    letter = gold.strip().strip("().")
    if len(letter) != 1 or not "A" <= letter <= "Z":
        return None
    return tuple(chr(code) for code in range(ord("A"), max(ord("H"), ord(letter)) + 1))


def gold_options(gold: str, choices: tuple[str, ...]) -> frozenset[int]:
    """Return the positions (from 0) of the choices that equal the gold (correct) answer.

    Texts are compared exactly. If no text is equal, they are compared after normalisation. If still no text is equal, a
    gold of one letter means the choice at this letter's position. The result is empty if no choice matches, or if the
    gold is blank.
    """
    for form in (str.strip, normalise_text):
        if right := _matching(gold, choices, form):
            return right
    letter = gold.strip()
    index = ord(letter) - ord("A") if len(letter) == 1 else -1
    return frozenset({index}) if 0 <= index < len(choices) else frozenset()


def _tight(text: str) -> str:
    """Return the text in lower case without spaces.

    Quotes and dollar signs at its start and end, and a full stop at its end, are also removed.
    """
    text = unicodedata.normalize("NFKC", text).replace("−", "-").casefold()
    return re.sub(r"\s+", "", text).strip("\"'`“”‘’$").rstrip(".").strip("$")


def _matching(text: str, choices: tuple[str, ...], form: Callable[[str], str]) -> frozenset[int]:
    """Return the positions of the options that equal the text after the function ``form`` has changed both.

    An example of ``form`` is :func:`normalise_text`, which removes articles and punctuation. If the
    function returns "" for the text, the result is empty.
    """
    wanted = form(text)
    return frozenset(index for index, choice in enumerate(choices) if wanted and form(choice) == wanted)


def _letters(choices: tuple[str, ...]) -> dict[str, int]:
    """Return a dict from each capital letter to the position (from 0) of the option that the letter means.

    A means the first option, B the second, and so on. There is one exception: the texts of the options may be letters
    in another order, such as ``['C)', 'A)', 'B)']``. Each of these letters then means the option with this text.
    """
    written: dict[str, int] = {}
    for index, choice in enumerate(choices):
        bare = _BARE_LETTER.fullmatch(choice.strip())
        if bare is not None and bare.group(1).isupper():
            written[bare.group(1)] = index
    positions = {chr(ord("A") + index): index for index in range(min(len(choices), 26))}
    if any(positions.get(letter, index) != index for letter, index in written.items()):
        return written
    return positions | written


def _is_denied(text: str, choices: tuple[str, ...], letters: dict[str, int]) -> bool:
    """Return whether a text denies one option by its letter ("B is wrong", "(B) cannot be")."""
    labelled = _LABEL_FIRST.match(text)
    if labelled is None or labelled.group(1).upper() not in letters:
        return False
    rest = text[labelled.end() :]
    return (
        _DENIED.match(rest) is not None
        and not _OTHER_DENIED.match(rest)
        and not _matching(rest, choices, normalise_text)
    )


def _labelled(text: str, choices: tuple[str, ...], letters: dict[str, int]) -> frozenset[int]:
    """Return the positions of the options that an answer names by a label, as in "B", "(B) cat" or "cat (B)".

    ``text`` is the answer, and ``letters`` maps each letter to the position of its option. The result also has the
    options that the rest of the text names: both B and C for "(B) or C". It is empty if the answer has no such form.
    """
    bare = _BARE_LETTER.fullmatch(text)
    if bare is not None:
        index = letters.get(bare.group(1).upper())
        return frozenset() if index is None else frozenset({index})
    for pattern in _LABELLED:
        match = pattern.fullmatch(text)
        index = None if match is None else letters.get(match.group(1).upper())
        if match is None or index is None:
            continue
        rest = match.group(2)
        others = {letters[letter] for letter in _OTHER_LABEL.findall(rest) if letter in letters}
        texts = _matching(rest, choices, _tight) or _matching(rest, choices, normalise_text)
        texts = texts or _listed(rest, choices, letters)
        # A rest that repeats the option's own text adds no option, even if it contains letters.
        return frozenset({index}) if texts == {index} else frozenset({index}) | others | texts
    closed = _TEXT_AND_LETTER.fullmatch(text)
    if closed is not None and closed.group(2) in letters:
        texts = _matching(closed.group(1), choices, normalise_text)
        return texts | {letters[closed.group(2)]} if texts else texts
    match = _LETTER_AND_TEXT.fullmatch(text)
    index = None if match is None else letters.get(match.group(1))
    if match is None or index is None:
        return frozenset()
    texts = _matching(match.group(2), choices, _tight)
    if match.group(1) == "A" and index not in texts:
        return frozenset()  # "A dog" has an article, not a letter
    return frozenset({index}) | texts if texts else texts


def _listed(rest: str, choices: tuple[str, ...], letters: dict[str, int]) -> frozenset[int]:
    """Return the positions of the options that a text lists by letter or by their words, as in "B or cat".

    ``rest`` is the text, and ``letters`` maps each letter to the position of its option. The result is empty if the
    text also has other words, except joining words such as "or".
    """
    found = {letters[label] for match in _INNER_LABEL.findall(rest) if (label := "".join(match).upper()) in letters}
    words = f" {normalise_text(_INNER_LABEL.sub(' ', rest))} "
    forms = {index: f" {normalise_text(choice)} " for index, choice in enumerate(choices)}
    for index in sorted(forms, key=lambda i: -len(forms[i])):
        if forms[index].strip() and forms[index] in words:
            found.add(index)
            words = words.replace(forms[index], " ")
    return frozenset() if set(words.split()) - _JOINING else frozenset(found)


def _equal_in_value(text: str, choices: tuple[str, ...]) -> frozenset[int]:
    """Return the positions (from 0) of the options that have the same value as the answer ``text``.

    If the answer means yes or no, and if exactly one option is yes and one is no, the result is the option with the
    answer's meaning. Otherwise, the result is the options that equal the answer as a single number (without tolerance)
    or as a mathematical expression.
    """
    side, sides = polarity(text), [POLARITY.get(normalise_text(choice)) for choice in choices]
    if side is not None and sides.count(True) == sides.count(False) == 1:
        return frozenset({sides.index(side)})
    equal = _equal_number(last_side(text), text, choices)
    if equal:
        return equal
    if whole_quantity(text) is not None and any(map(whole_quantity, choices)):
        return frozenset()  # maths ignores units
    if not is_maths(text) and not any(map(is_maths, choices)):
        return frozenset()
    return frozenset(i for i, choice in enumerate(choices) if compare_maths(choice, text) is MathsMatch.EQUAL)


def _equal_number(chain: str, text: str, choices: tuple[str, ...]) -> frozenset[int]:
    """Return a set with the position (from 0) of the only option that has the same number as the answer.

    ``text`` is the answer, and ``chain`` is the part of the answer after its last equals sign. If the answer and an
    option both have a unit, the two are compared after conversion to one unit. The set is empty in three cases: no
    option or several options have the number; the answer is a bound such as "more than 5"; or ``chain`` has more than
    three words.
    """
    # Options that share a number differ in their words ("4 points", "4 points more"), not in value.
    if is_qualified(text) or len(normalise_text(chain).split()) > 3:
        return frozenset()
    # If an option is "None of these", "none" is not the number 0.
    number = None if any(normalise_text(choice).startswith("none") for choice in choices) else read_count(text)
    number = number or read_numerals(chain).single
    if number is None:
        return frozenset()
    quantity = whole_quantity(with_digits(chain))
    same: list[int] = []
    for index, choice in enumerate(choices):
        single, other = read_numerals(choice).single, None if quantity is None else whole_quantity(choice)
        is_same = None if quantity is None or other is None else same_exactly(quantity, other)
        if is_same if is_same is not None else single is not None and same_value(number, single):
            same.append(index)
    return frozenset(same) if len(same) == 1 else frozenset()


def _mentioned(text: str, choices: tuple[str, ...]) -> frozenset[int]:
    """Return the positions (from 0) of the options whose words occur in the text.

    If one such option is part of another, only the longer one is returned: "red car", and not "car".
    """
    padded = f" {normalise_text(text)} "
    forms = {index: f" {normalise_text(choice)} " for index, choice in enumerate(choices)}
    found = {index: form for index, form in forms.items() if form.strip() and form in padded}
    return frozenset(i for i, form in found.items() if not _is_part(form, (f for j, f in found.items() if j != i)))


def _is_part(form: str, others: Iterable[str]) -> bool:
    """Return whether the text ``form`` is a proper part of one of the texts ``others``."""
    return any(form != other and form in other for other in others)
