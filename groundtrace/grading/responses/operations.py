"""Finds the kinds of operations in a program, from its syntax tree (paper CodeDance, §3.2).

The paper names three kinds: image transforms (crop, resize, rotate, contrast), mathematical computation (measurement,
algebra, aggregation), and visual editing (drawing, annotation). It does not describe how to find the kinds of a
program. Here, the kinds of a program are those of the functions that it calls.

Arithmetic, ``len``, ``min`` and similar functions are a computation only if the program neither transforms nor draws,
because programs also use them to crop an image or to number boxes.
"""

import ast

TRANSFORM, COMPUTATION, DRAWING = "transform", "computation", "drawing"
OPERATIONS = (TRANSFORM, COMPUTATION, DRAWING)

_TRANSFORMS = """
    crop resize thumbnail reduce rotate transpose transform fit pad contain cover expand scale mirror flip invert
    autocontrast equalize posterize solarize grayscale enhance filter point quantize warpAffine warpPerspective
    equalizeHist createCLAHE GaussianBlur medianBlur bilateralFilter filter2D convertScaleAbs LUT rot90 flipud fliplr
    copyMakeBorder pyrUp pyrDown getRectSubPix addWeighted
"""
_DRAWINGS = """
    Draw rectangle rounded_rectangle line lines ellipse circle arc chord pieslice polygon polylines text
    multiline_text putText drawContours drawMarker arrowedLine fillPoly plot scatter annotate axhline axvline hlines
    vlines add_patch fill_between bar barh hist
"""
_COMPUTATIONS = """
    sum mean median std var min max argmin argmax round abs len sorted sqrt hypot pow log exp sin cos tan atan atan2
    dot norm solve simplify factor integrate diff unique bincount histogram count_nonzero countNonZero findContours
    connectedComponents connectedComponentsWithStats contourArea arcLength boundingRect minAreaRect approxPolyDP
    moments HoughCircles HoughLines HoughLinesP inRange threshold Canny fsum prod percentile polyfit corrcoef
"""
_CALLED = {
    kind: frozenset(names.split())
    for kind, names in ((TRANSFORM, _TRANSFORMS), (COMPUTATION, _COMPUTATIONS), (DRAWING, _DRAWINGS))
}
_PYTHONS = frozenset(("filter", "reduce", "point", "fit", "expand", "scale", "text", "line", "lines", "transform"))
"""Names that count as operations only in a call of a method, such as ``image.filter(…)``.

A function with one of these names is one of Python's own (``filter(…)``), or probably the program's own function.
"""
_PLAIN = frozenset(("len", "min", "max", "round", "abs"))
"""Python's built-in functions that are treated as arithmetic.

Arithmetic makes a program a computation only if the program neither transforms nor draws. A method with one of these
names (``mask.max()``) always makes the program a computation."""
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)

_LITERALS = (
    *(ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr, ast.FormattedValue),
    *(ast.UnaryOp, ast.unaryop, ast.Load),
)


def operations_of(code: str) -> tuple[str, ...]:
    """Return the kinds of operations that a Python program uses, in the order of :data:`OPERATIONS`.

    The result is empty if the code uses none of these kinds, or cannot be parsed. A slice of two dimensions of an array
    (``image[10:90, 20:60]``) is a crop, and so a transform.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    methods, functions = _called(tree)
    found = {kind for kind, names in _CALLED.items() if methods & names or functions & (names - _PYTHONS - _PLAIN)}
    if any(map(_is_crop, ast.walk(tree))):
        found.add(TRANSFORM)
    sums = any(isinstance(node, ast.BinOp) and _is_sum(node) for node in ast.walk(tree))
    if not found and (sums or functions & _PLAIN):
        found.add(COMPUTATION)
    return tuple(kind for kind in OPERATIONS if kind in found)


def _called(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Return the names of the methods and the names of the functions that a program calls, as two sets."""
    methods, functions = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            functions.add(node.func.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            is_of_tools = isinstance(owner, ast.Name) and owner.id in ("functools", "itertools")
            (functions if is_of_tools else methods).add(node.func.attr)
    return methods, functions


def _is_crop(node: ast.AST) -> bool:
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple) or isinstance(node.ctx, ast.Store):
        return False
    slices = [each for each in node.slice.elts if isinstance(each, ast.Slice)]
    return len(slices) >= 2 and all(each.lower is not None or each.upper is not None for each in slices[:2])


def _is_sum(node: ast.BinOp) -> bool:
    """Return whether an operation has an arithmetic operator, and neither of its operands is a string literal.

    For example, the result is False for ``"a" + name`` and ``"%d" % n``. Only the syntax is examined: the result is
    True for ``a + b``, even if both variables hold strings.
    """
    texts = (ast.JoinedStr,)
    return isinstance(node.op, _ARITHMETIC) and not any(
        isinstance(side, texts) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def shows_nothing_but_constants(code: str) -> bool:
    """Return whether a Python program only assigns or prints constants, such as ``print("5")``.

    Such a program computes nothing: its author already knew everything that it prints. It may also have comments and
    imports. The result is False if the program cannot be parsed.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_is_constant(statement) for statement in tree.body)


def _is_constant(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Pass | ast.Import | ast.ImportFrom):
        return True
    if not isinstance(statement, ast.Expr | ast.Assign):
        return False
    value = statement.value
    if isinstance(value, ast.Call):
        is_print = isinstance(value.func, ast.Name) and value.func.id == "print"
        return is_print and all(map(_is_literal, (*value.args, *(word.value for word in value.keywords))))
    return _is_literal(value)


def _is_literal(node: ast.expr) -> bool:
    """Return whether an expression has only constants and containers of constants.

    Constants may have a sign. Arithmetic is not allowed.
    """
    return all(isinstance(part, _LITERALS) for part in ast.walk(node))
