"""Makes Beam inspect the functions of each DoFn only once, which saves time if a pipeline runs on this machine.

A DoFn is Beam's class for a step of a pipeline. Beam reads the signatures of all methods of a DoFn, and the source code
of its method ``process``, at least eight times for each step. In a small run, that takes 0.4 s, a quarter of the run's
CPU time. The inspected functions do not change during a run, so this module caches the results. For Beam's function
``get_dofn_specs``, this module caches one result per class, because the objects of a class have the same result
(:func:`_of_class` describes the exception).

Two further kinds of results are cached: the type hints that Beam makes from annotations, and the results of bz2. Beam
compresses each pickled object with bz2, and compresses and decompresses many objects several times.

Beam has no setting for such caches, so this module replaces internal functions of Beam. Therefore pyproject.toml pins
Beam's version.
"""

import functools
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from apache_beam.internal import cloudpickle_pickler
from apache_beam.transforms import core, userstate
from apache_beam.typehints.decorators import IOTypeHints

MAX_CACHED, MAX_CACHED_BYTES = 1024, 32_768
"""The maximum number of pickled objects whose compressed form is cached, and the maximum size of one. A job has a few
hundred objects of some kilobytes each.
"""
_Look = Callable[[Any], Any]


@contextmanager
def inspected_once() -> Iterator[None]:
    """Make Beam inspect each function only once, while the body of the ``with`` statement runs. This saves time.

    Beam inspects functions, and the classes of a pipeline's steps (DoFn), for signatures and type hints. Its inspecting
    functions are replaced by variants that cache their results, and are restored afterwards.
    """
    with ExitStack() as stack:
        stack.enter_context(_replaced(core, "get_function_args_defaults", _of_function))
        stack.enter_context(_replaced(core, "_get_function_body_without_inners", _of_function))
        stack.enter_context(_replaced(userstate, "get_dofn_specs", _of_class))
        stack.enter_context(_replaced(IOTypeHints, "from_callable", _of_annotations))
        stack.enter_context(_replaced(cloudpickle_pickler, "bz2", _of_bytes))
        yield


@contextmanager
def _replaced(module: Any, name: str, remembering: Callable[[Any], Any]) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, remembering(before))
    try:
        yield
    finally:
        setattr(module, name, before)


def _of_function(look: _Look) -> _Look:
    """Return a variant of ``look`` that inspects each method only once, and caches the result.

    ``look`` is a function of Beam that reads the signature or the source code of its argument, a function or a method.
    All objects of a class share the cached results for the methods of this class. Results for functions that are not
    methods are not cached.
    """
    seen = weakref.WeakKeyDictionary[Any, Any]()

    def remembered(f: Any) -> Any:
        if not isinstance(f, types.MethodType) or not isinstance(f.__func__, types.FunctionType):
            return look(f)
        if f.__func__ not in seen:
            seen[f.__func__] = look(f)
        return _copied(seen[f.__func__])

    return remembered


def _of_class(look: _Look) -> _Look:
    """Return a variant of ``look`` that inspects only one DoFn of each class, and caches the result.

    ``look`` is Beam's function ``get_dofn_specs``, which reads the states and timers of a DoFn from the signatures of
    its methods. So all DoFns of a class have the same result. There is one exception: a DoFn with a method among its
    attributes, such as the DoFn that ``beam.Map`` makes of a method. Such a DoFn is inspected each time.
    """
    seen = weakref.WeakKeyDictionary[type, Any]()

    def remembered(dofn: Any) -> Any:
        if any(isinstance(each, types.MethodType) for each in vars(dofn).values()):
            return look(dofn)
        kind = type(dofn)
        if kind not in seen:
            seen[kind] = look(dofn)
        return _copied(seen[kind])

    return remembered


def _of_annotations(look: _Look) -> _Look:
    """Return a variant of ``look`` that reads the annotations of each function once, and caches the type hints.

    ``look`` is ``IOTypeHints.from_callable``: Beam's function that makes type hints of a function's annotations. A
    bound method and its function have separate cache entries, because only the hints of the function include ``self``.
    """
    functions, methods = weakref.WeakKeyDictionary[Any, Any](), weakref.WeakKeyDictionary[Any, Any]()

    def remembered(f: Any) -> Any:
        seen, key = (methods, f.__func__) if isinstance(f, types.MethodType) else (functions, f)
        if not isinstance(key, types.FunctionType):
            return look(f)
        if key not in seen:
            seen[key] = look(f)
        hints = seen[key]
        if hints is None:
            return None
        (taken, named), (given, tagged) = hints.input_types, hints.output_types
        return IOTypeHints((taken, named.copy()), (given, tagged.copy()), hints.origin.copy())

    return remembered


def _of_bytes(bz2: Any) -> types.SimpleNamespace:
    """Return a replacement for the module ``bz2``: variants of the two functions that Beam calls, with a cache.

    A result is not cached if the data that the function gets have more than :data:`MAX_CACHED_BYTES` bytes.
    """

    def cached(convert: Any) -> Any:
        remembered = functools.lru_cache(MAX_CACHED)(convert)
        return lambda data, **how: (remembered if len(data) <= MAX_CACHED_BYTES else convert)(data, **how)

    return types.SimpleNamespace(compress=cached(bz2.compress), decompress=cached(bz2.decompress))


def _copied(found: Any) -> Any:
    """Return a copy of the cached result ``found``, so that the caller may change the lists and sets in the copy."""
    return tuple(part.copy() for part in found) if isinstance(found, tuple) else found
