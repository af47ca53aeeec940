"""Defines a stage, i.e. a step of a pipeline: its description, and the Beam transform that runs the stage's function on
each draft.

A draft is a question on its way through the pipeline, with the data that stages have added to it. A stage has four
parts: a function of one draft, settings, a description (:class:`Stage`), and a small class that joins these three. The
function returns the draft with its additions or raises :class:`Reject`. The class is derived from :class:`DraftStage`.
If the function calls models, the class is derived from :class:`groundtrace.stages.plumbing.calling.CallingStage`
instead.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from inspect import get_annotations
from typing import Any, ClassVar, Self

import apache_beam as beam
from apache_beam.pvalue import PCollection, TaggedOutput

from groundtrace.inference.role_calls import Asks
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.columns import Column, ColumnError
from groundtrace.schemas.errors import UserError, naming_record
from groundtrace.schemas.records import Call, Draft, Rejected
from groundtrace.stages.plumbing import packing  # noqa: F401 (records cross the shuffles of every pipeline packed)
from groundtrace.stages.plumbing.metrics import count_in, count_kept, count_rejected

REJECTED = "rejected"
READ = "read"
"""The name of an output of the stage that reads the input: it holds the number and the id of each record."""
SIDE_CALLS = "side_calls"
"""The name of the output that holds the model calls of a sample stage, a stage that reads some records and passes none
on (:class:`groundtrace.stages.plumbing.ends.SideCalls`).
"""
CALL_FAILED, UNPARSABLE_REPLY, BUDGET = "call_failed", "unparsable_reply", "budget"
TRUNCATED = "truncated"
CALL_REASONS = {
    CALL_FAILED: "a model call failed for good",
    UNPARSABLE_REPLY: "a model's reply does not have the form that was asked for",
    TRUNCATED: "what a model wrote was cut off at a limit of tokens",
    BUDGET: "the budget ended first",
}
"""The reasons, with their meanings, for which every stage that calls models may reject. A stage adds its own
reasons.
"""


class Reject(Exception):
    """Raised by the function of a stage (step of the pipeline) to reject a draft (a question with its data), for one of
    the reasons in its description.

    ``reason`` is the code of the reason, e.g. "too_easy". ``detail`` states what was wrong. ``key`` is the cache key of
    the model reply that led to the decision; None if there is no such reply. ``draft`` is the draft with everything
    that the function added before the rejection; None if it added nothing. ``scorer`` is the name of the scorer (code
    that checks a response) whose verdict (result) led to the decision; None if no verdict led to it.
    """

    def __init__(
        self, reason: str, detail: str, key: str | None = None, draft: Draft | None = None, scorer: str | None = None
    ) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail, self.key, self.draft, self.scorer = reason, detail, key, draft, scorer


@dataclass(frozen=True)
class Stage:
    """Describes a stage (a step of a pipeline), for the validation of a recipe and for the forecast, data card and
    report of a run. It is also used for the run's funnel, i.e. the numbers of records left after each stage.

    Attributes:
        name: the stage's name in ``rejected/``, the ledger (calls and costs) and the funnel.
        does: what the stage does, in one sentence for the data card.
        reasons: its reasons to reject, each with its meaning. The reasons of failed calls are added automatically.
        asks: the model roles that it calls, such as teacher or judge, with the prompts.
        settings: the class of its settings, which identifies its section of a config; None if it has no settings.
        max_calls: for a sample stage, a function of its settings that returns its maximum number of calls in a run.
            This number does not depend on the size of the input. (A sample stage reads some of the records and passes
            none on.) ``max_calls`` is None for all other stages.
        max_kept: for a stage that selects a limited number of records and keeps them, a function of its settings that
            returns this number. ``max_kept`` is None for all other stages. Later stages make calls only for the
            selected records, so the number also limits these calls.
        joins: whether the stage's input differs from the records that the previous stage keeps. For example, the
            stage may read the records of several stages together.
        for_target: whether the stage has an effect only in a run that has to make an exact number of SFT rows.
        adds: the columns that it adds to the rows with ``draft.with_added``.
        failures: the reasons which mean that the stage could not do its work. If many records are rejected for these
            reasons, the run fails.
        executes: whether it executes model-written code, so that its workers need the sandbox.
        floors: the minimum scores, by the name of the scorer (code that checks one property of a response). The stage
            rejects a response with a lower score. The name "final" is for the score of the whole response.
        unchecked: a function that describes, in one sentence, the checks that the stage left out. Its arguments are the
            stage's settings, the models and the number of records that the stage kept. It returns "" if the stage
            checked everything. The attribute is None if the stage never leaves a check out.
    """

    name: str
    does: str
    reasons: Mapping[str, str] = field(default_factory=dict)
    asks: tuple[Asks, ...] = ()
    settings: type | None = None
    max_calls: Callable[[Any], int] | None = None
    max_kept: Callable[[Any], int] | None = None
    joins: bool = False
    for_target: bool = False
    adds: tuple[Column[Any], ...] = ()
    failures: tuple[str, ...] = ()
    executes: bool = False
    floors: Mapping[str, float] = field(default_factory=dict)
    unchecked: Callable[[Any, ModelsSettings, int], str] | None = None

    def __post_init__(self) -> None:
        try:
            for column in self.adds:
                column.check()
        except ColumnError as error:
            raise ColumnError(f"the stage {self.name} declares a column that is not allowed: {error}") from error

    @property
    def is_sample(self) -> bool:
        """Return whether this is a sample stage: it reads some of the records and passes none on."""
        return self.max_calls is not None

    @property
    def meanings(self) -> dict[str, str]:
        """Return all reasons for which the stage (pipeline step) may reject a record, each with its meaning. If the
        stage calls models, the reasons of failed calls are among them.
        """
        return {**self.reasons, **(CALL_REASONS if self.asks else {})}

    def asking(self, models: ModelsSettings) -> "Stage":
        """Return a copy of this description with the names of the prompts that the stage sends to the models of this
        run.

        ``models`` holds the settings of the run's models. Some model families have their own prompts for points and
        boxes (:meth:`groundtrace.inference.role_calls.Asks.to`).
        """
        return replace(self, asks=tuple(ask.to(models) for ask in self.asks))

    def rejected(self, element: Draft | str, why: Reject, calls: Sequence[Call] = ()) -> Rejected:
        """Return the rejection of a record by this stage (step of the pipeline).

        ``element`` is the rejected draft (a question with its data), or the id of a record that has no draft. ``why``
        holds the reason and its detail. ``calls`` are the model calls that were made for the record before the
        rejection; their cost becomes part of the rejection.

        Raises ValueError if the reason is not in this description of the stage. Raises ColumnError if the draft has a
        new column that is not in the description.
        """
        if why.reason not in self.meanings:
            raise ValueError(
                f"the stage {self.name} does not declare the reason {why.reason!r} of a rejection: add this reason to "
                "`reasons` in the description of the stage"
            )
        check_added(self, element, why.draft)
        worth_usd = sum(call.usage.worth_usd for call in calls)
        name, draft = (element.id, why.draft or element) if isinstance(element, Draft) else (element, None)
        draft = None if draft is None else replace(draft, calls=())
        rejected = Rejected(name, self.name, why.reason, why.detail, why.key, worth_usd, tuple(calls), draft)
        return replace(rejected, rejected_by=why.scorer)


@dataclass(frozen=True)
class Route:
    """Holds a draft (a question with its data) that leaves a stage (step of the pipeline) by another output than
    ``kept``, such as ``general``.

    ``output`` is the name of this output.
    """

    output: str
    draft: Draft


Work = Callable[[Draft], Draft | Route]
"""The type of a stage's work on one draft: a function that returns the draft with the data that the function added.

