"""Verifies traces (Argos §4.3, App. C.3): scores every trace, and keeps the best of those that are good enough.

The inputs are drafts (questions with their data) that have traces. The outputs are drafts with verdicts and the index
of the best trace. This trace has a right answer, a score of at least ``min_score``, and verdicts that reach the minimum
values in ``floors``. Of traces with equal scores, the first is the best. If no trace meets these conditions, the draft
is rejected. The detail of the rejection explains why. For example, it names the best score of a right trace, and the
scorer whose verdict on this trace is too low. A scorer is code that checks one property of a trace, and a verdict is
its result.

Deviation from the paper: its score, Eq. 9, is a mean of the values for answer, pointing and reasoning. With equal
weights, a trace with a right answer and a good reasoning can reach 0.7 although nine tenths of its points are not on
their objects: (1 + 0.1 + 1) / 3 = 0.7. Minimum values of single verdicts (``floors``) were therefore added. A value of
0 turns a floor off. If all floors are off, the rule is the paper's.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

from groundtrace.config.settings import Share, settings
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.aggregate import GateSettings
from groundtrace.rewards.case import Context, case_of
from groundtrace.rewards.form import FORMS
from groundtrace.rewards.locating import ObjectMasks, ServedRoles, served_by
from groundtrace.rewards.registry import SCORERS
from groundtrace.rewards.scorer import Scorer, check_names, check_served
from groundtrace.rewards.scorer_sets import TRACE_SCORERS, ScorerArguments, configured
from groundtrace.rewards.scorers import outcome
from groundtrace.rewards.selection import PLAN_PROMPT, Planner
from groundtrace.rewards.verifier import verify as verify_case
from groundtrace.schemas.records import Draft, Trace, Verdict
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Reject, Stage

UNVERIFIABLE, WRONG_ANSWER, MALFORMED = "unverifiable", "wrong_answer", "malformed"
LOW_GROUNDING, LOW_REASONING, LOW_SCORE = "low_grounding", "low_reasoning", "low_score"


def _default_floors() -> dict[str, float]:
    return {scorer.name: scorer.floor for scorer in TRACE_SCORERS if scorer.floor is not None}


@settings
class VerifySettings:
    """Holds the scorers that verify a trace (response of the teacher), and the minimum values at which the trace is
    kept. A scorer is code that gives one verdict. The value of a verdict is from 0 to 1. There is one exception: the
    value of ``spatial`` or ``temporal`` is negative if all points of the trace are wrong.

    ``floors`` holds the minimum value of a verdict for each scorer, by the scorer's name. The minimum 0 means that
    there is no minimum: a negative value of a verdict passes, too. A scorer without an entry uses its own minimum.
    Three of the scorers are:

    - ``spatial`` gives the score for pointing (:mod:`groundtrace.rewards.pointing_score`). The score is 1 if each point
      is on its object and, for a question that counts objects, each of these objects has a point.
    - ``counting`` compares the points with the counted objects.
    - ``temporal`` compares the statements about a clip with the clip's frames. Its value is the mean over the
      categories of statements. If the points are scored, this value is at most the score of the points.

    A verdict is not applicable if the trace has nothing that its scorer could check. Such a verdict does not reject the
    trace. A verdict has failed if its scorer could not check the trace. Such a verdict rejects the trace. ``gate``
    holds the weights and the threshold of Argos Eq. 9.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {
        "min_spatial": "floors.spatial",
        "min_counting": "floors.counting",
        "min_temporal": "floors.temporal",
    }

    min_score: Annotated[Share, "the minimum score of a trace; 0.7 is the paper's"] = 0.7
    floors: Mapping[str, Share] = field(default_factory=_default_floors, hash=False)
    gate: GateSettings = field(default_factory=GateSettings)
    planner: Annotated[Planner, "what chooses the scorers of a trace: rules, or one call to the judge"] = "rules"
    synthetic_sources: Annotated[
        tuple[str, ...], "sources of charts, maps and similar images, whose objects the pointer finds, not the detector"
    ] = ()
    scorers: Annotated[
        ScorerArguments,
        "arguments of scorers, by name or module:NAME; a scorer that the recipe does not have is added to it",
    ] = field(default_factory=dict, hash=False)

    def floor_of(self, scorer: Scorer) -> float:
        """Return the minimum value that the verdict of ``scorer`` (code that scores one property of a trace) must have
        if the trace is to be kept. 0 means no minimum.
        """
        return self.floors.get(scorer.name, scorer.floor or 0.0)

    def floors_of(self, scorers: Sequence[Scorer]) -> dict[str, float]:
        """Return a mapping from the names of scores to their minimum values. Scores without a minimum are left out.

        Each of the ``scorers`` (code that gives one verdict) gives one score, which has the scorer's name. The name
        ``final`` is for the score of the whole trace.
        """
        found = {scorer.name: self.floor_of(scorer) for scorer in scorers} | {"final": self.min_score}
        return {name: floor for name, floor in found.items() if floor}


