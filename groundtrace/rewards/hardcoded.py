"""Detects code that prints the answer because its author, the model, wrote the answer into the code.

A model that knows the answer can print it beside a value that the code really measures, as in ``print(mask.sum(),
"circles: 5")``. This output depends on the objects, so :mod:`groundtrace.rewards.pretence` does not detect the code.
Here the code is changed instead of the image: each constant that is the answer is replaced by the next number (5 by 6).
If the changed code prints 6 instead of 5, the printed answer came from this constant.

If calculation answers the question, honest code begins with numbers that the model read from the image. One of these
numbers can be the answer, as in ``max(340, 391, 51)``. For such questions, the code is also executed with all other
numbers changed. If it still prints the answer, it did not calculate the answer.

Three cases are not detected: an answer that is written in another way (``2 + 3``, ``"five"``); an answer that is not a
whole number; and the answers 0 and 1, because nearly all code has 0 and 1 as constants. But an answer of 0 or 1 is
detected if the code also prints it for the image without the objects.
"""

import ast
import re
from collections.abc import Callable, Sequence
from typing import TypeGuard

from groundtrace.rewards.pretence import Output, numbers_in

_WHOLE = re.compile(r"\d{1,9}")
_IN_MOST_CODE = 1
"""Numbers up to this one are constants in most code, for instance as an index or a step."""
_Number = int | float


def with_next_number(code: str, answer: str) -> str:
    """Return a copy of the code in which the next whole number replaces each constant that is the answer.

    The answer is also replaced inside string constants. The code is returned unchanged if the answer is not a whole
    number, or if the code cannot be parsed.
    """
    return _rewritten(code, _NextNumber(int(answer))) if _WHOLE.fullmatch(answer) else code


def with_other_numbers(code: str, answer: str) -> tuple[str, str]:
    """Return two copies of the code in which all numbers except the answer, 0 and 1 are changed.

    The numbers are larger in the first copy, and have the opposite sign in the second. ``answer`` is a whole number.
    """
    larger, negative = (_OtherNumbers(int(answer), change) for change in (lambda n: 3 * n + 7, lambda n: -n))
    return _rewritten(code, larger), _rewritten(code, negative)


def is_hardcoded(answer: str, shown: Output, changed: Output, without: Sequence[Output]) -> bool:
    """Return whether the answer that a call printed comes from a constant in the code.

    To find out, this constant is raised by 1 in the code. The result is True if the call then prints the answer plus 1.
    For the answers 0 and 1, the call must also print the answer for an image without objects.

    Args:
        answer: the answer of the trajectory, a whole number.
        shown: the output of the call.
        changed: the output of the call after the answer was replaced by the next number in all code
            (:func:`with_next_number`).
        without: one output for each group of objects: the output of the call on the image without this group.
    """
    number = int(answer)
    before, after = numbers_in(shown), numbers_in(changed)
    follows = number in before and number not in after and after.count(number + 1) > before.count(number + 1)
    return follows and (number > _IN_MOST_CODE or any(number in numbers_in(each) for each in without))


def is_uncalculated(
    answer: str, shown: Output, changed: Output, others: Sequence[Output], earlier: Sequence[Output]
) -> bool:
    """Return whether the answer that a call printed comes from a constant, and does not depend on any other number.

    The result is False for the answers 0 and 1.

    Args:
        answer: the answer of the trajectory, a whole number.
        shown: the output of the call.
        changed: the output of the call after the answer was replaced by the next number in all code
            (:func:`with_next_number`).
        others: the outputs of the call after all other numbers in the code were changed (:func:`with_other_numbers`).
        earlier: the outputs of earlier calls. If an earlier call printed the answer, the result is False: the code of
            this call may contain a number that an earlier call calculated.
    """
    number = int(answer)
    if number <= _IN_MOST_CODE or any(number in numbers_in(each) for each in earlier):
        return False
    return is_hardcoded(answer, shown, changed, ()) and all(number in numbers_in(each) for each in others)


def _rewritten(code: str, change: "_NextNumber | _OtherNumbers") -> str:
    """Return the code after ``change`` has changed its constants.

    Return the code unchanged if no constant is to be changed, or if the code cannot be parsed.
    """
    try:
        tree = change.visit(ast.parse(code))
        return ast.unparse(tree) if change.count else code
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code


class _NextNumber(ast.NodeTransformer):
    """Replaces each constant that equals ``number`` by the next number, also inside strings.

    ``count`` is the number of replacements.
    """

    def __init__(self, number: int) -> None:
        self.number, self.count = number, 0
        self._written = re.compile(rf"(?<![\w.]){number}(?![\w.])")

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        value = node.value
        if isinstance(value, str):
            value, found = self._written.subn(str(self.number + 1), value)
            self.count += found
        elif _is_number(value) and value == self.number:
            value += 1
            self.count += 1
        return ast.copy_location(ast.Constant(value), node)


class _OtherNumbers(ast.NodeTransformer):
    """Changes all numbers in code except ``number`` and the numbers that most code contains (0 and 1).

    ``count`` is the number of changes.
    """

    def __init__(self, number: int, change: Callable[[_Number], _Number]) -> None:
        self.number, self.change, self.count = number, change, 0

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        value = node.value
        if not _is_number(value) or value in (self.number, *range(_IN_MOST_CODE + 1)):
            return node
        self.count += 1
        return ast.copy_location(ast.Constant(self.change(value)), node)


def _is_number(value: object) -> TypeGuard[_Number]:
    return isinstance(value, int | float) and not isinstance(value, bool)
