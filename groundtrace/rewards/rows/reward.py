"""Computes the rewards of a policy's responses with a recipe of :mod:`groundtrace.rewards.recipes`.

The coordinates in a response are converted from the model's units to pixels of the original image. Then the recipe
scores all responses to the question together. The objects that a response can point at are listed in the training row
of the question.

If a judge or detector does not answer, or refuses each request (for example because its account has no credit), the
response has no verdict. The trainer tries again until a timeout, and then stops. When it tries again, the reply cache
answers the calls that succeeded before. A reply that is empty or cannot be parsed leaves only its own response
unscored.
"""

import hashlib
import itertools
import time
from asyncio import ensure_future, gather, sleep
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakValueDictionary

from groundtrace.grading.responses.response import MAX_RESPONSE_CHARS
from groundtrace.grading.responses.speech import Size, Speech
from groundtrace.grading.responses.traces import read_trace
from groundtrace.inference.endpoint import check_extras
from groundtrace.inference.preflight import Health, check_roles, healths
from groundtrace.inference.runtime import runtime
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.case import Case, case_of
from groundtrace.rewards.locating import ObjectMasks, served_by
from groundtrace.rewards.recipes.base import Earned, HasVerdicts, Memory, Recipe, RewardedResponse, earned_by
from groundtrace.rewards.rows.row import FrameOf, TrainingRow, UnusableRow, sizes_of, together
from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.rewards.trajectory import Trajectory
from groundtrace.schemas.errors import naming_record
from groundtrace.schemas.records import FrameRef, MediaRef, Question, Verdict
from groundtrace.schemas.text import counted
from groundtrace.vision.decode import UndecodableMedia, decode_image
from groundtrace.vision.media import MediaStore

FIRST_WAIT_S = 2.0
MAX_WAIT_S = 60.0
WHERE = "reward."
"""The prefix of the reward's config keys, for messages."""


class JudgesDown(RuntimeError):
    """Raised if model servers that the reward needs, such as that of a judge, did not answer before the timeout."""


@dataclass(frozen=True)
class Scored(HasVerdicts):
    """Holds the scores of one response.

    Attributes:
        reward: the reward that the recipe computed; None if the response is unscored.
        outcome: the value of the verdict on the final answer, 1 for a right answer; None if it is unscored.
        text: the response with coordinates in pixels of the original image.
        verdicts: the verdicts of the scorers, which are the results of their checks.
    """

    reward: float | None
    outcome: float | None
    text: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class PromptResponses:
    """Holds a prompt with the responses to it, before they are scored.

    Attributes:
        row: the row of the prompt.
        question: the row's question with its images.
        texts: the responses, with coordinates in pixels of the original image.
        trajectories: for each response, the results of the code that it executed; None for a response whose code is not
            executed. () means None for all responses.
        frame_faults: for each response, why a tag of it could not be converted to pixels; "" if all tags were
            converted. () means "" for all responses.
    """

    row: TrainingRow
    question: Question
    texts: tuple[str, ...]
    trajectories: tuple[Trajectory | None, ...] = ()
    frame_faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class PreparedRow:
    """Holds a training row whose images were written to files, so that responses to its question can be scored.

    Attributes:
        row: the row without its images.
        question: the row's question, which refers to the files.
        sizes: the (width, height) of each image in pixels. If the row has clips (videos), only the size of its first
            image.
    """

    row: TrainingRow
    question: Question
    sizes: tuple[Size, ...]

    def with_responses(self, texts: Iterable[str], speech: Speech) -> PromptResponses:
        """Return the training row with responses whose coordinates are converted to pixels of the original image.

        ``texts`` are the responses as a model wrote them. ``speech`` describes how this model writes coordinates.
        """
        converted = [self.in_pixels(text, speech) for text in texts]
        in_pixels, faults = tuple(text for text, _ in converted), tuple(fault for _, fault in converted)
        return PromptResponses(self.row, self.question, in_pixels, frame_faults=faults)

    def in_pixels(self, text: str, speech: Speech) -> tuple[str, str]:
        """Return a response whose coordinates are converted to pixels of the original image, and why a tag of it could
        not be converted ("" if all were).

        ``text`` is the response as a model wrote it, and ``speech`` describes how this model writes coordinates. A text
        longer than ``MAX_RESPONSE_CHARS``, and a response to a row without images, are returned unchanged.
        """
        if not self.sizes or len(text) > MAX_RESPONSE_CHARS:
            return text, ""
        return speech.to_pixels(text, self.sizes), speech.frame_fault(text, self.sizes)


