"""Parses coordinates in ordinary sentences and plain lists: ``[[12, 34]]``, "The dog is at (12, 34).", "- Dog 2: [1, 2,
3, 4]".

Models write such replies if they do not follow the requested form. InternVL and GLM-V write such replies if a server
drops the special tokens of these models. Numbers in a sentence may mean anything, so a reply is accepted only if all of
it is understood. The reply must have no JSON, no tags, and no word that makes its meaning doubtful (:data:`_DOUBTS`).
Outside of the brackets it must have no numbers except for list numbers, instance numbers and the count of objects.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groundtrace.inference.families.labels import closeness
from groundtrace.inference.grounding import BadReply, numbers_of

MAX_CHARS = 20_000

_FENCE = re.compile(r"^[ \t]*```\w*[ \t]*$", re.MULTILINE)
_FOREIGN = re.compile(r"[{}<>\"=%|\\]")
_OPEN = re.compile(r"[\[(]")
_NUMBERS = re.compile(r"[-+\d.,\s\[\]()]*\d[-+\d.,\s\[\]()]*")
_ROW = re.compile(r"[\[(]([^\[\]()]+)[\])]")
_BETWEEN = re.compile(r"[\s,\[\]()]*")
_APART = re.compile(r"[,\s]+")
_ITEM = re.compile(r"\s*(?:[-*•]|\d{1,3}[.)])\s+")
_SENTENCE = re.compile(r"[.!?]\s")
_IN_THE_IMAGE = re.compile(r"\b(?:in|of|on) (?:the|this) (?:image|picture|photo)\b", re.IGNORECASE)
_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|\d+")

_FORMAL = frozenset(
    word
    for words in (
        "a all an and answer are as at be by can coordinate coordinates count describes detected each every final",
        "find following follows for found given has have here i in is it its json list located location locations",
        "object of on output point points position positions region respectively result results see sentence shown",
        "sure that the there these they this visible was were where which with you your box boxes bounding",
    )
    for word in words.split()
)
"""Words that do not belong to the name of an object in a reply, such as "the", "located" or "at"."""
_DOUBTS = frozenset(
    word
    for words in (
        "actually assume assuming aren't before between but can't cannot correct corrected correction corner",
        "corners could couldn't dimension dimensions doesn't don't either estimate example except format from",
        "height if instead isn't likely maybe might neither never no none nor normalized not or originally other",
        "percent perhaps pixel pixels px range rather resolution scale scaled should size to unless until unlike",
        "unsure wait wasn't weren't width without would wrong",
    )
    for word in words.split()
)
"""Words that make the meaning of the numbers in a reply doubtful, such as "not", "corrected" or "pixels".

