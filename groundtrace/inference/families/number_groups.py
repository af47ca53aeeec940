"""Parses coordinates that are written in brackets of any kind, but not as JSON. Some families write this form, e.g.
"(1, 2), (3, 4)".
"""

import re

from groundtrace.inference.grounding import BadReply, numbers_of

_GROUP = re.compile(r"[\[(<{]([-+\d.,\s]+)[\])>}]")
_INNERMOST = re.compile(r"[\[(<{]([^\[\](){}<>]*)[\])>}]")
_NUMBERS = re.compile(r"[-+\d.,\s]+")
_APART = re.compile(r"[,\s]+")
_EMPTY = re.compile(r"\s*[\[({][\[\](){}\s]*")


def groups_of(text: str, count: int, what: str) -> list[list[float]]:
    """Return the groups of numbers in a text: for each innermost pair of brackets, its ``count`` numbers. E.g. "[[1,
    2], [3, 4]]" with ``count`` 2 becomes [[1.0, 2.0], [3.0, 4.0]]. The result is empty if the text has only empty
    brackets. ``what`` is the word for a group in error messages, e.g. "box".

    Raises :class:`groundtrace.inference.grounding.BadReply` in these cases:

    - The text has no group of numbers, unless it has only empty brackets.
    - A group does not have exactly ``count`` numbers, or has something else than numbers.
    - A bracket does not close, since the text is then truncated.
    """
    if text.count("[") != text.count("]"):
        raise BadReply(f"the reply has brackets that do not close: {text.strip()[:80]!r}; close each bracket")
    if _EMPTY.fullmatch(text):
        return []
    groups = [list(filter(None, _APART.split(found))) for found in _GROUP.findall(text)]
    if not groups:
        raise BadReply(f"the reply has no {what}: {text.strip()[:80]!r}; follow the requested form")
    others = [found for found in _INNERMOST.findall(text) if found.strip() and not _NUMBERS.fullmatch(found)]
    if others:
        raise BadReply(f"the {what} {others[0][:80]!r} is not a list of {count} numbers")
    return [numbers_of(group, count, what) for group in groups]
