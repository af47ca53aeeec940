"""Runs responses of several turns.

The turns of the policy (the model in training) alternate with the observations of the environment (results of tools).
An environment may end the response after its first turn. The tokens of a turn are kept as they were sampled. Only
observations are tokenised (:func:`groundtrace.trainer.encode.encode_observation`).
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from PIL import Image

from groundtrace.inference.runtime import runtime
from groundtrace.rewards.rows.row import TrainingRow, UnusableRow
from groundtrace.rewards.trajectory import Trajectory
from groundtrace.schemas.errors import naming_record
from groundtrace.trainer.encode import MARK, encode_observation, with_response
from groundtrace.trainer.environments.base import Environment, EnvironmentLost, Pixels, StepResult
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.row_sampler import Drawn
from groundtrace.trainer.sample import Limit, Observed, Rollout, Sample
from groundtrace.trainer.sampler import Place, Sampler
from groundtrace.trainer.settings import EnvironmentSettings, TrainerSettings
from groundtrace.vision.overlay import encode_png

T = TypeVar("T")
LEFT_OUT = "[image left out]"
"""The text that replaces an image in an observation, if the response already has ``environment.max_images`` images."""


class Episode:
    """Runs one response of the model to the prompt of a row (a question with its images), turn by turn.

    The environment answers each turn of the model with an observation, such as a tool's result. The response ends when
    the environment ends it, or after ``environment.max_turns`` turns. It is truncated at ``rollout.max_new_tokens``
    tokens, which include observations. The response is lost if the environment fails, or takes longer than
    ``environment.max_wait_s`` in total. A lost response is not scored. :attr:`rollout` is the response; its field
    ``limits`` lists the limits that were reached.
    """

    def __init__(self, vlm: VisionLanguageModel, row: TrainingRow, prompt: Sample, settings: TrainerSettings) -> None:
        self._vlm, self._row, self._prompt = vlm, row, prompt
        self._limits, self._max_tokens = settings.environment, settings.rollout.max_new_tokens
        self._environment: Environment = settings.environment.make()
        self._left_s = settings.environment.max_wait_s
        self._ids = list[int]()
        self._logprobs: list[float] | None = []
        self._observed = list[Observed]()
        self._texts = list[str]()
        self._turns, self._images = 0, 0
        self._is_truncated, self._lost, self._is_closed = False, "", False
        self._reached = set[Limit]()
        self._trajectory: Trajectory | None = None

    @property
    def rollout(self) -> Rollout:
        """Return the present state of the response: all its turns and observations (such as results of tools).

        The response is complete after :meth:`take` has returned None.
        """
        return Rollout(
            tuple(self._ids),
            self._is_truncated,
            None if self._logprobs is None else tuple(self._logprobs),
            tuple(self._observed),
            "\n".join(self._texts),
            self._trajectory,
            self._lost,
            tuple(limit for limit in Limit if limit in self._reached),
        )

    async def take(self, turn: Rollout) -> Sample | None:
        """Add a turn of the model to the response, and let the environment answer it, e.g. with a tool's result.

        Returns the prompt of the model's next turn, or None if the response has ended. The prompt contains all earlier
        turns and the environment's answers to them (observations).
        """
        self._add(turn.ids, turn.logprobs)
        self._turns += 1
        self._is_truncated = turn.is_truncated
        self._texts.append(self._vlm.text_of(turn.ids))
        goes_on = False
        try:
            observed = await self._answer()
            goes_on = observed is not None
            if observed is not None:
                start = len(self._ids)
                self._add(observed.ids.tolist(), (0.0,) * len(observed))
                self._observed.append(Observed(start, observed))
                return with_response(self._prompt, self._ids, self._prompt.group, observed=self._observed)
            self._trajectory = await self._environment.result()
        except (EnvironmentLost, UnusableRow) as error:
            self._lost = str(error)
        finally:
            if not goes_on:
                await self.close()
        return None

    async def close(self) -> None:
        """Free the resources of the response's environment, such as its sandbox. A second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            await self._environment.close()

    async def _answer(self) -> Sample | None:
        """Return the environment's answer to the latest turn as tokens; None if the response has ended.

        Such an answer is called an observation; it is, for example, a tool's result.

        Raises EnvironmentLost if the environment fails or takes too long, and UnusableRow if its observation cannot be
        encoded. In both cases, the response cannot continue.
        """
        if self._turns == 1:
            await self._in_time(self._environment.reset(self._row))
        step = await self._in_time(self._environment.step(self._texts[-1]))
        if self._is_truncated:
            self._reached.add(Limit.TOKENS)
        elif not step.is_done and self._turns == self._limits.max_turns:
            self._reached.add(Limit.TURNS)
        if step.is_done or self._reached & {Limit.TOKENS, Limit.TURNS}:
            return None
        observed, text = await asyncio.to_thread(self._encoded, step)
        if len(self._ids) + len(observed) >= self._max_tokens:
            self._is_truncated = True
            self._reached.add(Limit.TOKENS)
            return None
        self._texts.append(text)
        self._images += len(observed.images)
        return observed

    def _encoded(self, step: StepResult) -> tuple[Sample, str]:
        """Return the observation in ``step`` as tokens, and the text of the observation.

        An observation is the environment's answer to a turn, such as a tool's result. If the response already has
        ``environment.max_images`` images, the text :data:`LEFT_OUT` replaces each further image.
        """
        count = min(len(step.images), self._limits.max_images - self._images)
        if count < len(step.images):
            self._reached.add(Limit.IMAGES)
        name = f"{self._row.id}: an image of the environment"
        images = [self._vlm.encode_image(Image.fromarray(each), _key_of(each), name) for each in step.images[:count]]
        parts = step.text.split(MARK)
        text = MARK.join(parts[: count + 1]) + "".join(LEFT_OUT + part for part in parts[count + 1 :])
        has_ended = self._ids[-1] in self._vlm.end_ids
        return encode_observation(self._vlm, self._row, {"role": step.role, "content": text}, images, has_ended), text

    async def _in_time(self, work: Awaitable[T]) -> T:
        """Return the result of ``work``, the environment's work on its answer to a turn, e.g. an execution of code.

        Raises EnvironmentLost if all work of the environment for this response, including ``work``, takes longer than
        ``environment.max_wait_s`` seconds.
        """
        started = time.monotonic()
        try:
            with naming_record(self._row.id):
                return await asyncio.wait_for(work, self._left_s)
        except TimeoutError:
            limit_s = self._limits.max_wait_s
            self._reached.add(Limit.TIME)
            raise EnvironmentLost(
                f"the environment took longer than environment.max_wait_s = {limit_s:g} s: raise this setting"
            ) from None
        finally:
            self._left_s -= time.monotonic() - started

    def _add(self, ids: Sequence[int], logprobs: Sequence[float] | None) -> None:
        self._ids += ids
        if logprobs is None or self._logprobs is None:
            self._logprobs = None
        else:
            self._logprobs += logprobs


