"""Detects code that prints the answer because the model wrote the answer into the code.

A model that knows the answer can print it together with a value that the code really measures, as in
``print(mask.sum(), "circles: 5")``. The value ``mask.sum()`` depends on the objects in the image. So
:mod:`groundtrace.rewards.pretence`, which changes the image, does not detect such code. This module changes the code
instead of the image: each constant that is the answer is replaced by the next number (5 by 6). If the changed code
prints 6 instead of 5, the printed answer came from this constant.

Some questions are answered by a calculation. The code for them honestly begins with numbers that the model read from
the image. One of these numbers can be the answer, as in ``max(340, 391, 51)``. For such questions, the code is also
executed with all other numbers changed. If it still prints the answer, it did not calculate the answer.

Three kinds of answers are not detected: an answer that is written in another way (``2 + 3``, ``"five"``); an answer
that is not a whole number; and the answers 0 and 1, because nearly all code has 0 and 1 as constants. There is one
exception: the answer 0 or 1 is detected if the code also prints it for the image without the objects.
"""

import ast
import re
from collections.abc import Callable, Sequence
from typing import TypeGuard

from groundtrace.rewards.pretence import Output, numbers_in

_WHOLE = re.compile(r"\d{1,9}")
_IN_MOST_CODE = 1
"""Numbers up to this one are constants in most code, for instance as an index or a step. So such a constant alone does
not show that the answer is hardcoded."""
_Number = int | float


def with_next_number(code: str, answer: str) -> str:
    """Return a copy of the code in which each constant that is the answer is replaced by the next whole number.

    For example, with the answer "5", ``print(5, "found 5")`` becomes ``print(6, 'found 6')``. The code is returned
    unchanged if the answer is not a whole number, or if the code cannot be parsed.

    ``code`` is Python source code, and ``answer`` is the final answer of the response.
    """
    return _rewritten(code, _NextNumber(int(answer))) if _WHOLE.fullmatch(answer) else code


def with_other_numbers(code: str, answer: str) -> tuple[str, str]:
    """Return two copies of the code in which all numbers except the answer, 0 and 1 are changed.

    In the first copy, each such number n is replaced by 3n + 7. In the second copy, it is replaced by -n.

    ``code`` is Python source code, and ``answer`` is the final answer of the response, a whole number such as "5".
    """
    larger, negative = (_OtherNumbers(int(answer), change) for change in (lambda n: 3 * n + 7, lambda n: -n))
    return _rewritten(code, larger), _rewritten(code, negative)


def is_hardcoded(answer: str, shown: Output, changed: Output, without: Sequence[Output]) -> bool:
    """Return whether the answer that a call printed comes from a constant in the code.

    A call is one execution of code in a response. For the test, a changed copy of the code was executed: in the copy,
    each constant that equals the answer is replaced by the answer plus 1. The result is True if the copy prints this
    next number instead of the answer. For the answers 0 and 1, there is one more condition: the original code also
    prints the answer for at least one image from which a group of the question's objects was removed.

    Args:
        answer: the final answer of the response, a whole number such as "5".
        shown: the output of the original code.
        changed: the output of the changed code (:func:`with_next_number`). The earlier calls are changed in the same
            way.
        without: the outputs of the original code on changed images: one output for each group of the question's
            objects, from the image without this group.
    """
    number = int(answer)
    before, after = numbers_in(shown), numbers_in(changed)
    follows = number in before and number not in after and after.count(number + 1) > before.count(number + 1)
    return follows and (number > _IN_MOST_CODE or any(number in numbers_in(each) for each in without))


def is_uncalculated(
    answer: str, shown: Output, changed: Output, others: Sequence[Output], earlier: Sequence[Output]
) -> bool:
    """Return whether the answer that a call printed is a constant in the code, and is not calculated.

    A call is one execution of code in a response. For the test, changed copies of the code were executed. The result is
    True if all of these conditions are true:

    - The answer is neither 0 nor 1.
    - No earlier call printed the answer. Otherwise the code may contain a number that an earlier call calculated.
    - The call printed the answer. If each constant that equals the answer is replaced by the answer plus 1, the code
      prints this next number instead (:func:`is_hardcoded`).
    - If all other numbers are changed, the code still prints the answer.

    Args:
        answer: the final answer of the response, a whole number such as "5".
        shown: the output of the original code.
        changed: the output of a changed copy of the code. In the copy, each constant that equals the answer is replaced
            by the answer plus 1 (:func:`with_next_number`). The earlier calls are changed in the same way.
        others: the outputs of copies of the code in which all other numbers are changed (:func:`with_other_numbers`).
        earlier: the outputs of the earlier calls.
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
    """Replaces ``number`` by the next number wherever it is a constant or is written inside a string constant.

    For example, if ``number`` is 5, ``print(5, "found 5")`` becomes ``print(6, 'found 6')``. ``count`` is the number of
    replacements.
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
    """Applies the function ``change`` to all numbers in code, except to ``number``, 0 and 1.

    0 and 1 are not changed because most code contains them. Numbers inside strings are not changed either. ``count`` is
    the number of changes.
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
