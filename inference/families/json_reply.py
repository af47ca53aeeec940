"""Replies in JSON, as most families point and box: a list of objects, alone or fenced or in prose.

A list that was cut short is never read in part: what is missing would count as absent.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from inference.grounding import BadReply, BoxReader, PointReader, RawBox, raw_box, raw_point
from schemas.responses.pointing import NoPoints, RawPoint, says_none
from schemas.text import storable

Numbers = Callable[[Any], object | None]
"""The coordinates of an item of a reply as they stand there; None for what is no such item."""

MAX_LITERAL_CHARS = 100_000
MAX_PROSE_BRACKETS = 1000
"""Each costs a try that looks at all of the text before it."""

_START = re.compile(r"[\[{]")
_LIKE_JSON = re.compile(r"\[\s*[\[{]|\{\s*[\"']")
_CLOSING = {"[": "]", "{": "}"}


def key(name: str) -> Numbers:
    """Items that are objects with their coordinates under this key."""
    return lambda item: item.get(name) if isinstance(item, dict) else None


def keys(*names: str) -> Numbers:
    """Items that are objects with one coordinate under each of these keys."""

    def numbers(item: Any) -> object | None:
        found = [item.get(name) for name in names] if isinstance(item, dict) else [None]
        return None if all(value is None for value in found) else found

    return numbers


def box_reader(numbers: Numbers, *wrappers: str) -> BoxReader:
    """Reads the boxes of a list of such items, which may stand in an object under one of the ``wrappers``."""

    def read(text: str) -> tuple[RawBox, ...]:
        return tuple(
            raw_box(row, label_of(item)) for item in json_items(text, numbers, wrappers) for row in _rows(numbers(item))
        )

    return read


def point_reader(numbers: Numbers, *wrappers: str) -> PointReader:
    """Reads the points of a list of such items, as :func:`box_reader` does boxes."""

    def read(text: str) -> tuple[RawPoint, ...] | NoPoints:
        points = tuple(
            raw_point(row, label_of(item))
            for item in json_items(text, numbers, wrappers)
            for row in _rows(numbers(item))
        )
        return points or NoPoints(text.strip())

    return read


def label_of(item: object) -> str:
    """The label of an item; "" for one without."""
    label = item.get("label") if isinstance(item, dict) else None
    return storable(label) if isinstance(label, str) else ""


def _rows(found: object) -> list[object]:
    """The rows of an item that may hold one or several of them."""
    several = isinstance(found, list) and bool(found) and all(isinstance(row, list) for row in found)
    return found if several else [found]  # type: ignore[return-value]


def json_items(text: str, numbers: Numbers, wrappers: tuple[str, ...] = ()) -> list[Any]:
    """The items of a reply: those of its one list, or its objects one after another; none where it says so.

    Raises BadReply for JSON that is cut short or malformed, for an item without coordinates, for two lists that
    differ, and where there is neither an item nor a clear word that there is none.
    """
    lists: list[list[Any]] = []
    single: list[Any] = []
    for value in json_values(text):
        if numbers(value) is not None:
            single.append(value)
        elif (items := _listed(value, numbers, wrappers)) is not None and items not in lists:
            lists.append(items)
    answers = [*lists, single] if single else lists
    if len(answers) > 1:
        raise BadReply(f"{len(answers)} different lists where one was asked for")
    if answers:
        return answers[0]
    if says_none(text):
        return []
    raise BadReply(f"no list of the form that was asked for in {text.strip()[:80]!r}")


def _listed(value: Any, numbers: Numbers, wrappers: tuple[str, ...]) -> list[Any] | None:
    """The items that a value lists; None for one of another kind. Raises BadReply where only some are items."""
    if isinstance(value, dict):
        under = [value[name] for name in wrappers if name in value]
        if not under:
            return None
        value = under[0]
        if not isinstance(value, list) or not all(numbers(item) is not None for item in value):
            raise BadReply(f"expected a list of items with coordinates, got {value!r:.80}")
        return value
    are_items = [numbers(item) is not None for item in value]
    if any(are_items) and not all(are_items):
        raise BadReply(f"an item without coordinates in {value!r:.80}")
    return value if all(are_items) else None


def json_values(text: str) -> Iterator[Any]:
    """The lists and objects of a text in order. Raises BadReply for one that is cut short or malformed.

    Brackets of prose are passed over. Single quotes and a comma too many are read as they are meant.
    """
    decoder, at, end, of_prose = json.JSONDecoder(strict=False), 0, len(text.rstrip()), 0
    while start := _START.search(text, at):
        try:
            value, at = decoder.raw_decode(text, start.start())
        except RecursionError:
            raise BadReply("JSON that is nested too deeply") from None
        except ValueError as error:
            like_json = _LIKE_JSON.match(text, start.start()) is not None
            literal = _literal(text, start.start()) if like_json else None
            if literal is None and (like_json or getattr(error, "pos", 0) >= end):
                shown = text[start.start() :][:80]
                raise BadReply(f"JSON that is cut short or malformed: {shown!r}") from None
            if literal is None:
                at, of_prose = start.start() + 1, of_prose + 1
                if of_prose > MAX_PROSE_BRACKETS:
                    raise BadReply(f"more than {MAX_PROSE_BRACKETS} brackets that hold no JSON") from None
                continue
            value, at = literal
        yield value


def _literal(text: str, start: int) -> tuple[Any, int] | None:
    """The value that is written as Python writes it, with its end; None where there is none."""
    depth, opening = 0, text[start]
    for at in range(start, min(len(text), start + MAX_LITERAL_CHARS)):
        depth += (text[at] == opening) - (text[at] == _CLOSING[opening])
        if not depth:
            break
    else:
        return None
    try:
        value = ast.literal_eval(text[start : at + 1])
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return (value, at + 1) if isinstance(value, list | dict) else None
