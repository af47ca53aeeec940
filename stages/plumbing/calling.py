"""Runs the coroutines of those stages that call models, as steps of a Beam pipeline.

Many elements are processed at the same time, and their results come in any order.

A stage that calls models consists of a coroutine function ``work(draft, session)`` and a small subclass of
:class:`CallingStage`. A draft is a question with its data, and the session makes the calls. :class:`CallModels` runs
this function for each element on the event loop of the process. :class:`CallModels` works on a bounded number of
elements at the same time. It emits each result as soon as the result is finished, without waiting for the slowest call.
At the end of the bundle (Beam's unit of work), it emits the remaining results.
"""

import concurrent.futures
import queue
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam.pvalue import PCollection, TaggedOutput
from apache_beam.utils.windowed_value import WindowedValue

from groundtrace.inference.errors import BudgetUsedUp, CallError
from groundtrace.inference.flow.in_flight import count_for
from groundtrace.inference.role_calls import BadReply, TruncatedReply
from groundtrace.inference.runtime import runtime
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.errors import naming_record
from groundtrace.schemas.records import Call, Draft, Rejected
from groundtrace.stages.plumbing.ends import SideCalls
from groundtrace.stages.plumbing.metrics import count_call, count_in, count_kept, count_rejected, progress
from groundtrace.stages.plumbing.spreading import SpreadDrafts
from groundtrace.stages.plumbing.stage import (
    BUDGET,
    CALL_FAILED,
    REJECTED,
    SIDE_CALLS,
    TRUNCATED,
    UNPARSABLE_REPLY,
    DraftStage,
    Reject,
    Route,
    Stage,
    apply,
    check_result,
    passing,
    setting_columns,
)

MIN_IN_FLIGHT = 64

Work = Callable[[Any, Session], Awaitable[Any]]
"""The type of a stage's work on one element: a coroutine function of the element and the session that makes the calls.

If the function raises :class:`groundtrace.stages.plumbing.stage.Reject`, CallError or BadReply, the element is
rejected. If the function returns a draft, the session's calls are added to the draft.
"""


