"""Work on threads: all results, in order, with the elements' timestamps; errors are raised in the DoFn."""

import os
import threading
import time
from collections.abc import Iterator

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.util import equal_to

from groundtrace.stages.plumbing import on_cores
from groundtrace.stages.plumbing.on_cores import AHEAD, OnAllCores

from ..matching import assert_that


class Doubled(OnAllCores):
    def work(self, element: int) -> tuple[int, str]:
        time.sleep(0.001 * (element % 3))
        if element < 0:
            raise ValueError("negative")
        return 2 * element, threading.current_thread().name

    def outputs(self, element: int, result: tuple[int, str]) -> Iterator[tuple[int, int]]:
        for copy in range(element % 2 + 1):
            yield 2 * element + copy, result[0]


@pytest.mark.parametrize("cores", [1, 2, 3, 64])
@pytest.mark.parametrize("count", [0, 1, 7, 200])
def test_every_element_has_its_outputs(cores: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_cores, "usable_cores", lambda: cores)
    expected = [(2 * number + copy, 2 * number) for number in range(count) for copy in range(number % 2 + 1)]
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        assert_that(pipeline | beam.Create(range(count)) | beam.ParDo(Doubled()), equal_to(expected))


def test_results_keep_the_order_and_the_timestamps_of_their_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_cores, "usable_cores", lambda: 3)
    done = Doubled()
    done.setup()
    done.start_bundle()
    found = [each for number in range(40) for each in done.process(number, "window", 100 + number)]
    assert len({each.value[0] // 2 for each in found}) == 40 - AHEAD * 3
    found += done.finish_bundle()
    done.teardown()
    assert [each.value[0] for each in found] == sorted(each.value[0] for each in found)
    assert all((each.timestamp, each.windows) == (100 + each.value[0] // 2, ("window",)) for each in found)


def test_a_system_without_affinities_has_all_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """As macOS."""
    assert 1 <= on_cores.usable_cores() <= (os.cpu_count() or 1)
    monkeypatch.delattr(os, "sched_getaffinity")
    assert on_cores.usable_cores() == os.cpu_count()


@pytest.mark.parametrize("cores", [1, 2])
def test_an_error_of_the_work_is_raised(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_cores, "usable_cores", lambda: cores)
    with pytest.raises(Exception, match="negative"), beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = pipeline | beam.Create([1, 2, -1, 3]) | beam.ParDo(Doubled())