These words retract, negate or compare, or are about sizes and scales. A reply with such a word is rejected, unless the
requested label contains the word.
"""
_OF_BOXES, _OF_POINTS = frozenset({"bounding", "box", "boxes", "rectangle"}), frozenset({"center", "centre", "middle"})


@dataclass(frozen=True)
class _Rows:
    """Holds the coordinates in one bracket, the label of these coordinates, and the bracket's offsets in the text.

    ``is_plain`` is True if the line has no other words than the label.
    """

    start: int
    end: int
    rows: list[list[float]]
    label: str = ""
    is_plain: bool = True


def rows_in_prose(text: str, count: int, label: str) -> list[list[float]] | None:
    """Return the coordinates that a reply has for the object named ``label``, as lists of ``count`` numbers (2 for
    points, 4 for boxes). ``text`` is the reply. Returns None if the reply has no coordinates in sentences or plain
    lists, e.g. because it is JSON, or if it is too long.

    Raises :class:`groundtrace.inference.grounding.BadReply` for a reply that is truncated, unclear, or about another
    object.
    """
    plain = _FENCE.sub("", text).replace("**", "").strip()
    if len(plain) > MAX_CHARS or _FOREIGN.search(plain):
        return None
    written = list(_labelled(plain, _joined(plain, list(_written(plain)), count)))
    if not written:
        return None
    _check_words(plain, written, label, count)
    close = [closeness(each.label, label) if each.label else 0 for each in written]
    for each, near in zip(written, close, strict=True):
        if each.label and not near and not (each.is_plain and any(close)):
            raise BadReply(f"the reply is about {each.label[:80]!r}, but {label[:80]!r} was requested")
    if any(close) and not all(each.label for each in written):
        raise BadReply(f"some coordinates have no label ({plain[:80]!r}): write a label for all")
    best = max(close)
    kept = [each for each, near in zip(written, close, strict=True) if not each.label or near == best]
    return [numbers_of(row, count, "box" if count == 4 else "point") for each in kept for row in each.rows]


def _written(text: str) -> Iterator[_Rows]:
    """Find the coordinates in the reply ``text``. Yields the coordinates in each pair of brackets, in order.

    Brackets with other content than numbers are skipped. Nested brackets, as in ``[[1, 2], [3, 4]]``, give one element
    for the outer pair. Raises BadReply if a bracket does not close, if the brackets mix single numbers and groups of
    numbers, or if a number cannot be read.
    """
    at = 0
    while start := _OPEN.search(text, at):
        depth, at = 0, start.start()
        for at in range(start.start(), len(text)):
            depth += (text[at] in "[(") - (text[at] in "])")
            if not depth:
                break
        if depth:
            raise BadReply(f"the reply has brackets that do not close: {text[:80]!r}; close each bracket")
        at += 1
        inside = text[start.start() : at]
        if not _NUMBERS.fullmatch(inside):
            continue
        if not _BETWEEN.fullmatch(_ROW.sub("", inside)):
            raise BadReply(f"the brackets {inside[:80]!r} mix single numbers and groups of numbers: write only groups")
        rows = [[*filter(None, _APART.split(row))] for row in _ROW.findall(inside)]
        yield _Rows(start.start(), at, [[float(value) for value in _floats(row)] for row in rows])


def _floats(row: Sequence[str]) -> list[float]:
    return numbers_of(list(row), len(row), "numbers")


def _joined(text: str, written: Sequence[_Rows], count: int) -> list[_Rows]:
    """Join the two corners of each box, such as ``(1, 2), (3, 4)``, into one element, and return the new list.

    ``written`` are the brackets with coordinates in ``text``, in order. ``count`` is 2 if points were requested, and 4
    if boxes were requested. If points were requested, two adjacent pairs of numbers are unclear: they may be two points
    or the corners of one box. So BadReply is raised.
    """
    found: list[_Rows] = []
    for each in written:
        is_pair = len(each.rows) == 1 and len(each.rows[0]) == 2 and text[each.start] == "("
        last = found[-1] if found else None
        if (
            is_pair
            and last is not None
            and text[last.start] == "("
            and len(last.rows[0]) == 2
            and not text[last.end : each.start].strip(" ,")
        ):
            if count == 2:
                raise BadReply(
                    f"{text[last.start : each.end]!r:.80} may be two points or one box: write a list of points"
                )
            found[-1] = _Rows(last.start, each.end, [last.rows[0] + each.rows[0]])
        else:
            found.append(each)
    return found


def _labelled(text: str, written: Sequence[_Rows]) -> Iterator[_Rows]:
    """Yield each bracket in ``written`` with the label (name of an object) of its coordinates.

    ``written`` are the brackets with coordinates in ``text``, in order. The label is from the words directly before the
    bracket on the same line. If no words there name an object, there are two cases:

    - The first bracket of a line gets its label from the last earlier line that ends with a colon. If there is no such
      line, the label is "".
    - Any other bracket gets the label of the bracket before it on the same line.
    """
    heading, current, before = ("", True), ("", True), 0
    for each in written:
        *above, line = text[before : each.start].split("\n")
        for other in above:
            if other.strip():
                heading = label_in(other) if other.rstrip().endswith(":") else heading
        own = label_in(line)
        current = own if own[0] else heading if above or not before else current
        label, is_plain = current
        end = text.find("\n", each.end)
        is_alone = not text[each.end : end if end >= 0 else len(text)].strip(" \t,;.")
        yield _Rows(each.start, each.end, each.rows, label, is_plain and is_alone)
        before = each.end


def label_in(line: str) -> tuple[str, bool]:
    """Return two values: the label (the name of an object) in the last sentence of a line, and whether the sentence has
    no other words. Words about the answer, such as "the", "located" or "at", do not belong to the label. E.g.
    "The dog is at " becomes ("dog", False), and "dog: " becomes ("dog", True).
    """
    item = _ITEM.match(line)
    phrase = _SENTENCE.split(line[item.end() :] if item else line)[-1]
    words = _TOKEN.findall(_IN_THE_IMAGE.sub("", phrase.replace("_", " ")))
    named = [word for word in words if word.casefold() not in _FORMAL]
    return " ".join(named), len(named) == len(words)


def _check_words(text: str, written: Sequence[_Rows], label: str, count: int) -> None:
    """Raise BadReply if a word such as "not", or a number, makes the meaning of a reply's coordinates doubtful.

    ``text`` is the reply. Only its parts outside of ``written``, the brackets with coordinates, are checked. Words of
    ``label``, the requested object, are allowed. ``count`` is 2 if points were requested, and 4 if boxes were
    requested. A number is allowed in these cases:

    - It is in the label.
    - It is the number of a list item, such as "2." at the beginning of a line.
    - It is the number of points or boxes in the reply.
    - It is the last word before a bracket ("dog 2").
    """
    own = {word.casefold() for word in _TOKEN.findall(label)}
    doubts = (_DOUBTS | (_OF_BOXES if count == 2 else _OF_POINTS)) - own
    allowed = own | {str(sum(len(each.rows) for each in written))}
    before = 0
    for part_end, next_at in [*((each.start, each.end) for each in written), (len(text), len(text))]:
        part = text[before:part_end]
        before = next_at
        for line in part.split("\n"):
            item = _ITEM.match(line)
            words = [word.casefold().replace("’", "'") for word in _TOKEN.findall(line[item.end() :] if item else line)]
            last = words[-1:] if part_end < len(text) and len(words) > 1 else []  # the number of an instance
            for word in words:
                if word in doubts or (word.isdecimal() and word not in allowed and [word] != last):
                    raise BadReply(
                        f"the word {word!r} makes the meaning of the numbers unclear ({text[:80]!r}): leave it out"
                    )