def check_scorers(settings: VerifySettings, scorers: Sequence[Scorer]) -> None:
    """Check that the scorers and the settings fit together. A scorer is code that gives one verdict on a response.

    ``scorers`` are all scorers of the stage. Raises ConfigError if the settings have floors (minimum values) or weights
    for unknown scorers, or if ``gate.skip`` names an unknown scorer. Raises ValueError if two scorers have the same
    name, or if no scorer grades the final answer.
    """
    names = [scorer.name for scorer in scorers]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise ValueError(f"two scorers have the name {twice!r}: rename or remove one of them")
    if outcome.NAME not in names:
        raise ValueError(
            f"the scorer {outcome.NAME!r}, which grades the answer, is missing: add {outcome.__name__}.SCORER to the "
            f"scorers ({', '.join(names) or 'none'})"
        )
    known = (*scorers, *TRACE_SCORERS)
    check_names("verify.floors", settings.floors, known)
    check_names("verify.gate.weights", settings.gate.weights, known)
    check_names("verify.gate.skip", settings.gate.skip, known)


def below_floor(
    trace: Trace, settings: VerifySettings, scorers: Sequence[Scorer] = TRACE_SCORERS
) -> tuple[Scorer, Verdict] | None:
    """Return the first verdict (result of a scorer) of a trace that is below the floor (minimum value) for this scorer,
    as a pair of scorer and verdict.

    A trace is a response of the teacher model. Returns None if there is no such verdict. ``settings`` holds the floors.
    ``scorers`` are the scorers (each checks one property of a trace) that made the verdicts.
    """
    by_name = {scorer.name: scorer for scorer in scorers}
    for verdict in trace.verdicts:
        scorer = by_name.get(verdict.name)
        floor = 0.0 if scorer is None else settings.floor_of(scorer)
        if scorer is not None and floor and verdict.value is not None and verdict.value < floor:
            return scorer, verdict
    return None


def good_traces(
    traces: tuple[Trace, ...], settings: VerifySettings, scorers: Sequence[Scorer] = TRACE_SCORERS
) -> tuple[Trace, ...]:
    """Return the scored traces (responses of the teacher) that are good enough to be kept, in order.

    Such a trace has a right answer, a score of at least ``settings.min_score``, and no verdict below its scorer's floor
    (minimum value). The answer must be right even if ``min_score`` is 0. ``scorers`` are the scorers (each checks one
    property of a trace) that made the verdicts.
    """
    passed = (trace for trace in traces if trace.score is not None and trace.score >= settings.min_score)
    right = (trace for trace in passed if (_outcome(trace).value or 0.0) >= settings.gate.tau)
    return tuple(trace for trace in right if below_floor(trace, settings, scorers) is None)


def _outcome(trace: Trace) -> Verdict:
    return next(verdict for verdict in trace.verdicts if verdict.name == outcome.NAME)


def best_trace(traces: tuple[Trace, ...]) -> Trace | None:
    """Return the trace (response of the teacher) with the highest score. Returns None if no trace has a score.

    If several traces have the highest score, the one with the lowest index is returned.
    """
    scored = [trace for trace in traces if trace.score is not None]
    return max(scored, key=lambda trace: (trace.score, -trace.index)) if scored else None


class WhyRejected(NamedTuple):
    """Holds why a draft (question with its data) is rejected: the reason, and a detail that explains it.

    It also holds the index of the trace (response of the teacher) that these describe, and the name of the scorer (code
    that checks one property) whose verdict on this trace is the reason.
    """

    reason: str
    detail: str
    index: int
    scorer: str


