"""Verifies trajectories (CodeDance §3.2, §7.1): the answer, the form, the code, and the statements about code results.

The inputs are drafts (questions with their data) that have trajectories (turns of text and code). The outputs are
drafts with the first trajectory that passes all checks, its turns and its kinds of operations. If no trajectory passes,
the draft is rejected. The rejection then describes the first trajectory whose answer is right or could not be graded:
the reason is the check that this trajectory failed. If all answers are wrong, the reason is the wrong answer. The
checks are, in this order:

1. The answer is right, and the turns have the requested form.
2. The code does the kind of operation that the question was assigned (atomic supervision, §4.3).
3. The code does real work, i.e. it is not a pretence. Code is a pretence, for example, if it has only comments or
   constants, if no later turn uses its result, or if its output does not depend on the objects of the question. To find
   such outputs, all code is executed again on the image and on changed images (:mod:`groundtrace.rewards.pretence`).
   The run on the unchanged image must give the recorded results. There is one exception: code whose output does not
   depend on the objects is accepted if it only prepares later, successful code.
4. The statements after each result agree with the result. The judge model decides this ``judges`` times (a setting),
   and must find agreement each time.

For some questions, calculation alone gives the answer, so that the output need not depend on the image. Two lists in
the settings name the data sets with such questions: ``computing_sources``, and ``rewritten_sources`` (data sets whose
solutions are rewritten with code).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import settings
from groundtrace.grading.messages import media_part, shown
from groundtrace.grading.question_text import CODE
from groundtrace.grading.responses.turns import IMAGE, Turn, as_tags, plain_output, read_trajectory
from groundtrace.inference.caller import CallResult
from groundtrace.inference.grounding import BadReply, json_object
from groundtrace.inference.request import Sampling, Temperature
from groundtrace.inference.role_calls import Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards import pretence
from groundtrace.rewards.executing import Executed, executions, is_step, overlooked, with_status
from groundtrace.rewards.judge import JudgeTask, Reading, ask_judge, reason_of
from groundtrace.rewards.judge_guard import question_text
from groundtrace.rewards.scorers import outcome
from groundtrace.rewards.trajectory import MODE, OPERATIONS, TURNS, WITH_CODE
from groundtrace.rewards.trajectory_checks import form_fault, operations_in
from groundtrace.sandbox import SandboxLost, SandboxSettings
from groundtrace.sandbox.shared import shared_sandbox
from groundtrace.schemas.records import Draft, Overlay, Trace, Verdict
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Reject, Stage
from groundtrace.stages.write_trajectories import LOST, MALFORMED, TrajectorySettings, operation_for
from groundtrace.vision.media import MediaRoots

PROMPT = "judge_trajectory.v1"
WRONG_ANSWER, UNVERIFIABLE, NO_CODE = "wrong_answer", "unverifiable", "no_code"
OTHER_OPERATION, IDLE, UNUSED = "other_operation", "idle_code", "unused_result"
UNREPEATABLE, BLIND, REPEATED, SHOWS_NOTHING = "unrepeatable", "blind_code", "repeated_call", "shows_nothing"
CONTRADICTED = "contradicts_result"
FORM, EXECUTION, AGREEMENT = "format", "execution", "agreement"
"""The names of the verdicts on the checks in the module's docstring, except the verdict on the answer.

