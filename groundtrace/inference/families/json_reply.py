"""Parses points and boxes that a model wrote as JSON, which is the form of most families. The JSON is a list of
objects. It may be the whole reply, or be in a code fence or between sentences.

A truncated list is rejected as a whole, since its missing points or boxes would look like absent objects.
"""

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

from groundtrace.grading.responses.pointing import NoPoints, RawPoint, states_none
from groundtrace.grading.responses.tags import parse_number
from groundtrace.inference.grounding import (
    BadReply,
    BoxReader,
    PointReader,
    RawBox,
    json_at,
    numbers_of,
    raw_box,
    raw_point,
)
from groundtrace.schemas.model_json import ConflictingValues, one_value_per_key, whole_texts

Numbers = Callable[[Any], object | None]
"""A function that returns the coordinates of one item of a reply, in the form in which the model wrote them.

An item is a point or a box as parsed JSON. The function returns None if its argument is not an item with coordinates.
"""

MAX_LITERAL_CHARS = 100_000
MAX_PROSE_BRACKETS = 1000
"""The largest number of brackets in a reply that do not belong to JSON. A reply with more raises BadReply.

The parser tries to read JSON at each bracket. If this fails, Python scans all of the text before the bracket to find
the line of the error. So a reply with very many brackets would take too long.
"""

_START = re.compile(r"[\[{]")
_LIKE_JSON = re.compile(r"\[\s*[\[{]|\{\s*[\"']")
_CLOSING = {"[": "]", "{": "}"}

_SIZED = (("x", "y", "width", "height"), ("x", "y", "w", "h"))
_POINTS = (("x", "y"),)
_BOXES = (
    ("x1", "y1", "x2", "y2"),
    ("x_min", "y_min", "x_max", "y_max"),
    ("xmin", "ymin", "xmax", "ymax"),
    ("left", "top", "right", "bottom"),
    *_SIZED,
)
_NAMES = frozenset(name for names in (*_POINTS, *_BOXES) for name in names)
_LABELS = ("label", "name", "object", "class", "category")


def key(name: str) -> Numbers:
    """Return a function (:data:`Numbers`) that returns the coordinates of one item of a reply. An item is an object,
    such as {"bbox_2d": [1, 2, 3, 4], "label": "dog"}, and ``name`` is the key of its list of coordinates ("bbox_2d").
    The function returns None for an item that is not an object or lacks this key.
    """
    return lambda item: item.get(name) if isinstance(item, dict) else None


def coordinates(count: int, *names: str, y_first: bool = False) -> Numbers:
    """Return a function (:data:`Numbers`) that returns the coordinates of one item of a reply. An item is a point or a
    box. ``count`` is the number of coordinates of an item: 2 for a point, 4 for a box.

    An item may have one of three forms:

    - It is an object with a list of coordinates under one of the keys ``names``.
    - It is an object with one key for each coordinate (``x``, ``x_min``, ``left``, …). If ``y_first`` is True, each y
      is returned before its x.
    - It is a plain list of numbers. :func:`json_items` accepts this form only under a key of an object: the box in
      {"boxes": [[1, 2, 3, 4]]} is accepted, but not the box in [[1, 2, 3, 4]].
    """

    def numbers(item: Any) -> object | None:
        if isinstance(item, dict):
            under = next((item[name] for name in names if name in item), item)
            return _named(under, count, y_first) if isinstance(under, dict) else under
        return item if _is_row(item, count) else None

    return numbers


def _is_row(item: Any, count: int) -> bool:
    """Return whether an item is a list of ``count`` numbers. The numbers may be in quotation marks."""
    return isinstance(item, list) and len(item) == count and all(map(_is_number, item))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and parse_number(value) is not None)


