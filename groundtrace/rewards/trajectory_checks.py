"""Checks a trajectory without executing it: the form of its turns, results that no later turn uses, and its operations.

A trajectory is a response in several turns with code. The checks that need an execution are in
:mod:`groundtrace.rewards.pretence`.
"""

import ast
import re
from collections.abc import Sequence

from groundtrace.grading.responses.operations import OPERATIONS, operations_of
from groundtrace.grading.responses.response import MAX_RESPONSE_CHARS, parse_response
from groundtrace.grading.responses.turns import Turn, as_tags
from groundtrace.schemas.control_text import find_control

_TAG = re.compile(r"<(/?)(think|answer|code|interpreter|tool_call|tool_response)\s*>", re.IGNORECASE)
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_WRITTEN_TAG = re.compile(r"</?\w+\s*>")
_NUMBER_WORDS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
_SAME = {"true": "yes", "yes": "true", "false": "no", "no": "false"}
_NAME = re.compile(r"\b[A-Za-z_]\w*")
MAX_ANSWER_CHARS = 1000
"""An answer with this number of characters or more is malformed, as in the paper's published code."""


def form_fault(turns: Sequence[Turn]) -> str:
    """Return a description of the first fault in the form of a trajectory; "" if there is no fault.

    A trajectory is a response in several turns with code, and ``turns`` are these turns. The rules are:

    - Each think section must be closed in the turn in which it begins. A think section may be missing, since an easy
      question is answered directly.
    - The last turn must have exactly one answer and no code. All other turns must have code and no answer.
    - The text must not have control text, such as special tokens of a model, and must not be too long.
    """
    if not turns or turns[-1].code:
        return "the last turn has no answer"
    if control := find_control("\n".join(turn.text for turn in turns)):
        return f"the text has the control text {control!r}"
    if len(as_tags(turns)) > MAX_RESPONSE_CHARS:
        return f"the trajectory has more than {MAX_RESPONSE_CHARS:,} characters"
    for number, turn in enumerate(turns, 1):
        marks = [closing + name.lower() for closing, name in _TAG.findall(turn.text)]
        is_last = number == len(turns)
        thoughts, sections = (marks[:-2], marks[-2:]) if is_last else (marks, [])
        if thoughts != ["think", "/think"] * (len(thoughts) // 2) or (is_last and sections != ["answer", "/answer"]):
            return f"turn {number} is not made of think sections{' and one answer at the end' if is_last else ''}"
        if not is_last and not turn.code:
            return f"turn {number} has no code, and is not the last"
    answer = parse_response(turns[-1].text).answer or ""
    if not answer.strip() or len(answer) >= MAX_ANSWER_CHARS:
        return f"the answer has {len(answer.strip())} characters"
    return ""


def unused_results(turns: Sequence[Turn]) -> frozenset[int]:
    """Return the indices of the turns whose results no later turn uses.

    A result is the text that the code of a turn printed. The result is used in two cases. In the first case, a later
    turn contains a number of the result (also rounded, or in words) or a word of the result. In the second case, the
    code that printed the result defines a name, such as a variable, and the code of a later turn contains this name.

    Turns that showed images are never in the set, because only a model can decide whether the images are used. Turns
    whose code failed or printed nothing are not in the set either, because they have no result.
    """
    return frozenset(
        index
        for index, turn in enumerate(turns)
        if turn.status == "ok" and not turn.images and not _is_used(turn, turns[index + 1 :])
    )


def has_answer(output: str, turns: Sequence[Turn]) -> bool:
    """Return whether a text that code printed contains the final answer, or a part of it.

    ``output`` is the text, and ``turns`` are the turns of the response; the last turn has the answer. The result is
    True if the text contains a number (also rounded) or a word of the answer.
    """
    words, numbers = _read(output)
    answer_words, answer_numbers = _read(parse_response(turns[-1].text).answer or "")
    return bool(words & answer_words) or any(_is_same(own, other) for own in numbers for other in answer_numbers)


def _is_used(turn: Turn, later: Sequence[Turn]) -> bool:
    text, code = (" ".join(getattr(each, part) for each in later) for part in ("text", "code"))
    if bound_names(turn.code) & set(_NAME.findall(code)):
        return True
    words, numbers = _read(turn.output)
    later_words, later_numbers = _read(f"{_WRITTEN_TAG.sub(' ', text)} {code}")
    return bool(words & later_words) or any(_is_same(own, other) for own in numbers for other in later_numbers)


def bound_names(code: str) -> set[str]:
    """Return the names that a program defines: its variables, functions, classes and imports.

    The set is empty if the program cannot be parsed.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return found


def _read(text: str) -> tuple[set[str], list[str]]:
    """Return the words of a text in lower case, and its numbers as written, without commas between thousands.

    The number words from "zero" to "twelve" are also added as numbers. "yes" and "true" count as the same word: if the
    text has one of them, both are returned. The same rule applies to "no" and "false".
    """
    tokens = _TOKEN.findall(_THOUSANDS.sub("", text))
    words = {token.lower() for token in tokens if not token[0].isdigit()}
    numbers = [token for token in tokens if token[0].isdigit()]
    numbers += [str(_NUMBER_WORDS.index(word)) for word in words & set(_NUMBER_WORDS)]
    return words | {_SAME[word] for word in words & _SAME.keys()}, numbers


def _is_same(number: str, other: str) -> bool:
    """Return whether two numbers are equal when both are rounded to the same number of decimals.

    This number of decimals is that of the number with fewer decimals. For example, "3.14" and "3.1" are equal.
    """
    places = min(len(each.partition(".")[2]) for each in (number, other))
    return round(float(number), places) == round(float(other), places)


def operations_in(turns: Sequence[Turn]) -> tuple[str, ...]:
    """Return the kinds of image operations, such as crops, that the code of a trajectory contains.

    A trajectory is a response in several turns with code. ``turns`` are these turns. The kinds are in the order of
    :data:`OPERATIONS`, and each kind is named once.
    """
    found = {kind for turn in turns if turn.code for kind in operations_of(turn.code)}
    return tuple(kind for kind in OPERATIONS if kind in found)