class CallModels(beam.DoFn):
    """Runs the coroutine function ``work``, which calls models, for each element of a collection. At most ``in_flight``
    elements are processed at the same time.

    The inputs are drafts (questions with their data), or other elements with an ``id``. ``stage`` is the description of
    the stage (step of the pipeline), and ``models`` holds the settings of the run's models. The outputs are the results
    and the rejections (``rejected``). A failed call, a used-up budget and a reply of the wrong form become rejections.
    Any other exception is a defect of the code and fails the run.

    If ``in_flight`` is 0, the limit is the larger of :data:`MIN_IN_FLIGHT` and twice the largest ``max_concurrency`` of
    the endpoints. The limit is so large because further elements must be ready to send their requests when a slow call
    ends. More elements do not mean more simultaneous requests: :class:`groundtrace.inference.flow.requests.Flow` limits
    the requests of each endpoint.
    """

    def __init__(self, stage: Stage, work: Work, models: ModelsSettings, in_flight: int = 0) -> None:
        self.stage, self._work, self._settings = stage.asking(models), work, models
        most = max((endpoint.max_concurrency for _, endpoint in models.endpoints), default=1)
        self._limit = in_flight or max(MIN_IN_FLIGHT, 2 * most)
        self._pending: dict[concurrent.futures.Future[tuple[str, Any, Session]], tuple[Any, Any]] = {}

    def start_bundle(self) -> None:
        """Discard the elements of an aborted bundle (Beam's unit of work, which may be started again)."""
        self._pending, self._asked = {}, False
        self._done: queue.SimpleQueue[concurrent.futures.Future[tuple[str, Any, Session]]] = queue.SimpleQueue()

    def process(
        self, element: Any, window: Any = beam.DoFn.WindowParam, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        """Start the coroutine function of the stage (step of the pipeline) for one element, and emit the results that
        are finished by now.

        If the limit of simultaneous elements is reached, wait until one of them is finished. The result of the element
        gets the ``window`` and the ``timestamp`` that Beam gave to the element.
        """
        count_in(self.stage.name)
        session = Session(runtime().models(self._settings))
        self._asked = True
        future = runtime().submit(_run(self._work, element, session, self.stage))
        self._pending[future] = (window, timestamp)
        future.add_done_callback(self._done.put)
        while len(self._pending) >= self._limit or not self._done.empty():
            yield from self._emit(self._done.get())

    def finish_bundle(self) -> Iterator[Any]:
        """Emit the remaining results of the bundle (Beam's unit of work) as they are finished.

        For each request to a model, this process writes a note with the tokens and the cost to a file. The method then
        waits until the run's other processes can read the notes of this bundle.
        """
        while self._pending:
            yield from self._emit(self._done.get())
        if self._asked:
            runtime().models(self._settings).flush_notes()

    def _emit(self, finished: "concurrent.futures.Future[tuple[str, Any, Session]]") -> Iterator[Any]:
        """Count an element whose work is finished, and emit its result with the window and timestamp of the element."""
        window, timestamp = self._pending.pop(finished)
        element_id, result, session = finished.result()
        for call in session.calls:
            _check_declared(self.stage, call)
            count_call(self.stage.name, call)
        if self.stage.is_sample:
            reason = result.reason if isinstance(result, Rejected) else ""
            side = SideCalls(element_id, self.stage.name, reason, tuple(session.calls))
            yield TaggedOutput(SIDE_CALLS, WindowedValue(side, timestamp, (window,)))
        if isinstance(result, Rejected):
            count_rejected(result)
            yield TaggedOutput(REJECTED, WindowedValue(result, timestamp, (window,)))
            return
        count_kept(self.stage.name)
        if isinstance(result, Route):
            yield TaggedOutput(result.output, WindowedValue(result.draft, timestamp, (window,)))
        else:
            yield WindowedValue(result, timestamp, (window,))


def _check_declared(stage: Stage, call: Call) -> None:
    """Raise ValueError if a stage sent a prompt to a model role (such as judge), but its description does not list this
    prompt for this role.

    ``call`` is the call with the prompt. The field ``asks`` of the description ``stage`` lists the prompts by role. The
    data card and ``beam validate`` show only the prompts in this field, and so would omit this prompt.
    """
    prompt = call.prompt.partition("+")[0]
    if not any(ask.role == call.role and prompt in ask.prompts for ask in stage.asks):
        raise ValueError(
            f"the stage {stage.name} sends the prompt {prompt} to the {call.role}, but does not declare this prompt: "
            "add it to `asks` in the description of the stage"
        )


async def _run(work: Work, element: Any, session: Session, stage: Stage) -> tuple[str, Any, Session]:
    count_for(progress(stage.name))
    try:
        with setting_columns(stage), naming_record(element.id):
            result = await work(element, session)
        check_result(stage, element, result)
        return element.id, _passed(stage, result, session), session
    except Reject as error:
        why = error
    except CallError as error:
        why = Reject(CALL_FAILED, str(error), error.key)
    except BudgetUsedUp as error:
        why = Reject(BUDGET, str(error))
    except BadReply as error:
        reason = TRUNCATED if isinstance(error, TruncatedReply) else UNPARSABLE_REPLY
        why = Reject(reason, str(error), error.key or (session.calls[-1].keys[0] if session.calls else None))
    ended, before = (element, element.calls) if isinstance(element, Draft) else (element.id, ())
    return element.id, stage.rejected(ended, why, (*before, *session.calls)), session


def _passed(stage: Stage, result: Any, session: Session) -> Any:
    """Add the session's calls and the name of the stage to the result of the stage, if the result holds a draft.

    A draft is a question with its data. It has a list of its calls, and a list of the stages that it has passed. The
    function returns the changed result. A :class:`Route` (a draft with the name of the output for it) is changed in the
    same way. Any other result is returned unchanged.
    """
    if isinstance(result, Route):
        return replace(result, draft=_passed(stage, result.draft, session))
    if not isinstance(result, Draft):
        return result
    return passing(stage, replace(result, calls=result.calls + tuple(session.calls)))


def call_models(
    elements: Any, name: str, stage: Stage, work: Work, models: ModelsSettings, kept: Any = Draft, **tags: Any
) -> Any:
    """Apply :class:`CallModels` as the Beam step ``name``, and return its outputs.

    ``elements`` is the collection of inputs, and ``work`` is the coroutine function that is run on each of them.
    ``stage`` is the description of the stage, and ``models`` holds the settings of the run's models. The argument
    ``kept`` is the type of the results. ``tags`` maps the names of further outputs to the types of their elements. The
    outputs are ``kept`` (the results), ``rejected`` (the rejections), and one output for each name in ``tags``.

    A sample stage reads some of the records and passes none on. So its calls to models cannot be stored in a record.
    If ``stage`` is a sample stage, this function adds the output ``side_calls``, which has these calls as
    :class:`groundtrace.stages.plumbing.ends.SideCalls`. The stage's method ``expand`` must return ``side_calls``, too.
    """
    if stage.is_sample:
        tags[SIDE_CALLS] = SideCalls
    return apply(elements, name, CallModels(stage, work, models), kept=kept, **tags)


class CallingStage(DraftStage):
    """Base class of the stages (steps of a pipeline) that call models.

    A subclass is a dataclass. Its fields are its settings and ``models``, which holds the settings of the run's models.
    Its method :meth:`work` returns a coroutine function with two arguments: a draft (a question with its data), and the
    session that makes the calls. If ``spread`` is True, the drafts are redistributed over the workers before the calls.
    It may be False if the stage before this one also calls models: that stage has already redistributed the drafts.
    """

    spread: ClassVar[bool] = True
    models: ModelsSettings

    def work(self) -> Work:  # type: ignore[override]
        """Return the coroutine function that is run on each draft (a question with its data). Its arguments are the
        draft, and the session that makes the calls for it.
        """
        raise NotImplementedError

    def expand(self, drafts: PCollection) -> Any:
        """Run the coroutine function of :meth:`work` on each draft (a question with its data), and return the outputs.

        ``drafts`` is the collection of the drafts. The outputs are ``kept`` (drafts that pass), ``rejected``
        (rejections), and one for each name in the class variable ``routes``, e.g. ``general``. To send a draft to such
        an output, the coroutine function returns a :class:`Route`.
        """
        elements = drafts | SpreadDrafts() if self.spread else drafts
        return call_models(elements, "Call", self.stage, self.work(), self.models, **dict.fromkeys(self.routes, Draft))
