"""Finds boxed answers: LaTeX's ``\\boxed{…}`` (with nested braces), ``<boxed>`` and GLM's ``<|begin_of_box|>``."""

import itertools
import re
from collections.abc import Iterator

_BRACES = re.compile(r"\\{1,2}boxed\s*\{|\\.|\{|\}", re.DOTALL)
_GLM_BEGIN, _GLM_END = "<|begin_of_box|>", "<|end_of_box|>"
_BOXED_BEGIN, _BOXED_END = "<boxed>", "</boxed>"
_BOX_MARK = re.compile(r"<\|(?:begin|end)_of_box\|>|</?boxed>")


def last_boxed(text: str) -> str | None:
    """Return the content of the last complete boxed answer in a text, such as "5" for ``\\boxed{5}``.

    Returns None if the text has no complete boxed answer. GLM's tokens are searched for first, then ``\\boxed{…}``,
    then ``<boxed>``. If the text between GLM's tokens contains ``\\boxed``, the last ``\\boxed`` in it is read. If the
    content of a ``\\boxed`` is only another ``\\boxed``, the inner one is read. Spaces around the content are removed.
    The function takes time linear in ``len(text)``.
    """
    within = _last_between(text, _GLM_BEGIN, _GLM_END)
    boxed = _last_latex_box(text if within is None else within)
    if boxed is not None:
        return boxed
    return within if within is not None else _last_between(text, _BOXED_BEGIN, _BOXED_END)


def _last_between(text: str, begin: str, end: str) -> str | None:
    """Return the trimmed text between the last ``end`` and the last ``begin`` before it; None without such a pair."""
    stop = text.rfind(end)
    start = text.rfind(begin, 0, stop) if stop >= 0 else -1
    return text[start + len(begin) : stop].strip() if start >= 0 else None


def _last_latex_box(text: str) -> str | None:
    """Return the trimmed content of the ``\\boxed`` that closes last; None if no ``\\boxed`` is complete.

    If the whole content of this ``\\boxed`` is another ``\\boxed``, the content of the innermost one is returned.
    """
    closed = _latex_boxes(text)
    if not closed:
        return None
    _, inner, inner_end, _ = closed.pop()
    while closed:
        start, deeper, deeper_end, end = closed.pop()
        if start < inner or text[inner:start].strip() or text[end:inner_end].strip():
            break
        inner, inner_end = deeper, deeper_end
    return text[inner:inner_end].strip()


def _latex_boxes(text: str) -> list[tuple[int, int, int, int]]:
    """Return the complete LaTeX boxes, in the order in which they close.

    Each box has four offsets: its start, the start and the end of its content, and its end.
    """
    closed: list[tuple[int, int, int, int]] = []
    stack: list[tuple[bool, int, int]] = []
    for mark in _BRACES.finditer(text):
        token = mark.group()
        if token == "}":
            if stack:
                is_box, start, inner = stack.pop()
                if is_box:
                    closed.append((start, inner, mark.start(), mark.end()))
        elif token.endswith("{") and token != "\\{":
            stack.append((token != "{", mark.start(), mark.end()))
    return closed


def all_boxed(text: str) -> tuple[str, ...]:
    """Return the contents of all complete boxed answers of a text, in order.

    If a boxed answer contains another boxed answer, only the inner one is returned. The forms are ``\\boxed{…}``,
    ``<boxed>`` and GLM's tokens ``<|begin_of_box|>…<|end_of_box|>``. The function takes time linear in ``len(text)``,
    except for a sort.
    """
    found = sorted([*_latex_boxes(text), *_marked_boxes(text)])
    inside = itertools.pairwise(found)
    outer = {box for box, after in inside if box[1] <= after[0] and after[3] <= box[2]}
    return tuple(text[box[1] : box[2]].strip() for box in found if box not in outer)


def _marked_boxes(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield the complete answer boxes that are written with GLM's tokens or with ``<boxed>``.

    Each box has four offsets, as in :func:`_latex_boxes`: its start, the start and the end of its content, and its end.
    A closing mark belongs to the last opening mark of the same kind before it.
    """
    opened: dict[str, re.Match[str]] = {}
    for mark in _BOX_MARK.finditer(text):
        if mark.group() in (_GLM_BEGIN, _BOXED_BEGIN):
            opened[mark.group()] = mark
            continue
        begin = opened.pop(_GLM_BEGIN if mark.group() == _GLM_END else _BOXED_BEGIN, None)
        if begin is not None:
            yield begin.start(), begin.end(), mark.start(), mark.end()
