"""Runs CPU-bound work of a Beam pipeline on all cores, by threads.

The work must release Python's global lock (GIL), as decoding an image does. Beam's local runner passes the elements of
a bundle to a stage one by one. :class:`OnAllCores` lets several threads work on the next few elements at the same time,
and emits the results in the order of the elements.
"""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import apache_beam as beam
from apache_beam.utils.windowed_value import WindowedValue

MAX_THREADS: Final = 8
"""The maximum number of threads.

It also limits the use of RAM: an image of 100 megapixels takes 300 MB while it is decoded.
"""
AHEAD: Final = 4
"""The number of elements for each thread that are in progress or wait for a thread.

A thread that becomes free starts a waiting element, so that no thread is idle.
"""


def usable_cores() -> int:
    """Return the number of CPU cores that this process may use. On macOS, it is the number of all cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class OnAllCores(beam.DoFn):
    """Base class of a Beam DoFn that works on several elements at the same time, each on one of its threads.

    A subclass defines two methods. :meth:`work` computes a result for one element, on a thread. :meth:`outputs` then
    makes the outputs from this result, in the DoFn's own thread. Beam cannot infer the type of the outputs, and it
    pickles outputs of unknown type. So declare the type by ``with_output_types``. An exception that :meth:`work` raises
    on a thread is raised again in the DoFn. With one core, the work runs in the DoFn's own thread.
    """

    def work(self, element: Any) -> Any:
        """Return the result for one element. The method runs on several threads at the same time, and cannot use Beam's
        metrics.
        """
        raise NotImplementedError

    def outputs(self, element: Any, result: Any) -> Iterator[Any]:
        """Yield the outputs for one element. ``result`` is the value that :meth:`work` returned for it."""
        raise NotImplementedError

    def setup(self) -> None:
        """Start one thread for each usable core, but not more than a maximum number. With one core, no thread is
        started. Beam calls this method before the first bundle (unit of work).
        """
        threads = min(usable_cores(), MAX_THREADS)
        self._most = AHEAD * threads if threads > 1 else 0
        self._pool = ThreadPoolExecutor(threads, type(self).__name__) if threads > 1 else None

    def start_bundle(self) -> None:
        """Discard the elements of an aborted bundle (Beam's unit of work, which may be started again)."""
        self._ahead: deque[tuple[Any, Any, Any, Future[Any]]] = deque()

    def process(
        self, element: Any, window: Any = beam.DoFn.WindowParam, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        """Start the work on the element in a thread.

        At most :data:`AHEAD` elements for each thread may be unfinished, i.e. their outputs are not yet emitted. If
        this element exceeds the maximum, the method waits for the oldest unfinished element, and emits its outputs.
        With one core, there is no thread: the method does the work itself, and emits the outputs immediately.

        The outputs of the element get the ``window`` and the ``timestamp`` that Beam gave to the element.
        """
        if self._pool is None:
            yield from self.outputs(element, self.work(element))
            return
        self._ahead.append((element, window, timestamp, self._pool.submit(self.work, element)))
        if len(self._ahead) > self._most:
            yield from self._first()

    def finish_bundle(self) -> Iterator[Any]:
        """Wait for the elements of the bundle (Beam's unit of work) that threads still process, and emit their outputs
        in order.
        """
        while self._ahead:
            yield from self._first()

    def teardown(self) -> None:
        """Stop the threads that :meth:`setup` has started. Beam calls this method after the last bundle of elements."""
        if self._pool is not None:
            self._pool.shutdown()

    def _first(self) -> Iterator[WindowedValue]:
        element, window, timestamp, future = self._ahead.popleft()
        for output in self.outputs(element, future.result()):
            yield WindowedValue(output, timestamp, (window,))
