"""Lets Beam inspect each function of a DoFn once, while it wires and runs a pipeline in this process.

Beam reads the signatures of all methods of a DoFn, and the source code of ``process``, at least eight times for each
ParDo. That takes a quarter of the CPU time of a small run (0.4 s). The inspected functions do not change meanwhile, so
the results are remembered. Beam has no setting for this: this module replaces internal functions of Beam. Therefore
pyproject.toml pins Beam's version.
"""

import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from apache_beam.transforms import core, userstate

_Look = Callable[[Any], Any]


@contextmanager
def inspected_once() -> Iterator[None]:
    """Make Beam inspect each function and each DoFn only once while the body runs."""
    with ExitStack() as stack:
        stack.enter_context(_replaced(core, "get_function_args_defaults", _of_function))
        stack.enter_context(_replaced(core, "_get_function_body_without_inners", _of_function))
        stack.enter_context(_replaced(userstate, "get_dofn_specs", _of_object))
        yield


@contextmanager
def _replaced(module: Any, name: str, remembering: Callable[[_Look], _Look]) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, remembering(before))
    try:
        yield
    finally:
        setattr(module, name, before)


def _of_function(look: _Look) -> _Look:
    """Return a variant of ``look`` that inspects each method once for all objects of its class."""
    seen = weakref.WeakKeyDictionary[Any, Any]()

    def remembered(f: Any) -> Any:
        if not isinstance(f, types.MethodType) or not isinstance(f.__func__, types.FunctionType):
            return look(f)
        if f.__func__ not in seen:
            seen[f.__func__] = look(f)
        return _copied(seen[f.__func__])

    return remembered


def _of_object(look: _Look) -> _Look:
    """Return a variant of ``look`` that inspects each object once. A DoFn may be unhashable, so its id is the key."""
    seen = dict[int, tuple[Callable[[], Any], Any]]()

    def remembered(dofn: Any) -> Any:
        known, found = seen.get(id(dofn), (lambda: None, None))
        if known() is not dofn:
            found = look(dofn)
            seen[id(dofn)] = weakref.ref(dofn), found
        return _copied(found)

    return remembered


def _copied(found: Any) -> Any:
    """Return a result whose lists and sets the caller may change."""
    return tuple(part.copy() for part in found) if isinstance(found, tuple) else found
