"""Finds the answer options in a question's text, and replaces answers such as "B" by the option that they name."""

import re
import string
from collections.abc import Mapping
from typing import Any

_OPTION = re.compile(r"^[ \t]*(?:\(([A-Z])\)|([A-Z])[.):])[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_LETTERED = re.compile(r"\W*([A-Z])(?:[.):]\W*(.*))?\W*", re.DOTALL)
MIN_OPTIONS = 2


def has_options(text: str) -> bool:
    """Return whether a question's text has a list of answer options: consecutive lines such as "A. cat" and "B. dog"
    (:func:`split_options`).
    """
    return split_options(text)[1] is not None


def split_options(text: str) -> tuple[str, list[str] | None]:
    """Return the text of a question without its answer options, and the list of the options.

    The options are two or more consecutive lines that begin with A, B, … in order. All these lines have the same style:
    ``A. cat``, ``(A) cat``, ``A) cat`` or ``A: cat``. For example, the lines "A. cat" and "B. dog" give the options
    "cat" and "dog". If the text does not have exactly one such list, the unchanged text and None are returned.
    """
    found = list(_OPTION.finditer(text))
    letters = [option[1] or option[2] for option in found]
    if len(found) < MIN_OPTIONS or letters != list(string.ascii_uppercase[: len(found)]):
        return text, None
    styles = {text[option.start() : option.start(3)].strip().replace(letter, "") for option, letter in _pairs(found)}
    if len(styles) > 1 or text[found[0].start() : found[-1].end()].count("\n") != len(found) - 1:
        return text, None
    return (text[: found[0].start()] + text[found[-1].end() :].lstrip("\n")).strip(), [option[3] for option in found]


def with_options(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's fields with the options in its question's text moved to the field ``choices``.

    ``row`` holds the fields. An answer such as ``B`` or ``B. cat`` is replaced by the option with this letter
    (``cat``). Any other answer stays unchanged. If the answer is not one of the options, the record is rejected later.
    All fields stay unchanged if the record already has choices, or if its question has no options.
    """
    question, answer = row.get("question"), row.get("answer")
    if not isinstance(question, str) or row.get("choices") is not None:
        return dict(row)
    text, options = split_options(question)
    if options is None:
        return dict(row)
    named = _LETTERED.fullmatch(answer) if isinstance(answer, str) and answer not in options else None
    if named:
        place = string.ascii_uppercase.index(named[1])
        is_that = place < len(options) and (not named[2] or _same(named[2], options[place]))
        answer = options[place] if is_that else answer
    return {**row, "question": text, "choices": options, "answer": answer}


def with_named_choice(row: Mapping[str, Any], named_by: str) -> dict[str, Any]:
    """Return a record's fields. If the answer names a choice by letter or position, it is replaced by this choice.

    ``row`` holds the fields. ``named_by`` is the way in which answers name choices: "letter", "index" (from 0),
    "number" (from 1) or "text". For example, with "number" the answer ``2`` becomes the second choice. The fields stay
    unchanged in three cases: ``named_by`` is "text", the record has no choices, or the answer is a boolean. Otherwise,
    an answer that names no choice gets a note, so that the record is rejected later. For example, ``7`` becomes "7
    (which names none of 4 choices by its number)".
    """
    choices, answer = row.get("choices"), row.get("answer")
    if named_by == "text" or not isinstance(choices, list) or isinstance(answer, bool):
        return dict(row)
    text = str(answer).strip()
    place = -1
    if named_by == "letter":
        letter = text.strip("().: ").upper()
        place = string.ascii_uppercase.index(letter) if len(letter) == 1 and letter in string.ascii_uppercase else -1
    elif re.fullmatch(r"[0-9]{1,3}(\.0)?", text):
        place = int(float(text)) - (named_by == "number")
    if not 0 <= place < len(choices):
        return {**row, "answer": f"{text} (which names none of {len(choices)} choices by its {named_by})"}
    return {**row, "answer": choices[place]}


def _pairs(found: list[re.Match[str]]) -> list[tuple[re.Match[str], str]]:
    return [(option, option[1] or option[2]) for option in found]


def _same(text: str, option: str) -> bool:
    return text.strip(" .").casefold() == option.strip(" .").casefold()
