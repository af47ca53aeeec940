"""Checks a trajectory without executing it: the form of its turns, unused results, and its kinds of operations.

What only an execution shows is in :mod:`groundtrace.rewards.pretence`.
"""

import re
from collections.abc import Sequence

from groundtrace.grading.responses.operations import OPERATIONS, operations_of
from groundtrace.grading.responses.response import MAX_RESPONSE_CHARS, parse_response
from groundtrace.grading.responses.turns import Turn, as_tags
from groundtrace.schemas.control_text import find_control

_TAG = re.compile(r"<(/?)(think|answer)\s*>", re.IGNORECASE)
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]{2,}")
_NAME = re.compile(r"\b[A-Za-z_]\w*")
_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)\s*=(?!=)")
MAX_ANSWER_CHARS = 1000
"""A longer answer is malformed, as in the paper's published code."""


def form_fault(turns: Sequence[Turn]) -> str:
    """Returns the fault in the form of a trajectory, "" if it has none.

    Each think section is closed in its turn. Only the last turn has an answer, exactly one, and no code; it may lack
    a think section, since an easy question is answered directly.
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
    """Returns the indices of the turns whose results no later turn uses.

    A result is used if a later turn has one of its numbers or words, if later code has one of the variables that its
    code set, or if it showed images: whether these are used only a model can tell. A failed call needs no use.
    """
    return frozenset(
        index
        for index, turn in enumerate(turns)
        if turn.status == "ok" and not turn.images and not _is_used(turn, turns[index + 1 :])
    )


def _is_used(turn: Turn, later: Sequence[Turn]) -> bool:
    text, code = (" ".join(getattr(each, part) for each in later) for part in ("text", "code"))
    names = set(_ASSIGNED.findall(turn.code)) & set(_NAME.findall(code))
    return bool(names) or bool(set(_words(turn.output)) & set(_words(f"{text} {code}")))


def _words(text: str) -> list[str]:
    return [word.lower() for word in _TOKEN.findall(text)]


def operations_in(turns: Sequence[Turn]) -> tuple[str, ...]:
    """Returns the kinds of operations in all code of the trajectory, in the order of :data:`OPERATIONS`."""
    found = {kind for turn in turns if turn.code for kind in operations_of(turn.code)}
    return tuple(kind for kind in OPERATIONS if kind in found)
