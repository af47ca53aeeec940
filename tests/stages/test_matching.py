"""A pipeline whose elements are not those expected fails, also where nothing leaves it."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import BeamAssertException, equal_to

from groundtrace.stages.plumbing.options import Options

from . import matching
from .matching import assert_that


def in_a_block(check: Callable[[beam.Pipeline], None]) -> None:
    with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        check(pipeline)


def by_hand(check: Callable[[beam.Pipeline], None]) -> None:
    pipeline = beam.Pipeline(FnApiRunner(), Options([]))
    check(pipeline)
    pipeline.run()


@pytest.mark.parametrize("run", [in_a_block, by_hand])
@pytest.mark.parametrize(
    ("left", "expected", "told"),
    [
        ([2, 1], [1, 2], ""),
        ([], [], ""),
        ([1], [], r"unexpected elements \[1\]"),
        ([], [1], r"missing elements \[1\]"),
        ([1, 1], [1], r"unexpected elements \[1\]"),
        ([{"a": 1}, "b"], ["b", {"a": 2}], r"missing elements \[{'a': 2}\]"),
    ],
)
def test_elements_are_compared(
    left: list[Any], expected: list[Any], told: str, run: Callable[[Callable[[beam.Pipeline], None]], None]
) -> None:
    def check(pipeline: beam.Pipeline) -> None:
        assert_that(pipeline | "Right" >> beam.Create([3]), equal_to([3]), "right")
        assert_that(pipeline | "Left" >> beam.Create(left), equal_to(expected), "left")

    if told:
        with pytest.raises(BeamAssertException, match=told):
            run(check)
    else:
        run(check)
    assert matching._COLLECTED == {}
