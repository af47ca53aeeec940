"""Coordinates in brackets of any kind, as some families write them outside JSON."""

import re

from groundtrace.inference.grounding import BadReply, numbers_of

_GROUP = re.compile(r"[\[(<{]([-+\d.,\s]+)[\])>}]")
_APART = re.compile(r"[,\s]+")
_EMPTY = re.compile(r"\s*[\[({][\[\](){}\s]*")


def groups_of(text: str, count: int, what: str) -> list[list[float]]:
    """The innermost groups of numbers of a text, each of ``count``; none where its brackets are empty.

    Raises :class:`groundtrace.inference.grounding.BadReply` for a text without any, for a group of another length, and
    for one whose brackets do not close: it was cut short.
    """
    if text.count("[") != text.count("]"):
        raise BadReply(f"brackets that do not close in {text.strip()[:80]!r}")
    if _EMPTY.fullmatch(text):
        return []
    groups = [list(filter(None, _APART.split(found))) for found in _GROUP.findall(text)]
    if not groups:
        raise BadReply(f"no {what} in {text.strip()[:80]!r}")
    return [numbers_of(group, count, what) for group in groups]
