"""Running asynchronous work that calls models inside Beam: many elements in flight, results in any order.

A stage that calls models is a coroutine ``work(element, session)`` beside a small PTransform. :class:`CallModels`
starts it for each element on the process's model loop, keeps a bounded number in flight, and emits what is done
without waiting for the slowest; the rest is drained when the bundle ends.
"""

import concurrent.futures
import queue
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.windowed_value import WindowedValue

from inference.errors import BudgetUsedUp, CallError
from inference.flow.in_flight import count_for
from inference.grounding import BadReply
from inference.runtime import runtime
from inference.session import Session
from inference.settings import ModelsSettings
from schemas.reasons import Reason
from schemas.records import Call, Draft, Rejected
from stages.plumbing.metrics import count_call, count_in, count_kept, count_rejected, progress

REJECTED = "rejected"
FEWEST_IN_FLIGHT = 64

Work = Callable[[Any, Session], Awaitable[Any]]
"""What a stage does with one element. A :class:`schemas.records.Rejected` result goes to ``rejected``; a CallError or a
BadReply that it raises becomes one."""


class CallModels(beam.DoFn):
    """Run ``work`` for each element with at most ``in_flight`` at once.

    That is by default twice as many as the busiest endpoint takes requests, so that the next ones are ready when a
    slow call ends; how many requests are sent is for :class:`inference.flow.requests.Flow` to say.

    In: drafts (or elements with an ``id``). Out: results, or ``rejected``. A failed call and a reply of the wrong form
    become typed rejections; any other exception is a defect and fails the run.
    """

    def __init__(self, stage: str, work: Work, models: ModelsSettings, in_flight: int = 0) -> None:
        self._stage, self._work, self._settings = stage, work, models
        most = max((endpoint.max_concurrency for _, endpoint in models.endpoints), default=1)
        self._limit = in_flight or max(FEWEST_IN_FLIGHT, 2 * most)
        self._pending: dict[concurrent.futures.Future[tuple[Any, Session]], tuple[Any, Any]] = {}

    def start_bundle(self) -> None:
        """Forget what an aborted bundle left behind."""
        self._pending = {}
        self._done: queue.SimpleQueue[concurrent.futures.Future[tuple[Any, Session]]] = queue.SimpleQueue()

    def process(
        self, element: Any, window: Any = beam.DoFn.WindowParam, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        """Start the element; emit what is done by the time that there is room for it."""
        count_in(self._stage)
        session = Session(runtime().models(self._settings))
        future = runtime().submit(_run(self._work, element, session, self._stage))
        self._pending[future] = (window, timestamp)
        future.add_done_callback(self._done.put)
        while len(self._pending) >= self._limit or not self._done.empty():
            yield self._emit(self._done.get())

    def finish_bundle(self) -> Iterator[Any]:
        """Emit the rest as it completes."""
        while self._pending:
            yield self._emit(self._done.get())

    def _emit(self, finished: "concurrent.futures.Future[tuple[Any, Session]]") -> Any:
        """Count the finished element; give its result under the window and timestamp that it came with."""
        window, timestamp = self._pending.pop(finished)
        result, session = finished.result()
        for call in session.calls:
            count_call(self._stage, call)
        value = WindowedValue(result, timestamp, (window,))
        if isinstance(result, Rejected):
            count_rejected(result)
            return TaggedOutput(REJECTED, value)
        count_kept(self._stage)
        return value


async def _run(work: Work, element: Any, session: Session, stage: str) -> tuple[Any, Session]:
    count_for(progress(stage))
    try:
        return await work(element, session), session
    except CallError as error:
        return _rejection(element, session, stage, Reason.CALL_FAILED, str(error), error.key), session
    except BudgetUsedUp as error:
        return _rejection(element, session, stage, Reason.BUDGET, str(error), None), session
    except BadReply as error:
        key = error.key or (session.calls[-1].keys[0] if session.calls else None)
        return _rejection(element, session, stage, Reason.UNPARSABLE_REPLY, str(error), key), session


def _rejection(element: Any, session: Session, stage: str, reason: Reason, detail: str, key: str | None) -> Rejected:
    before = element.calls if isinstance(element, Draft) else ()
    return _rejected(element.id, stage, reason, detail, key, (*before, *session.calls))


def _rejected(
    record_id: str, stage: str, reason: Reason, detail: str, key: str | None, calls: Sequence[Call]
) -> Rejected:
    cost_usd, worth_usd = sum(call.usage.cost_usd for call in calls), sum(call.usage.worth_usd for call in calls)
    return Rejected(record_id, stage, reason.value, detail, key, cost_usd, len(calls), worth_usd)


def with_calls(draft: Draft, session: Session, **changes: Any) -> Draft:
    """The draft with ``changes`` and the session's calls added to its own."""
    return replace(draft, calls=draft.calls + tuple(session.calls), **changes)


def reject(
    draft: Draft, stage: str, reason: Reason, detail: str, calls: Sequence[Call] = (), key: str | None = None
) -> Rejected:
    """A rejection of the draft that carries what it has cost, these last calls included."""
    return _rejected(draft.id, stage, reason, detail, key, (*draft.calls, *calls))


def split(elements: Any, name: str, do: beam.DoFn, kept: Any = Draft, **tags: Any) -> Any:
    """Apply ``do`` under a name: its main output is ``kept``, beside ``rejected`` and the further tags.

    The element types are declared, so that records cross shuffles as rows and not as pickles.
    """
    types = {REJECTED: Rejected, **tags}
    outputs: Any = elements | name >> beam.ParDo(do).with_output_types(kept).with_outputs(*types, main="kept")
    for tag, element_type in types.items():
        outputs[tag].element_type = element_type
    return outputs


class MapDrafts(beam.DoFn):
    """Run a plain function for each element; a :class:`schemas.records.Rejected` result goes to ``rejected``."""

    def __init__(self, stage: str, work: Callable[[Any], Any]) -> None:
        self._stage, self._work = stage, work

    def process(self, element: Any) -> Iterator[Any]:
        """Emit the result."""
        count_in(self._stage)
        result = self._work(element)
        if isinstance(result, Rejected):
            count_rejected(result)
            yield TaggedOutput(REJECTED, result)
        else:
            count_kept(self._stage)
            yield result
