"""Writes trajectories (CodeDance §3.1, §3.2): responses of several turns, in which the teacher model thinks and writes
code.

The code of a turn is executed, and the teacher sees the result in the next turn. The last turn gives the answer.

The inputs are drafts (questions with their data). The outputs are drafts with at most ``n`` traces in the tags of
:mod:`groundtrace.grading.responses.turns`. A draft is rejected if no trajectory reached an answer. The images that the
code of the traces showed become the draft's overlays (its images other than the originals), in the order of the traces.

The code of each turn is executed as soon as it is written, in a session of the sandbox that keeps the variables of the
code for later turns. Code that fails stays in the trajectory together with its error, so that the model also learns to
correct its code. Each question is assigned one kind of operation, which the prompt requests (atomic supervision, §4.3).
The setting ``mixture`` holds the weight of each kind; a hash of a question's id selects the kind. Deviation: the
paper's shares (Figure 6) cannot be read from its text, so the kinds have equal shares by default.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import Weight, settings
from groundtrace.grading.messages import Part, TextPart, media_part, shown
from groundtrace.grading.question_text import answer_format, lettered_choices
from groundtrace.grading.responses.operations import COMPUTATION, DRAWING, OPERATIONS, TRANSFORM
from groundtrace.grading.responses.traces import read_trace
from groundtrace.grading.responses.turns import IMAGE, Turn, as_tags, plain_output, read_turn
from groundtrace.inference.request import Completion, Sampling, Temperature
from groundtrace.inference.role_calls import CUT_OFF, Asks
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import RenderedPrompt, load_prompt
from groundtrace.sandbox import Observation, SandboxLost, SandboxSettings
from groundtrace.sandbox import Session as Trajectory
from groundtrace.sandbox.shared import shared_sandbox
from groundtrace.schemas.ordering import unit_hash
from groundtrace.schemas.records import Draft, Overlay, Question
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import TRUNCATED, Reject, Stage
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.media import MediaRoots, MediaStore
from groundtrace.vision.overlay import encode_png

PROMPT = "act.v1"
MALFORMED, FORGED, NO_ANSWER, LOST = "malformed", "forged_result", "no_answer", "execution_lost"
ASKED = {
    TRANSFORM: "transforms of the picture (crop, resize, rotate, contrast), whose outcome you show and then look at",
    COMPUTATION: "computation (measuring, counting, arithmetic), whose outcome you print",
    DRAWING: "drawing (boxes, lines, points or text on the picture), whose outcome you show and then look at",
}
"""Maps each kind of operation to the phrase with which the prompt asks for it."""
_HISTORY = "This is what you have written so far, with the results of your code:\n"


@settings
class TrajectorySettings:
    """Holds the settings with which the teacher model writes trajectories (responses of several turns with executed
    code).

    The default of ``max_turns`` is the number of turns with which the paper CodeDance trains.
    """

    n: Annotated[PositiveInt, "the number of trajectories for each question"] = 1
    max_turns: Annotated[PositiveInt, "the most turns of a trajectory; the paper evaluates with 10"] = 6
    temperature: Annotated[Temperature, "the teacher's sampling temperature"] = 0.6
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of a turn"] = 4096
    mixture: Annotated[
        Mapping[str, Weight],
        "the weight of each kind of operation when each question is assigned one; if all are 0, any kind is allowed",
    ] = field(default_factory=lambda: dict.fromkeys(OPERATIONS, 1.0), hash=False)
    seed: Annotated[int, "the seed of the assignment"] = 0
    rewritten_sources: Annotated[
        tuple[str, ...],
        "data sets whose hard questions are solved in text; code then replaces the calculations in it (Table 9)",
    ] = ()

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.mixture) - set(OPERATIONS)):
            raise ValueError(f"mixture has the unknown kind {unknown[0]!r}: use only {', '.join(OPERATIONS)}")


def operation_for(question: Question, settings: TrajectorySettings) -> str:
    """Return the kind of operation, such as computation, that the code for a question should do.

    A hash of the question's id chooses the kind, with the weights of ``settings.mixture``. If no kind has a weight
    above 0, the result is "" (any kind). There is one exception: a question of a data set in
    ``settings.rewritten_sources`` always gets the kind :data:`COMPUTATION`, whatever the weights are. The solutions of
    these data sets are written in text and then rewritten with code, and such code only calculates.
    """
    if question.source in settings.rewritten_sources:
        return COMPUTATION
    drawn = unit_hash(question.id, settings.seed, "operation") * sum(settings.mixture.values())
    weights = {kind: settings.mixture.get(kind, 0.0) for kind in OPERATIONS}
    for kind, weight in weights.items():
        drawn -= weight
        if drawn < 0:
            return kind
    return next((kind for kind in reversed(OPERATIONS) if weights[kind]), "")


@dataclass(frozen=True)
class Written:
    """Holds a trajectory (a response of several turns with executed code) while the teacher model writes it.

    ``turns`` are the turns that are finished, and ``images`` are the images that their code showed. ``fault`` describes
    what is wrong with the trajectory, and ``reason`` is the reason of rejection; both are "" if nothing is wrong.
    """

    turns: tuple[Turn, ...] = ()
    images: tuple[Overlay, ...] = ()
    fault: str = ""
    reason: str = ""

    @property
    def is_over(self) -> bool:
        """Return whether the trajectory (a response with executed code) has ended, with an answer or a fault."""
        return bool(self.fault) or (bool(self.turns) and not self.turns[-1].code)


def act_prompt(question: Question, written: Written, settings: TrajectorySettings) -> RenderedPrompt:
    """Return the prompt with which the teacher model writes the next turn of a trajectory (a response of several turns
    with executed code).

    ``written`` holds the earlier turns for ``question`` with the results of their code; the prompt shows these turns.
    ``settings`` are the settings of the trajectories, such as the maximum number of turns.
    """
    history: list[Part] = []
    if written.turns:
        texts = f"{_HISTORY}{as_tags(written.turns)}".split(IMAGE)
        for text, image in zip(texts, written.images, strict=False):
            history += [TextPart(text), media_part(image)]
        history.append(TextPart(texts[-1]))
    operation = operation_for(question, settings)
    return load_prompt(PROMPT).render(
        {"original": shown(question.media), "written": history},
        question=question.question,
        choices=lettered_choices(question),
        answer_format=answer_format(question),
        operation=ASKED.get(operation, ""),
        turns_left=str(settings.max_turns - 1 - len(written.turns)),
    )


async def with_turn(
    written: Written, completion: Completion, trajectory: Trajectory, store: MediaStore, settings: TrajectorySettings
) -> Written:
    """Execute the code of the next turn, and return the trajectory (a response of several turns with executed code)
    with this turn.

    ``written`` is the trajectory with its earlier turns, and ``completion`` is the teacher model's reply with the next
    turn. ``trajectory`` is the session of the sandbox that executes its code. ``store`` gets the images that the code
    shows. If the turn is unusable, it is not added: the old turns are returned, and ``fault`` describes what is wrong
    with the turn. Raises SandboxLost if the sandbox loses the state of the trajectory.
    """
    if completion.is_truncated:
        return replace(written, fault=CUT_OFF, reason=TRUNCATED)
    text = completion.text
    if completion.reasoning and "<think>" not in text:
        text = f"<think>{completion.reasoning}</think>\n{text}"
    turn = read_turn(text)
    if turn.fault:
        return replace(written, fault=turn.fault, reason=FORGED if turn.is_forged else MALFORMED)
    if not turn.code:
        return replace(written, turns=(*written.turns, Turn(turn.text)))
    if len(written.turns) >= settings.max_turns - 1:
        return replace(written, fault=f"no answer in {settings.max_turns} turns", reason=NO_ANSWER)
    seen = await trajectory.run_async(turn.code)
    executed = Turn(turn.text, turn.code, seen.status, plain_output(seen.text), len(seen.images))
    images = await asyncio.to_thread(filed, seen, store)
    return Written((*written.turns, executed), (*written.images, *images))


def filed(seen: Observation, store: MediaStore) -> tuple[Overlay, ...]:
    """Store the images that executed code displayed, and return references to the stored images.

    ``seen`` is the observation: the text and images that the code gave. The images are written to ``store``.
    """
    found = []
    for pixels in seen.images:
        data = encode_png(pixels)
        found.append(Overlay(0, store.write_drawn(data, "png"), sha256_bytes(data), len(data)))
    return tuple(found)


async def finished(
    question: Question,
    first: Completion,
    session: Session,
    settings: TrajectorySettings,
    sandbox: SandboxSettings,
    store: MediaStore,
) -> Written:
    """Let the teacher model continue a trajectory (a response of several turns with executed code) until it ends with
    an answer or a fault, and return the trajectory.

    ``first`` is the teacher's reply with the first turn. ``session`` makes the calls. ``sandbox`` holds the settings of
    the sandbox that executes the code, and ``store`` opens the question's images and stores the new ones. If the
    sandbox loses the state of the trajectory, the result has no turns, and its ``fault`` is the sandbox's error
    message.
    """
    images = [await asyncio.to_thread(upright_png, store, medium.uri) for medium in question.media]
    trajectory = await shared_sandbox(sandbox).open_async(images)
    try:
        written = await with_turn(Written(), first, trajectory, store, settings)
        while not written.is_over:
            prompt = act_prompt(question, written, settings)
            answered = await session.generate("teacher", prompt, _sampling(settings, 1))
            written = await with_turn(written, answered.completions[0], trajectory, store, settings)
    except SandboxLost as error:
        return Written(fault=str(error), reason=LOST)
    else:
        return written
    finally:
        await asyncio.to_thread(trajectory.close)


def upright_png(store: MediaStore, uri: str) -> bytes:
    """Return an image as the bytes of a PNG file whose pixels are upright.

    So the executed code and all coordinates use the same orientation. ``store`` opens the image with the URI ``uri``.
    """
    return encode_png(store.pixels(uri))


def _sampling(settings: TrajectorySettings, n: int) -> Sampling:
    return Sampling(n, settings.temperature, max_tokens=settings.max_tokens)


async def write(
    draft: Draft, session: Session, settings: TrajectorySettings, sandbox: SandboxSettings, roots: MediaRoots
) -> Draft:
    """Let the teacher model write trajectories (responses with executed code) for a question. Returns the draft (the
    question with its data) with the trajectories that reached an answer.

    ``session`` makes the calls. ``sandbox`` holds the settings of the sandbox that executes the code, and ``roots`` the
    folders of the images. Raises :class:`Reject` if no trajectory reached an answer, or if a medium is a clip.
    """
    question, store = draft.question, roots.store()
    if any(medium.frames for medium in question.media):
        raise Reject(MALFORMED, "the medium is a clip, but code opens images only")
    asked = await session.generate(
        "teacher", act_prompt(question, Written(), settings), _sampling(settings, settings.n)
    )
    found = await asyncio.gather(
        *(finished(question, first, session, settings, sandbox, store) for first in asked.completions)
    )
    good = [written for written in found if not written.fault]
    if not good:
        raise _rejection(found, asked.call.keys[0])
    traces = tuple(read_trace(index, as_tags(written.turns), question.media) for index, written in enumerate(good))
    return replace(draft, traces=traces, overlays=tuple(image for written in good for image in written.images))


def _rejection(found: Sequence[Written], key: str) -> Reject:
    """Return the rejection of a question for which no trajectory (response with executed code) is usable.

    Its reason and its detail are those of the first trajectory in ``found``. ``key`` is the cache key of the model
    reply that led to the rejection.
    """
    which = "the trajectory" if len(found) == 1 else f"each of {len(found)} trajectories, the first"
    return Reject(found[0].reason, f"{which}: {found[0].fault}", key)


STAGE = Stage(
    "trajectory",
    "the teacher writes code, which is executed, and answers from its results",
    reasons={
        MALFORMED: "a turn is neither code nor an answer in the form asked for",
        FORGED: "a turn writes the result of its code itself",
        NO_ANSWER: "there is no answer within trajectory.max_turns",
        LOST: "the sandbox lost the state of the trajectory",
    },
    asks=(Asks("teacher", (PROMPT,)),),
    settings=TrajectorySettings,
    failures=(LOST,),
    executes=True,
)


@dataclass
class WriteTrajectories(CallingStage):
    """Stage (pipeline step) that lets the teacher model write trajectories (responses with executed code) for every
    question.

    ``sandbox`` holds the settings of the sandbox, ``models`` the settings of the run's models, and ``roots`` the data
    folder and the run folder.
    """

    settings: TrajectorySettings
    sandbox: SandboxSettings
    models: ModelsSettings
    roots: MediaRoots
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function lets the teacher model
        write trajectories, i.e. responses with executed code (:func:`write`).
        """
        return partial(write, settings=self.settings, sandbox=self.sandbox, roots=self.roots)