def _named(fields: dict[Any, Any], count: int, y_first: bool) -> list[object] | None:
    """Return the coordinates of a JSON object that has one key for each coordinate of a point or box.

    ``fields`` is the JSON object, such as {"x": 3, "y": 7}. ``count`` is 2 for a point and 4 for a box. If ``y_first``
    is True, each y is returned before its x. Returns None if a key is missing, or if the object also has other keys for
    coordinates, such as "width" for a point.

    A box may have a corner, a width and a height. Its two corners are then computed and returned. Raises BadReply if a
    value of such a box is not a number. The values of points, and of boxes with two corners, are not checked here.
    """
    given = {name: fields[name] for name in _NAMES if name in fields}
    for names in _POINTS if count == 2 else _BOXES:
        if given.keys() == set(names):
            values = [given[name] for name in names]
            if names in _SIZED:
                left, top, width, height = numbers_of(values, 4, "box")
                values = [left, top, left + width, top + height]
            pairs = zip(values[::2], values[1::2], strict=True)
            return [value for x, y in pairs for value in ((y, x) if y_first else (x, y))]
    return None


def box_reader(numbers: Numbers, *wrappers: str) -> BoxReader:
    """Return a parser for replies that hold boxes as JSON. The parser gets the text of a reply, and returns its boxes,
    with the numbers as the model wrote them. It raises BadReply if it cannot parse the text.

    ``numbers`` is a function that returns the coordinates of one item. The list of items may be in an object, under one
    of the keys ``wrappers``, e.g. "boxes" for {"boxes": […]}.
    """

    def read(text: str) -> tuple[RawBox, ...]:
        return tuple(
            raw_box(row, label_of(item)) for item in json_items(text, numbers, wrappers) for row in _rows(numbers(item))
        )

    return read


def point_reader(numbers: Numbers, *wrappers: str) -> PointReader:
    """Return a parser for replies that hold points as JSON. The parser gets the text of a reply, and returns its
    points, with the numbers as the model wrote them. It returns NoPoints if the reply states that the object is absent,
    and raises BadReply if it cannot parse the text.

    ``numbers`` is a function that returns the coordinates of one item. The list of items may be in an object, under one
    of the keys ``wrappers``, e.g. "points" for {"points": […]}.
    """

    def read(text: str) -> tuple[RawPoint, ...] | NoPoints:
        points = tuple(
            raw_point(row, label_of(item))
            for item in json_items(text, numbers, wrappers)
            for row in _rows(numbers(item))
        )
        return points or NoPoints(text.strip())

    return read


def label_of(item: object) -> str:
    """Return the label of a point or box in a reply: the text under one of the keys label, name, object, class or
    category. ``item`` is the point or box as parsed JSON. Returns "" if it has no label.
    """
    if not isinstance(item, dict):
        return ""
    return next((item[name] for name in _LABELS if isinstance(item.get(name), str)), "")


def _rows(found: object) -> list[object]:
    """Return the coordinates in one item of a reply as a list of rows. A row is the list of numbers of one point or
    box. An item usually has one row, but it may have several.

    ``found`` is the item's coordinates as the model wrote them: one row or a list of rows. For example, [1, 2] and
    [[1, 2]] are the same point, and both become [[1, 2]]. [[1, 2], [3, 4]] is two points, and stays unchanged.
    """
    several = isinstance(found, list) and bool(found) and all(isinstance(row, list) for row in found)
    return found if several else [found]  # type: ignore[return-value]


def json_items(text: str, numbers: Numbers, wrappers: tuple[str, ...] = ()) -> list[Any]:
    """Find the items (points or boxes) of a reply, and return them as parsed JSON. A reply may hold one list of items,
    or separate objects without a list. The result is empty if the reply states that the object is absent.

    ``text`` is the reply. ``numbers`` is a function that returns the coordinates of one item. The list may be in an
    object, under one of the keys ``wrappers``.

    Raises BadReply in these cases:

    - The JSON is truncated or not valid.
    - An item has no coordinates.
    - The reply has two different lists.
    - The reply has no item, and does not clearly state that the object is absent.
    """
    lists: list[list[Any]] = []
    single: list[Any] = []
    for value in json_values(text):
        if isinstance(value, dict) and numbers(value) is not None:
            single.append(value)
        elif (items := _listed(value, numbers, wrappers)) is not None and items not in lists:
            lists.append(items)
    answers = [*lists, single] if single else lists
    if len(answers) > 1:
        raise BadReply(f"the reply has {len(answers)} different lists: write only one list")
    if answers:
        return answers[0]
    if states_none(text):
        return []
    raise BadReply(f"the reply has no list of the form that was requested: {text.strip()[:80]!r}")