``FORM`` is for the form of the turns (second part of check 1) and for check 2, ``EXECUTION`` for check 3, and
``AGREEMENT`` for check 4.
"""
_REASONS = {
    pretence.SHOWS_NOTHING: SHOWS_NOTHING,
    pretence.SHOWS_ALL: SHOWS_NOTHING,
    pretence.DIFFERS_EACH_TIME: UNREPEATABLE,
    pretence.REPEATS: REPEATED,
    pretence.IGNORES_OBJECTS: BLIND,
    pretence.IDLE: IDLE,
    pretence.TOLD: IDLE,
    pretence.UNUSED: UNUSED,
}


@settings
class TrajectoryCheckSettings:
    """Holds the settings of the checks of trajectories (responses with code and its results)."""

    judges: Annotated[PositiveInt, "the number of judgements of a trajectory; all have to agree"] = 1
    temperature: Annotated[Temperature, "the judge's sampling temperature, if there are several judgements"] = 0.3
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a judgement"] = 2048
    computing_sources: Annotated[
        tuple[str, ...], "sources whose questions need only calculation, so that code need not look at an image"
    ] = ()

    @property
    def sampling(self) -> Sampling:
        """Return the sampling settings of the judge model's replies about one trajectory (a response with code): their
        number, temperature and maximum length. A single reply is sampled with the temperature 0.
        """
        return Sampling(self.judges, self.temperature if self.judges > 1 else 0.0, max_tokens=self.max_tokens)


class _Fails(Exception):
    """Raised if a trajectory (a response with code) does not pass a check.

    ``reason`` is the reason of the rejection, and ``detail`` explains it. ``scorer`` is the name of the check, as in
    its verdict.
    """

    def __init__(self, reason: str, detail: str, scorer: str) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.scorer = reason, detail, scorer

    @property
    def verdict(self) -> Verdict:
        """Return the result of the check that the trajectory did not pass, as a verdict with the value 0.

        If the check could not be made, the value is None and the field ``failed`` is True.
        """
        if self.reason in STAGE.failures:
            return Verdict(self.scorer, None, self.detail, failed=True)
        return Verdict(self.scorer, 0.0, self.detail)


@dataclass(frozen=True)
class _Check:
    """Holds one trajectory (a response with code) that is being verified.

    ``draft`` is the question with its data. ``trace`` is the response with its answer, ``turns`` are its turns, and
    ``images`` are the images that its code showed.
    """

    draft: Draft
    trace: Trace
    turns: tuple[Turn, ...]
    images: tuple[Overlay, ...]


def checks_of(draft: Draft) -> list[_Check]:
    """Return one object for each trajectory (a response with code) of a draft (a question with its data). The object
    holds the trajectory's turns and the images that its code showed.
    """
    found, start = [], 0
    for trace in draft.traces:
        turns = read_trajectory(trace.text)
        end = start + sum(turn.images for turn in turns)
        found.append(_Check(draft, trace, turns, draft.overlays[start:end]))
        start = end
    return found


def check_text(check: _Check, writing: TrajectorySettings) -> None:
    """Check the form and the code of a trajectory (a response with code) without executing the code.

    ``check`` holds the trajectory. ``writing`` are the settings with which the teacher model wrote it. They assign one
    kind of operation, such as drawing, to each question, or allow any kind (:func:`operation_for`). Raises _Fails if
    the form is wrong, if there is no code, or if a kind is assigned and the code does not have exactly this kind.
    """
    if fault := form_fault(check.turns):
        raise _Fails(MALFORMED, fault, FORM)
    if not any(turn.code for turn in check.turns):
        raise _Fails(NO_CODE, "the trajectory answers without any code", FORM)
    wanted, used = operation_for(check.draft.question, writing), operations_in(check.turns)
    if wanted and used != (wanted,):
        has = " and ".join(used) or "none"
        raise _Fails(OTHER_OPERATION, f"the prompt asked for {wanted}, but the code has {has}", FORM)


def check_execution(turns: Sequence[Turn], found: Sequence[Executed | None]) -> tuple[Turn, ...]:
    """Compare the recorded results of a trajectory's code with those of a second execution. A trajectory is a response
    with code. Return the turns with the status of their code in the second execution, such as ``ok``.

    ``turns`` are the turns with the recorded results. ``found`` has one entry for each turn: the results of executing
    its code again, or None for a turn without code.

    Raises _Fails in three cases: code gives another result than the recorded result, no code succeeded, or code is a
    pretence, i.e. does no real work, such as code that prints constants. One kind of pretence is allowed: code whose
    output does not depend on the objects of the question, if it only prepares later code that succeeds
    (:func:`groundtrace.rewards.executing.is_step`).
    """
    executed = with_status(turns, found)
    for number, (turn, call) in enumerate(zip(executed, found, strict=True), 1):
        if call is None:
            continue
        shown = call.observation
        if plain_output(shown.text) != turn.output or len(shown.images) != turn.images:
            raise _Fails(UNREPEATABLE, f"turn {number}: executed again, the code gives another result", EXECUTION)
        reason = call.execution.pretence
        counts = call.execution.ended_well or reason == pretence.IDLE
        if reason and counts and not is_step(number - 1, executed, found):
            raise _Fails(_REASONS[reason], f"turn {number}: the code {reason}", EXECUTION)
    if not any(call is not None and call.execution.ended_well for call in found):
        raise _Fails(SHOWS_NOTHING, "no execution of the trajectory's code succeeded", EXECUTION)
    return executed


def read_judgements(reply: CallResult) -> Reading:
    """Read the judge model's judgements on a trajectory (a response with code), and return the share of judgements that
    find no fault, and a reason.

    ``reply`` holds the samples of one call; each sample is one judgement. A fault is a statement that the results of
    the code do not support. The reason is that of the first judgement that finds a fault. If no judgement finds a
    fault, the reason is a sentence with the number of judgements. Raises BadReply if a judgement has the wrong form.
    """
    reasons = list[str]()
    for completion in reply.completions:
        fields = json_object(completion.text)
        if not isinstance(agrees := fields.get("agrees"), bool):
            raise BadReply(f"the reply's field 'agrees' must be true or false, got {agrees!r:.80}")
        reasons += [] if agrees else [reason_of(fields)]
    count = len(reply.completions)
    return 1 - len(reasons) / count, reasons[0] if reasons else f"{count} of {count} judgements agree"


async def check_agreement(check: _Check, session: Session, settings: TrajectoryCheckSettings) -> Verdict:
    """Let the judge model compare the statements of a trajectory (a response with code) with the results of its code,
    and return the verdict.

    ``check`` holds the trajectory, and ``session`` makes the call. ``settings`` holds the number of judgements. Raises
    _Fails if at least one judgement finds a statement that does not agree with its result. Errors of the call are not
    caught.
    """
    text, numbers = as_tags(check.turns), iter(range(1, len(check.images) + 1))
    while IMAGE in text:
        text = text.replace(IMAGE, f"[result picture {next(numbers)}]", 1)
    task = JudgeTask(
        PROMPT,
        {"trajectory": text},
        read_judgements,
        fields={"question": question_text(check.draft.question)},
        media={"original": shown(check.draft.question.media), "results": [media_part(each) for each in check.images]},
        sampling=settings.sampling,
    )
    share, reason = await ask_judge(task, session)
    if share != 1:
        raise _Fails(CONTRADICTED, reason, AGREEMENT)
    return Verdict(AGREEMENT, share, reason)


def check_answer(answered: Verdict) -> None:
    """Raise _Fails if the answer of a trajectory (a response with code) is wrong, or could not be graded.

    ``answered`` is the verdict on the answer, i.e. the result of grading it.
    """
    if answered.value is None:
        raise _Fails(UNVERIFIABLE, f"the answer could not be graded: {answered.reason}", answered.name)
    if answered.value < 1:
        raise _Fails(WRONG_ANSWER, answered.reason, answered.name)


async def verified(
    check: _Check,
    session: Session,
    settings: TrajectoryCheckSettings,
    writing: TrajectorySettings,
    sandbox: SandboxSettings,
    roots: MediaRoots,
) -> tuple[tuple[Verdict, ...], tuple[Turn, ...]]:
    """Run all checks on one trajectory (a response with code), except the check of the answer. Returns the verdicts
    (results of the checks) and the trajectory's turns.

    ``check`` holds the trajectory, and ``session`` makes the calls. ``settings`` are the settings of the checks,
    ``writing`` those with which the trajectory was written, and ``sandbox`` those of the sandbox that executes the
    code. ``roots`` holds the folders of the images.

    Raises _Fails if the trajectory does not pass a check. Errors of calls to the judge are not caught.
    """
    question = check.draft.question
    check_text(check, writing)
    store, computes = roots.store(), question.source in (*settings.computing_sources, *writing.rewritten_sources)
    images = [store.pixels(medium.uri) for medium in question.media]
    try:
        found = await executions(
            check.turns, images, check.draft.reference_boxes, shared_sandbox(sandbox), computes=computes
        )
    except SandboxLost as error:
        raise _Fails(LOST, str(error), EXECUTION) from None
    turns = check_execution(check.turns, found)
    boxes = question.gold_boxes or ()
    if not computes and question.answer.strip() == str(len(boxes)) and (left := overlooked(boxes, found)):
        raise _Fails(
            BLIND,
            f"the answer is a count of {len(boxes)} objects, but the output of the code does not depend on "
            f"{left} groups of these objects, and does not mark them",
            EXECUTION,
        )
    agreement = await check_agreement(replace(check, turns=turns), session, settings)
    form = Verdict(FORM, 1.0, "the turns have the form asked for")
    return (form, _execution(found, computes), agreement), turns


def _execution(found: Sequence[Executed | None], computes: bool) -> Verdict:
    """Return the verdict on the calls (executions of the trajectory's code): its value is the share that succeeded.

    ``found`` has one entry for each turn; None for a turn without code. A call succeeded if its code ended without an
    error, had output, and did not only pretend to do work. ``computes`` is True if the question can be answered by
    calculation alone, without the image. If ``computes`` is False, a call whose code does not use the image does not
    count as a success. The reason of the verdict is then, for example, "3 of 4 calls succeeded and looked at the
    image". If ``computes`` is True, it is "3 of 4 calls succeeded".
    """
    calls = [call.execution for call in found if call is not None]
    good, did = sum(call.succeeded for call in calls), "succeeded" if computes else "succeeded and looked at the image"
    return Verdict(EXECUTION, good / len(calls), f"{good} of {len(calls)} calls {did}")


async def verify(
    draft: Draft,
    session: Session,
    settings: TrajectoryCheckSettings,
    writing: TrajectorySettings,
    sandbox: SandboxSettings,
    roots: MediaRoots,
    judged: bool,
) -> Draft:
    """Check the trajectories (responses with code) of a draft (a question with its data) in order. Return the draft
    with the first trajectory that passes all checks as its best trace.

    ``session`` makes the calls. ``settings`` are the settings of the checks, ``writing`` those with which the
    trajectories were written, and ``sandbox`` those of the sandbox that executes the code. ``roots`` holds the folders
    of the images. ``judged`` is True if a judge model grades answers in free text. Raises :class:`Reject` if no
    trajectory passes all checks. The draft in this rejection has, for each trajectory, the verdict on its answer and
    the verdict of the check that failed.
    """
    traces, failed = {trace.index: trace for trace in draft.traces}, list[_Fails]()
    for check in checks_of(draft):
        index = check.trace.index
        answered = await outcome.score_outcome(draft.question, check.trace.answer, session if judged else None)
        try:
            check_answer(answered)
            verdicts, turns = await verified(check, session, settings, writing, sandbox, roots)
        except _Fails as error:
            failed.append(error)
            found = (answered,) if error.scorer == answered.name else (answered, error.verdict)
            traces[index] = replace(check.trace, verdicts=found)
            continue
        traces[index] = replace(check.trace, verdicts=(answered, *verdicts), score=1.0)
        kept = replace(
            draft, traces=tuple(traces.values()), best=[*traces].index(index), overlays=check.images, form=CODE
        )
        kept = kept.with_added(TURNS, turns).with_added(OPERATIONS, list(operations_in(turns)))
        return kept.with_added(MODE, WITH_CODE)
    chosen = next((error for error in failed if error.reason != WRONG_ANSWER), failed[0])
    checked = replace(draft, traces=tuple(traces.values()))
    raise Reject(chosen.reason, chosen.detail, draft.calls[-1].keys[0], checked, chosen.scorer)


STAGE = Stage(
    "verify_trajectory",
    "trajectories are executed again, also on changed images, and judged; the first good one is kept",
    reasons={
        WRONG_ANSWER: "no trajectory reached the gold answer",
        UNVERIFIABLE: "the answer could not be graded",
        MALFORMED: "the turns do not have the form asked for",
        NO_CODE: "the answer comes without code",
        IDLE: "the code has only comments and constants, or the printed answer is one",
        OTHER_OPERATION: "the code is of another kind of operation than the question was assigned",
        UNREPEATABLE: "executed again, the code gives another result",
        BLIND: "the output does not depend on what the question asks about",
        SHOWS_NOTHING: "no call shows anything that the image did not show before",
        REPEATED: "a call repeats an earlier one",
        UNUSED: "no later turn uses a result",
        CONTRADICTED: "a statement after a result does not agree with it",
        LOST: "the sandbox lost the state of a trajectory",
    },
    asks=(Asks("judge", (PROMPT,)), *outcome.ASKS),
    settings=TrajectoryCheckSettings,
    adds=(MODE, TURNS, OPERATIONS),
    failures=(UNVERIFIABLE, LOST),
    executes=True,
)


@dataclass
class VerifyTrajectories(CallingStage):
    """Stage (pipeline step) that executes and checks the trajectories (responses with code) of every draft (a question
    with its data), and keeps the first trajectory that passes all checks.

    ``writing`` are the settings with which the stage :class:`groundtrace.stages.write_trajectories.WriteTrajectories`
    wrote the trajectories. ``sandbox`` holds the settings of the sandbox, ``models`` the settings of the run's models,
    and ``roots`` the data folder and the run folder.
    """

    settings: TrajectoryCheckSettings
    writing: TrajectorySettings
    sandbox: SandboxSettings
    models: ModelsSettings
    roots: MediaRoots
    stage = STAGE
    spread = False

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function checks the trajectories
        (responses with executed code) and chooses the first that passes all checks (:func:`verify`).
        """
        return partial(
            verify,
            settings=self.settings,
            writing=self.writing,
            sandbox=self.sandbox,
            roots=self.roots,
            judged=self.models.judges_text,
        )