If the draft leaves the stage by another output than ``kept``, the function returns it in a :class:`Route`. The function
may raise :class:`Reject`. Any other exception is a defect of the code and fails the run.
"""


class RunWork(beam.DoFn):
    """Runs the function of a stage (step of the pipeline) for each draft (a question with its data), counts the drafts,
    and turns a raised :class:`Reject` into a rejection.

    ``stage`` is the description of the stage, and ``work`` is the function.
    """

    def __init__(self, stage: Stage, work: Work) -> None:
        self.stage, self._work = stage, work

    def process(self, draft: Draft) -> Iterator[Any]:
        """Run the function of the stage on a draft (a question with its data), and emit the result to one output: a
        draft to ``kept``, the draft of a :class:`Route` to the output that it names, and a rejection to ``rejected``.
        """
        count_in(self.stage.name)
        try:
            with setting_columns(self.stage), naming_record(draft.id):
                result = self._work(draft)
            check_result(self.stage, draft, result)
            yield kept_output(self.stage, result)
        except Reject as why:
            yield rejected_output(self.stage.rejected(draft, why, draft.calls))


@contextmanager
def setting_columns(stage: Stage) -> Iterator[None]:
    """Add the stage's name to the message of a ColumnError that is raised in the ``with`` block.

    Such an error is raised if a stage (step of the pipeline) sets a column to a value of the wrong type.
    """
    try:
        yield
    except ColumnError as error:
        raise ColumnError(f"the stage {stage.name} sets a column to a wrong value: {error}") from error


def check_result(stage: Stage, before: object, after: object) -> None:
    """Check the result of the function of ``stage`` (a pipeline step). ``before`` is the input of the function, and
    ``after`` is its result.

    Raises TypeError if ``before`` is a draft (a question with its data) and ``after`` is None. Exception: a sample
    stage, which reads some of the records, may return None, because it passes no draft on. Also raises the errors of
    :func:`check_added`.
    """
    if after is None and isinstance(before, Draft) and not stage.is_sample:
        raise TypeError(
            f"the stage {stage.name} returned None for the record {before.id}: return the draft, or raise Reject"
        )
    check_added(stage, before, after)


def check_added(stage: Stage, before: object, after: object) -> None:
    """Check that a stage (step of the pipeline) sets only columns that its description lists (``stage.adds``). Raises
    ColumnError for any other column.

    The values of any other column would be in no shard (Parquet file of rows). ``before`` is the stage's input.
    ``after`` is its result: a draft (a question with its data), a route (a draft with the name of its output), or the
    draft of a rejection. If ``before`` or ``after`` holds no draft, nothing is checked.
    """
    result = after.draft if isinstance(after, Route) else after
    if not isinstance(before, Draft) or not isinstance(result, Draft) or result.values == before.values:
        return
    known = {*before.values}
    for value in result.values:
        if value not in known and all(value.column != column.name for column in stage.adds):
            raise ColumnError(
                f"the stage {stage.name} sets the column {value.column} but does not declare it: "
                "add this column to `adds` in the description of the stage"
            )


def passing(stage: Stage, draft: Draft) -> Draft:
    """Return the draft (a question with its data) with the name of ``stage`` added to the list of stages that it has
    passed.
    """
    return replace(draft, passed=(*draft.passed, stage.name))


def kept_output(stage: Stage, result: Draft | Route) -> Any:
    """Count a result as kept, and return its draft as an output of a Beam DoFn.

    ``result`` is the draft (a question with its data), or a route, which holds the draft and the name of another
    output. The name of ``stage`` is added to the list of stages that the draft has passed.
    """
    count_kept(stage.name)
    if isinstance(result, Route):
        return TaggedOutput(result.output, passing(stage, result.draft))
    return passing(stage, result)


def rejected_output(rejected: Rejected) -> TaggedOutput:
    """Count a rejection, and return it as an element of a Beam DoFn's output ``rejected``."""
    count_rejected(rejected)
    return TaggedOutput(REJECTED, rejected)