def _listed(value: Any, numbers: Numbers, wrappers: tuple[str, ...]) -> list[Any] | None:
    """Return the items (points or boxes) of ``value``, a JSON value of a reply. ``value`` is a list of items, or an
    object that has this list under one of the keys ``wrappers``. Returns None for any other value. Raises BadReply if
    only some elements of a list are items, or if the value under a key of ``wrappers`` is not a list of items.

    In a list without a key, each item must be an object, such as {"bbox_2d": [1, 2, 3, 4]}. Under a key, as in
    {"boxes": [[1, 2, 3, 4]]}, an item may also be a list of numbers. Without a key, a list of numbers may be something
    else than coordinates (:mod:`groundtrace.inference.families.prose` parses such lists).
    """
    if isinstance(value, dict):
        under = [value[name] for name in wrappers if name in value]
        if not under:
            return None
        value = under[0]
        if not isinstance(value, list) or not all(numbers(item) is not None for item in value):
            raise BadReply(
                f"the reply must be a list of items with coordinates, got {value!r:.80}; follow the requested form"
            )
        return value
    while value and all(isinstance(item, list) and any(isinstance(each, dict) for each in item) for item in value):
        value = [each for item in value for each in item]
    are_items = [isinstance(item, dict) and numbers(item) is not None for item in value]
    if any(are_items) and not all(are_items):
        raise BadReply(
            f"the list has an item without coordinates ({value!r:.80}): write coordinates for each item, or leave the "
            "item out"
        )
    return value if all(are_items) else None


def json_values(text: str) -> Iterator[Any]:
    """Yield the JSON lists and objects of a text in order. Raises BadReply if a list or object is truncated or is not
    valid JSON.

    Brackets that belong to ordinary sentences are skipped. Single quotes and a trailing comma, as in Python literals,
    are accepted.
    """
    at, end, of_prose = 0, len(text.rstrip()), 0
    while start := _START.search(text, at):
        try:
            value, at = json_at(text, start.start())
        except RecursionError:
            raise BadReply("the JSON is nested too deeply") from None
        except BadReply:
            raise
        except ValueError as error:
            like_json = _LIKE_JSON.match(text, start.start()) is not None
            literal = _literal(text, start.start()) if like_json else None
            if literal is None and (like_json or getattr(error, "pos", 0) >= end):
                shown = text[start.start() :][:80]
                raise BadReply(
                    f"the JSON is cut short or malformed: {shown!r}; write complete and valid JSON"
                ) from None
            if literal is None:
                at, of_prose = start.start() + 1, of_prose + 1
                if of_prose > MAX_PROSE_BRACKETS:
                    raise BadReply(
                        f"the reply has over {MAX_PROSE_BRACKETS} brackets without JSON: write only JSON"
                    ) from None
                continue
            value, at = literal
        yield value


def _literal(text: str, start: int) -> tuple[Any, int] | None:
    """Return the Python literal (list or dict) that begins at the index ``start``, and the index after its last
    character. Returns None if no literal begins there, or if the literal is too long. Raises BadReply if a dict has a
    key with two different values.
    """
    depth, opening = 0, text[start]
    for at in range(start, min(len(text), start + MAX_LITERAL_CHARS)):
        depth += (text[at] == opening) - (text[at] == _CLOSING[opening])
        if not depth:
            break
    else:
        return None
    try:
        written = ast.parse(text[start : at + 1], mode="eval")
        value = whole_texts(ast.literal_eval(written))
        for node in ast.walk(written):
            if isinstance(node, ast.Dict):
                _check_keys(node)
    except BadReply:
        raise
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return (value, at + 1) if isinstance(value, list | dict) else None


def _check_keys(written: ast.Dict) -> None:
    """Raise BadReply if a Python literal has a key with two different values.

    Without this check, ``literal_eval`` would use the last of these values.
    """
    pairs = [(ast.unparse(key), value) for key, value in zip(written.keys, written.values, strict=True) if key]
    if len(dict(pairs)) == len(pairs):
        return
    try:
        one_value_per_key([(key, ast.literal_eval(value)) for key, value in pairs])
    except ConflictingValues as error:
        raise BadReply(str(error)) from error
