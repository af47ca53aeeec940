"""Detects code that prints an answer which its author wrote into it.

A model that knows the answer can print it beside something that it really measures, as in ``print(mask.sum(),
"circles: 5")``. That output depends on the objects, so :mod:`groundtrace.rewards.pretence` does not detect it. Here the
code is changed instead of the image: each constant that is the answer becomes the next number. If the printed answer
follows, the code has it from its author.

This is not detected: an answer that is written in another way (``2 + 3``, ``"five"``), answers that are not whole
numbers, and 0 and 1 if they are not printed without the objects: nearly all code has these two as constants.
"""

import ast
import re
from collections.abc import Sequence

from groundtrace.rewards.pretence import Output, numbers_in

_WHOLE = re.compile(r"\d{1,9}")
_IN_MOST_CODE = 1
"""Answers up to this number are constants in most code, for instance as an index or a step."""


def with_next_number(code: str, answer: str) -> str:
    """Return the code with the next whole number in place of each constant that is the answer, also within texts.

    The code is returned as it is if the answer is not a whole number, or if the code cannot be parsed.
    """
    if not _WHOLE.fullmatch(answer):
        return code
    try:
        tree = ast.parse(code)
        changed = _NextNumber(int(answer))
        tree = changed.visit(tree)
        return ast.unparse(tree) if changed.count else code
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code


def is_told(answer: str, shown: Output, changed: Output, without: Sequence[Output]) -> bool:
    """Return whether the answer that a call printed follows the constant in its code.

    Args:
        answer: the answer of the trajectory, a whole number.
        shown: the output of the call.
        changed: its output when all code has the next number as this constant (:func:`with_next_number`).
        without: its outputs on the image without each group of objects.
    """
    number = int(answer)
    before, after = numbers_in(shown), numbers_in(changed)
    follows = number in before and number not in after and after.count(number + 1) > before.count(number + 1)
    return follows and (number > _IN_MOST_CODE or any(number in numbers_in(each) for each in without))


class _NextNumber(ast.NodeTransformer):
    """Replaces constants that are a number by the next number; ``count`` is how many were replaced."""

    def __init__(self, number: int) -> None:
        self.number, self.count = number, 0
        self._written = re.compile(rf"(?<![\w.]){number}(?![\w.])")

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        value = node.value
        if isinstance(value, str):
            value, found = self._written.subn(str(self.number + 1), value)
            self.count += found
        elif isinstance(value, int | float) and not isinstance(value, bool) and value == self.number:
            value += 1
            self.count += 1
        return ast.copy_location(ast.Constant(value), node)