Part = Sequence[PromptResponses]
"""The prompts of one question whose responses are scored together: one prompt, or one for each stream (a way of
answering)."""


class Reward:
    """Scores responses with a reward recipe, which turns the results of scorers into rewards.

    Args:
        settings: the settings of the reward, with the recipe and the endpoints of the models.
        output: the folder for image files and for the cache of the models' replies.
        fails_fast: whether calls to a server that is known to be unreachable fail immediately. Set it to True in
            code that checks :meth:`health` instead of waiting for the server.
        recipe: replaces the recipe of the settings, if it is not None.

    Raises:
        groundtrace.config.extras.MissingExtra: if the Python packages that an endpoint needs are not installed.

    The attribute ``memory`` holds what the recipe has learnt in earlier training steps.
    """

    def __init__(
        self, settings: RewardSettings, output: Path, fails_fast: bool = False, recipe: Recipe | None = None
    ) -> None:
        check_extras(settings.endpoints[name] for name in settings.played.values())
        self._settings = settings
        self.recipe = settings.make_recipe() if recipe is None else recipe
        self.memory = Memory()
        self._media = MediaStore(str(output), str(output))
        self._models = ModelsSettings(
            tuple(settings.endpoints.items()),
            tuple(settings.played.items()),
            str(output / "cache" / "replies.sqlite"),
            str(output),
            str(output),
            fails_fast=fails_fast,
        )
        self._asks = tuple(dict.fromkeys(ask for scorer in self.recipe.runs for ask in scorer.asks))
        self._in_use: WeakValueDictionary[Question, ObjectMasks] = WeakValueDictionary()
        self._served = served_by(self._models, settings.synthetic_sources, makers=("policy",))
        self._known: dict[tuple[Question, tuple[FrameOf, ...], tuple[str, ...]], tuple[Question, tuple[Size, ...]]] = {}

    def check_endpoints(self) -> None:
        """Check that the models that the recipe (code that computes rewards) uses can answer: the endpoint of each role
        gets one cheap request.

        Raises :class:`groundtrace.inference.preflight.NotServed` if an endpoint cannot be used for its role. The
        message is one line with the role and a remedy.
        """
        runtime().submit(check_roles(runtime().models(self._models), self._asks, WHERE)).result()

    async def health(self) -> tuple[Health, ...]:
        """Check each endpoint (model server) that the reward recipe uses, and return the results. A result names the
        fault, if there is one.

        This coroutine must run on the event loop of :mod:`groundtrace.inference.runtime`.
        """
        return await healths(runtime().models(self._models), self._asks, WHERE)

    def score(
        self,
        speech: Speech,
        rows: Sequence[TrainingRow],
        texts: Sequence[Sequence[str]],
        trajectories: Sequence[Sequence[Trajectory | None]] | None = None,
    ) -> list[list[Scored]]:
        """Return the scores of the responses to each training row, in the order of ``rows`` and ``texts``.

        Adjacent rows that ask one question in different streams (with boxes, or only in words) are scored together.

        Args:
            speech: describes how the model writes coordinates.
            rows: the training rows, each of which holds one question and its prompt.
            texts: for each row, the responses as the model wrote them.
            trajectories: for each row and response, the results of the code that the response executed. None means that
                no response executes code.

        Raises:
            JudgesDown: if endpoints do not answer for ``wait_s`` seconds (a setting).
            UnusableRow: if an image cannot be decoded.
        """
        asked = [self.ready(row).with_responses(responses, speech) for row, responses in zip(rows, texts, strict=True)]
        if trajectories is not None:
            pairs = zip(asked, trajectories, strict=True)
            asked = [replace(each, trajectories=tuple(executed)) for each, executed in pairs]
        parts = self.wait_for([[asked[place] for place in places] for places in together(rows)])
        return [scored for part in parts for scored in part]

    def ready(self, row: TrainingRow) -> PreparedRow:
        """Write each distinct image of the row to a file in the output folder, and return the row prepared for scoring.

        Raises UnusableRow if an image cannot be decoded.
        """
        key = (row.question, row.frames, tuple(hashlib.sha256(data).hexdigest() for data, _ in row.images))
        if key not in self._known:
            refs = [self._media_ref(row, place, sha256) for place, sha256 in enumerate(key[2])]
            question = replace(row.question, media=media_of(refs, row.frames))
            self._known[key] = question, tuple(sizes_of(row, refs))
        return PreparedRow(replace(row, images=()), *self._known[key])

    def wait_for(self, parts: Sequence[Part]) -> list[list[list[Scored]]]:
        """Return the scores of the responses: a list for each part, which holds a list for each prompt of the part.

        A part is the prompts of one question whose responses are scored together. All parts are scored at the same
        time. Raises the same errors as :meth:`scored`.
        """
        return runtime().submit(self._all(parts)).result()

    async def _all(self, parts: Sequence[Part]) -> list[list[list[Scored]]]:
        tasks = [ensure_future(self.scored(part)) for part in parts]
        try:
            return await gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def scored(self, part: Part) -> list[list[Scored]]:
        """Return the scores of the responses to one question, with a list for each prompt of ``part``.

        ``part`` holds the prompts of the question, each with the responses to it. If endpoints (model servers) do not
        answer, the scoring is tried again for ``wait_s`` seconds (a setting). After this time, JudgesDown is raised.
        This coroutine must run on the event loop of :mod:`groundtrace.inference.runtime`.
        """
        deadline_s, wait_s = time.monotonic() + self._settings.wait_s, FIRST_WAIT_S
        while True:
            [tried] = await self.attempt([part])
            if not isinstance(tried, JudgesDown):
                return tried
            if time.monotonic() + wait_s > deadline_s:
                raise JudgesDown(
                    f"the endpoints of the reward did not answer for {self._settings.wait_s:g} s ({tried}): check that "
                    "their servers run"
                )
            await sleep(wait_s)
            wait_s = min(2 * wait_s, MAX_WAIT_S)

    async def attempt(self, parts: Sequence[Part]) -> list[list[list[Scored]] | JudgesDown]:
        """Try once to score the responses of each part.

        A part is the prompts of one question whose responses are scored together. The result has one entry for each
        part: the scores of its responses, with a list for each prompt; or JudgesDown if endpoints (model servers) did
        not answer. This coroutine must run on the event loop of :mod:`groundtrace.inference.runtime`.
        """
        models = runtime().models(self._models)
        return list(await gather(*(self._attempt(part, Session(models)) for part in parts)))

    def close(self) -> None:
        """Close the cache of the models' replies, and the connections to the models."""
        runtime().close(self._models)

    async def _attempt(self, part: Part, session: Session) -> list[list[Scored]] | JudgesDown:
        scored = await self._scored(part, session)
        down = [error for error in session.failures if error.is_of_server]
        return JudgesDown(f"{counted(len(down), 'call')} failed: {down[0]}") if down else scored

    async def _scored(self, part: Part, session: Session) -> list[list[Scored]]:
        """Return the scores of the responses to one question: a list for each prompt in ``part``.

        ``part`` holds each prompt with the responses to it. A question with streams (ways of answering) has one prompt
        for each stream, and any other question has one prompt. ``session`` makes the model calls.
        """
        masks = self._masks(part[0].question, session)
        groups = [_cases(asked, masks) for asked in part]
        cases = [case for group in groups for case in group]
        with naming_record(part[0].row.id):
            earned = iter(zip(cases, await earned_by(self.recipe, cases, self.memory), strict=True))
        return [
            [
                Scored(each.reward, each.outcome, case.text, each.verdicts)
                for case, each in itertools.islice(earned, len(group))
            ]
            for group in groups
        ]

    def _masks(self, question: Question, session: Session) -> ObjectMasks:
        """Return an instance of ObjectMasks, which finds the masks of the question's objects.

        A mask is the set of pixels that show one object. The models are called with ``session``. If this method is
        called again for the same question while an earlier instance is in use, the new instance shares the masks that
        the earlier one has found. So parallel scorings of the same question do not search twice.
        """
        known = self._in_use.get(question)
        masks = ObjectMasks(question, session, self._served) if known is None else replace(known, caller=session)
        self._in_use[question] = masks
        return masks

    def learn(self, step: Iterable[tuple[TrainingRow, Sequence[Scored]]]) -> dict[str, float | None]:
        """Update ``memory`` (what the recipe has learnt) after a training step; return the step's metrics by name.

        ``step`` holds each row of the step with the scores of its responses. A metric is None if it has no data.
        """
        judged = [
            RewardedResponse(row.id, each.text, row.context, Earned(each.reward, each.verdicts))
            for row, scored in step
            for each in scored
        ]
        metrics = self.recipe.metrics(self.memory, judged)
        self.memory = self.recipe.learn(self.memory, judged)
        return metrics

    def _media_ref(self, row: TrainingRow, place: int, sha256: str) -> MediaRef:
        data, name = row.images[place]
        try:
            decoded = decode_image(data)
        except UndecodableMedia as error:
            raise UnusableRow(f"{row.id}: image {place + 1} does not decode: {error}") from error
        suffix = Path(name).suffix.lstrip(".").lower()
        uri = self._media.write_drawn(data, suffix if suffix.isalnum() and suffix.isascii() else "bin")
        return MediaRef(uri, "image", sha256, "", "", decoded.width, decoded.height, decoded.orientation, len(data))