def apply(elements: Any, name: str, do: beam.DoFn, *side_inputs: Any, kept: Any = Draft, **tags: Any) -> Any:
    """Apply the Beam DoFn ``do`` to ``elements`` as the step ``name``, and return its outputs.

    ``side_inputs`` are further arguments of the DoFn. The main output has the name ``kept``, and the argument ``kept``
    is the type of its elements. The output ``rejected`` has the rejections. ``tags`` maps the names of further outputs
    to the types of their elements. All types are declared to Beam, so that records cross shuffles as rows and not as
    pickles.
    """
    types = {REJECTED: Rejected, **tags}
    typed = beam.ParDo(do, *side_inputs).with_output_types(kept)
    outputs: Any = elements | name >> typed.with_outputs(*types, main="kept")
    for tag, element_type in types.items():
        outputs[tag].element_type = element_type
    return outputs


class DraftStage(beam.PTransform):
    """Base class of all stages (steps of a pipeline). A stage that runs a plain function on each draft (a question with
    its data) is a direct subclass; for a stage that calls models, there is a subclass of this class.

    A subclass is a dataclass whose fields are its settings. It sets ``stage``, its description. Its method :meth:`work`
    returns the function, which is pickled and sent to the workers. ``routes`` has the names of further outputs; to send
    a draft to such an output, the function returns a :class:`Route`. If ``expand`` also does the work of other stages,
    ``inner`` has the descriptions of these stages. In lists of stages, the stages of ``inner`` come before ``stage``.
    """

    stage: ClassVar[Stage]
    inner: ClassVar[tuple[Stage, ...]] = ()
    routes: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return a new object of the class, before ``__init__`` sets its fields. Raises UserError if the class lacks
        ``@dataclass``: its ``__init__`` would be Beam's, which takes only a label and sets no field.
        """
        own = get_annotations(cls).items()
        fields = [name for name, kind in own if name not in vars(cls) and "ClassVar" not in str(kind)]
        is_labelled = not kwargs and all(isinstance(each, str) for each in args)
        has_init = cls.__init__ is not beam.PTransform.__init__
        if not vars(cls).keys() & {"__dataclass_fields__", "__init__"} and (fields or not (has_init or is_labelled)):
            raise UserError(
                f"the stage class {cls.__name__} of the module {cls.__module__} takes no settings, because it is not a "
                f"dataclass: add @dataclass to {cls.__name__}"
            )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        super().__init__()

    def work(self) -> Work:
        """Return the function that is run on each draft (a question with its data)."""
        raise NotImplementedError

    def expand(self, drafts: PCollection) -> Any:
        """Run the function of :meth:`work` on each draft (a question with its data), and return the outputs.

        ``drafts`` is the collection of the drafts. The outputs are ``kept`` (drafts that pass), ``rejected``
        (rejections), and one for each name in the class variable ``routes``, e.g. ``general``. To send a draft to such
        an output, the function of :meth:`work` returns a :class:`Route`.
        """
        return apply(drafts, "Work", RunWork(self.stage, self.work()), **dict.fromkeys(self.routes, Draft))