def why_rejected(
    traces: tuple[Trace, ...], settings: VerifySettings, scorers: Sequence[Scorer] = TRACE_SCORERS
) -> WhyRejected:
    """Return why a draft (question with its data) is rejected. The reason describes one trace and one scorer.

    ``traces`` are the teacher's responses to the question; none of them is good enough for the minimum values in
    ``settings``. ``scorers`` are the scorers (each checks one property of a trace) that made the verdicts. A trace is
    right if its final answer is right. A trace is unverifiable if a scorer could not check it, e.g. because a call
    failed. The reason describes the first of these traces that exists:

    - the right trace with the highest score;
    - the first right trace that is unverifiable, and so has no score;
    - the first unverifiable trace, if no trace has a score;
    - the trace with the highest score;
    - the first trace.
    """
    right = [trace for trace in traces if (_outcome(trace).value or 0.0) >= settings.gate.tau]
    best = best_trace(tuple(right))
    if best is None:
        trace = next((trace for trace in (*right, *traces) if any(v.failed for v in trace.verdicts)), traces[0])
        lacking = next((verdict for verdict in trace.verdicts if verdict.failed), None)
        if right or (lacking is not None and best_trace(traces) is None):
            assert lacking is not None  # a right trace without a score has a failed verdict
            detail = f"{lacking.name} could not be checked: {lacking.reason}"
            return WhyRejected(UNVERIFIABLE, detail, trace.index, lacking.name)
        wrong = best_trace(traces) or traces[0]
        if _outcome(wrong).value is None:
            detail = f"no answer could be graded: {_outcome(wrong).reason}"
            return WhyRejected(UNVERIFIABLE, detail, wrong.index, outcome.NAME)
        [(fault, count)] = Counter(_outcome(trace).reason for trace in traces).most_common(1)
        often = "" if count == len(traces) else f" ({count} of them)"
        detail = f"no trace of {len(traces)} is right: {fault}{often}"
        return WhyRejected(WRONG_ANSWER, detail, wrong.index, outcome.NAME)
    low = below_floor(best, settings, scorers)
    if low is not None:
        scorer, verdict = low
        detail = f"best score {best.score:.2f}, and {_below_text(verdict, settings.floor_of(scorer))}: {verdict.reason}"
        return WhyRejected(_reason_for(verdict, scorers), detail, best.index, verdict.name)
    failing = min((v for v in best.verdicts if v.value is not None), key=lambda verdict: verdict.value or 0.0)
    detail = (
        f"best score {best.score:.2f} is below verify.min_score = {settings.min_score}: {failing.name} {failing.reason}"
    )
    return WhyRejected(_reason_for(failing, scorers), detail, best.index, failing.name)


def _below_text(verdict: Verdict, floor: float) -> str:
    """Return a text such as "spatial 0.67 is below verify.floors.spatial = 0.9" for a verdict (result of a check) below
    its floor (minimum value).

    The value of the verdict has more than two decimals if it would otherwise be rounded up to the floor.
    """
    assert verdict.value is not None
    value = f"{verdict.value:.2f}"
    shown = verdict.value if float(value) >= floor else value
    return f"{verdict.name} {shown} is below verify.floors.{verdict.name} = {floor:g}"


def _reason_for(failing: Verdict, scorers: Sequence[Scorer]) -> str:
    scorer = next((scorer for scorer in scorers if scorer.name == failing.name), None)
    if scorer is not None and scorer.is_gate:
        return MALFORMED
    if failing.name not in SCORERS.ours:
        return LOW_SCORE
    return LOW_GROUNDING if scorer is not None and scorer.is_grounding else LOW_REASONING


async def verify(
    draft: Draft,
    session: Session,
    settings: VerifySettings,
    served: ServedRoles,
    scorers: Sequence[Scorer] = TRACE_SCORERS,
) -> Draft:
    """Score the traces (responses of the teacher) of a draft (a question with its data), and return the draft with the
    verdicts and the index of the best trace.

    Equal traces are scored once. ``session`` makes the calls. ``settings`` holds the minimum values for a good trace.
    ``served`` holds the roles (such as judge and pointer) that have endpoints. ``scorers`` are the scorers to run, each
    of which checks one property of a trace. If a detector found boxes for the question (pseudo-boxes), the scorers use
    them as gold boxes. Raises :class:`Reject` if no trace is good enough.
    """
    question = draft.question if draft.pseudo_boxes is None else replace(draft.question, gold_boxes=draft.pseudo_boxes)
    masks = ObjectMasks(question, session, served)
    form, context = FORMS[draft.form], Context(values=draft.values)
    scored: dict[str, Trace] = {}
    for trace in draft.traces:
        if trace.text not in scored:
            case = case_of(trace, masks, draft.entities, draft.pointable)
            case = replace(case, form=form, context=context)
            verified = await verify_case(case, settings.gate, scorers, settings.planner)
            scored[trace.text] = replace(trace, verdicts=verified.verdicts, score=verified.score)
    traces = tuple(replace(scored[trace.text], index=trace.index) for trace in draft.traces)
    best = best_trace(good_traces(traces, settings, scorers))
    if best is None:
        why = why_rejected(traces, settings, scorers)
        key = draft.calls[-1].keys[why.index]
        raise Reject(why.reason, why.detail, key, replace(draft, traces=traces), why.scorer)
    return replace(draft, traces=traces, best=traces.index(best))