def _key_of(pixels: Pixels) -> str:
    """Return a hash of the shape and the pixels of an image, so that equal images have the same key."""
    return hashlib.sha256(f"{pixels.shape}".encode() + pixels.tobytes()).hexdigest()


def roll_out(
    vlm: VisionLanguageModel,
    sampler: Sampler,
    settings: TrainerSettings,
    drawn: Sequence[Drawn],
    n: int,
    seed: int,
    take_group: Callable[[int, list[Rollout]], None] = lambda *_: None,
) -> list[list[Rollout]]:
    """Sample ``n`` complete responses to each prompt, and return them in the order of the prompts.

    ``drawn`` holds pairs of a row and its prompt. ``sampler`` draws the turns of the model, and an environment (e.g. a
    sandbox for code) answers them with observations (e.g. the output of the code). The same weights and the same
    ``seed`` give the same responses if the observations depend only on the turns. At most ``environment.steps_at_once``
    environments work at the same time. As soon as all responses to a prompt are complete, ``take_group`` is called with
    the index of the prompt and these responses. All calls of ``take_group`` run on one thread, so ``take_group`` needs
    no lock. Raises SamplerError if turns cannot be sampled.
    """
    episodes = [[Episode(vlm, row, prompt, settings) for _ in range(n)] for row, prompt in drawn]
    left = [n] * len(episodes)
    gate = asyncio.Semaphore(settings.environment.steps_at_once)

    async def take(place: Place, turn: Rollout) -> Sample | None:
        index, number = place
        async with gate:
            prompt = await episodes[index][number].take(turn)
        left[index] -= prompt is None
        if not left[index]:
            take_group(index, [episode.rollout for episode in episodes[index]])
        return prompt

    try:
        sampler.play([prompt for _, prompt in drawn], n, seed, take)
    finally:
        runtime().submit(_closed([episode for group in episodes for episode in group])).result()
    return [[episode.rollout for episode in group] for group in episodes]


async def _closed(episodes: Sequence[Episode]) -> None:
    """Close the environments of all responses, unless they are already closed."""
    await asyncio.gather(*(episode.close() for episode in episodes))


def opened(row: TrainingRow, settings: EnvironmentSettings) -> TrainingRow:
    """Return the row (a question with its images) with the environment's first message appended to its last user turn.

    An environment answers the turns of the model, e.g. with tool results; ``settings`` names it. The images of its
    message are added to the row's images, and an assistant turn at the end of the row is left out. If the environment
    sends no first message, the row is returned unchanged. No built-in environment sends a first message.

    A row for the training method iVGR has two prompts: one requests boxes, and the other requests text only. The
    message is appended to both prompts. Raises UnusableRow if the environment cannot use the row, and EnvironmentLost
    if the environment fails.
    """
    environment = settings.make()
    environment.check_row(row)
    first = runtime().submit(environment.reset(row)).result()
    runtime().submit(environment.close()).result()
    if not first.text:
        return row
    *before, last = row.messages[:-1] if row.messages[-1]["role"] == "assistant" else row.messages
    shown = [encode_png(pixels) for pixels in first.images]
    return replace(
        row,
        messages=(*before, {**last, "content": last["content"] + first.text}),
        streams=tuple((stream, text + first.text) for stream, text in row.streams),
        images=(*row.images, *((data, f"{hashlib.sha256(data).hexdigest()}.png") for data in shown)),
    )