def _cases(asked: PromptResponses, masks: ObjectMasks) -> list[Case]:
    row = asked.row
    traces = [read_trace(index, text, masks.question.media) for index, text in enumerate(asked.texts)]
    executed = asked.trajectories or (None,) * len(traces)
    faults = asked.frame_faults or ("",) * len(traces)
    return [
        replace(
            case_of(trace, masks, row.entities, row.pointable),
            context=row.context,
            trajectory=trajectory,
            frame_fault=fault,
        )
        for trace, trajectory, fault in zip(traces, executed, faults, strict=True)
    ]


def media_of(refs: Sequence[MediaRef], frames: Sequence[FrameOf]) -> tuple[MediaRef, ...]:
    """Return the media of a row, which are images and video clips, in order.

    Images that are frames of the same clip are combined into the clip.

    ``refs`` are the image files of the row. ``frames`` has one entry for each of them: the index of its medium and, if
    the image is a frame of a clip, the frame's number and its time in seconds. ``frames`` is empty if the row has no
    clips.
    """
    if not frames:
        return tuple(refs)
    media: dict[int, MediaRef] = {}
    for ref, (index, number, t_s) in zip(refs, frames, strict=True):
        if number is None or t_s is None:
            media[index] = ref
            continue
        frame = FrameRef(number, t_s, ref.uri, ref.sha256, ref.size_bytes)
        clip = media.get(index, replace(ref, kind="video"))
        media[index] = replace(clip, frames=(*clip.frames, frame))
    return tuple(media[index] for index in sorted(media))
