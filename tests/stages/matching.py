"""Checks what leaves a pipeline in this process, as Beam's ``assert_that`` does, with one transform instead of eleven.

A pipeline over a few elements spends most of its time on its transforms, and the tests of stages run hundreds of them.
"""

import itertools
from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

_COLLECTED: dict[int, list[Any]] = {}
_NUMBERS = itertools.count()


class _Collect(beam.DoFn):
    """Keeps the elements under a number in this process: what Beam runs is a copy of the object."""

    def __init__(self, number: int) -> None:
        self._number = number

    def process(self, element: Any) -> None:
        _COLLECTED[self._number].append(element)


def assert_that(found: PCollection, matcher: Callable[[list[Any]], None], label: str = "found") -> None:
    """Give the elements to the matcher when the pipeline has run; an empty collection is matched, too."""
    number = next(_NUMBERS)
    collected = _COLLECTED[number] = []
    _ = found | f"Match {label} {number}" >> beam.ParDo(_Collect(number))
    run = found.pipeline.run

    def run_and_match(*arguments: Any, **options: Any) -> Any:
        try:
            result = run(*arguments, **options)
            result.wait_until_finish()
            matcher(collected)
        finally:
            del _COLLECTED[number]
        return result

    found.pipeline.run = run_and_match  # type: ignore[method-assign]