@dataclass(frozen=True)
class _Runs:
    """Decides whether a scorer (code that gives one verdict) sends its prompts to one model role, such as judge. An
    object of this class is called like a function; its argument is the stage's settings.

    ``scorer`` is the name of the scorer. If the setting ``gate.skip`` lists this name, the scorer does not run, and so
    sends no prompts. Otherwise ``when``, a function of the settings, returns whether the prompts are sent. If ``when``
    is None, they are sent.

    The descriptions of stages hold objects of this class, and code compares these descriptions. Two objects with equal
    fields are equal, but two functions are not. This is why a class is used here and not a function.
    """

    scorer: str
    when: Callable[[VerifySettings], bool] | None

    def __call__(self, settings: VerifySettings) -> bool:
        return self.scorer not in settings.gate.skip and (self.when is None or self.when(settings))


def _is_planned(settings: VerifySettings) -> bool:
    return settings.planner == "judge"


def _checked(scorers: Sequence[Scorer]) -> str:
    """Return a text that names the properties that the scorers check, e.g. "answer, grounding and reasoning". A scorer
    is code that gives one verdict on a response.
    """
    if any(scorer.is_grounding for scorer in scorers):
        return "answer, grounding and reasoning"
    *names, last = (scorer.name.replace("_", " ") for scorer in scorers)
    return f"{', '.join(names)} and {last}" if names else last


def describe(scorers: Sequence[Scorer]) -> Stage:
    """Return the description of the stage :class:`VerifyTraces` for the given scorers. A scorer is code that checks one
    property of a response; a recipe (pipeline) or a config chooses the scorers.
    """
    planning = Asks("judge", (PLAN_PROMPT,), required=False, when=_is_planned)
    scoring = [
        replace(ask, required=False, when=_Runs(scorer.name, ask.when)) for scorer in scorers for ask in scorer.asks
    ]
    own = [scorer.name for scorer in scorers if scorer.name not in SCORERS.ours]
    return Stage(
        "verify",
        f"traces are scored for {_checked(scorers)}; the best one is kept if it is good enough",
        reasons={
            WRONG_ANSWER: "no trace reached the gold answer",
            MALFORMED: "the best right trace is not of the form asked for, or concludes otherwise",
            LOW_GROUNDING: "the best right trace points off the objects that it names",
            LOW_REASONING: "the best right and grounded trace does not support its answer",
            **({LOW_SCORE: f"the best right trace scores too low by {' or '.join(own)}"} if own else {}),
            UNVERIFIABLE: "what no trace can do without could not be checked",
        },
        asks=(*scoring, planning),
        settings=VerifySettings,
        failures=(UNVERIFIABLE,),
    )


STAGE = describe(TRACE_SCORERS)


@dataclass
class VerifyTraces(CallingStage):
    """Stage (pipeline step) that scores the traces (responses of the teacher) of every draft (a question with its
    data), and keeps the best trace if it is good enough.

    ``models`` holds the settings of the run's models. ``scorers`` are the scorers (pieces of code that check one
    property of a trace) of the recipe; a config may add scorers. Raises ConfigError if the config has invalid scorers,
    arguments, floors (minimum values) or weights.
    """

    settings: VerifySettings
    models: ModelsSettings
    scorers: tuple[Scorer, ...] = TRACE_SCORERS
    stage = STAGE
    spread = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scorers = configured(self.scorers, self.settings.scorers, "verify.scorers")
        check_scorers(self.settings, self.scorers)
        check_served(self.scorers, self.settings.gate.skip, dict(self.models.roles), "verify.gate.skip")
        described = STAGE if self.scorers == TRACE_SCORERS else describe(self.scorers)
        floors = self.settings.floors_of(self.scorers)
        self.stage = replace(described, floors=floors)  # pyright: ignore[reportAttributeAccessIssue]

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function scores the draft's traces
        (reasoning and answer of the teacher) and chooses the best one (:func:`verify`).
        """
        served = served_by(self.models, self.settings.synthetic_sources)
        return partial(verify, settings=self.settings, served=served, scorers=self.scorers)
