"""Defines the interface of samplers, which draw responses from a model, and the order in which they draw the turns.

In a response, turns of the model alternate with observations of the environment, such as results of tools. While the
environment computes the observations of some responses, the sampler draws turns of other responses.
"""

import bisect
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Protocol

from groundtrace.inference.runtime import runtime
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import Rollout, Sample

MIN_PART = 16
"""The minimum number of turns that are drawn together. Turns are drawn in two parts of at least this size, so that the
environment answers one part while the other is drawn."""
Place = tuple[int, int]
"""Names a response by two numbers: the index of its prompt, and its index among the responses to this prompt."""
Take = Callable[[Place, Rollout], Awaitable[Sample | None]]
"""A function that takes the two numbers of a response (:data:`Place`) and its latest turn (one answer of the model).

The function returns the prompt of the response's next turn, or None if the response has ended.
"""


class SamplerError(RuntimeError):
    """Raised if responses cannot be sampled; the message contains the reason and the remedy."""


class Sampler(Protocol):
    """Draws responses from the policy (the model in training), turn by turn.

    Attributes:
        prompts_at_once: the maximum number of prompts whose turns are drawn at the same time.
    """

    prompts_at_once: int = 64

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        """Return ``n`` sampled turns (answers of the model) for each prompt, in the order of the prompts.

        The same weights and the same ``seed`` give the same turns. A response has one or several turns, and at most
        ``rollout.max_new_tokens`` tokens in total. If a prompt already contains turns of the response, the new turn has
        at most the remaining number of tokens.
        """
        ...

    def sync(self) -> None:
        """Make the sampler use the current weights of the policy (the model in training).

        Call this method before :meth:`sample` if the weights have changed since the last call, and call :meth:`release`
        after sampling. In a training on several GPUs, all processes must call both methods.
        """
        ...

    def release(self) -> None:
        """Free the memory that :meth:`sync` took. Call this after sampling, before the weights are trained again."""

    def stream(self, prompts: Sequence[Sample], n: int, seed: int) -> Iterator[tuple[int, list[Rollout]]]:
        """Yield, for each prompt, its index and ``n`` sampled turns (answers of the model), as soon as they are drawn.

        ``seed`` is the seed of the sampling. The prompts may be yielded in another order than the given one.
        """
        yield from enumerate(self.sample(prompts, n, seed))

    def play(self, prompts: Sequence[Sample], n: int, seed: int, take: Take) -> None:
        """Draw ``n`` complete responses to each prompt, turn by turn. A turn is one answer of the model.

        ``take`` is a function of the caller that collects the responses; it runs on another thread. Its arguments are
        the place of a response (the index of the prompt, and the index of the response among the responses to this
        prompt) and the new turn. ``take`` returns the prompt of the response's next turn, or None if the response has
        ended.

        The first turns of all responses are drawn first, then the second turns of all responses that continue, and so
        on. This order depends only on the responses, and not on how long tools take to compute their results. So the
        same weights and the same ``seed`` give the same responses.
        """
        going: dict[Place, Future[Sample | None]] = {}
        try:
            for index, drawn in self.stream(prompts, n, seed):
                going |= {(index, number): _taken(take, (index, number), turn) for number, turn in enumerate(drawn)}
            turn_number = 1
            while going:
                for part_number, places in enumerate(_parts(sorted(going), self.prompts_at_once * n)):
                    answered = [(place, going.pop(place).result()) for place in places]
                    ready = [(place, prompt) for place, prompt in answered if prompt is not None]
                    if not ready:
                        continue
                    part_seed = seed_of(seed, turn_number, part_number)
                    for index, [turn] in self.stream([prompt for _, prompt in ready], 1, part_seed):
                        place = ready[index][0]
                        going[place] = _taken(take, place, turn)
                turn_number += 1
        finally:
            for waiting in going.values():
                waiting.cancel()


def _taken(take: Take, place: Place, turn: Rollout) -> Future[Sample | None]:
    async def run() -> Sample | None:
        return await take(place, turn)

    return runtime().submit(run())


def _parts(places: Sequence[Place], most: int) -> list[Sequence[Place]]:
    """Divide a list of responses into parts of equal size; only the last part may be smaller.

    ``places`` identifies the responses (:data:`Place`). Each response needs its next turn (answer of the model). The
    model samples these turns part by part. The size of a part is half the number of responses, but at least
    ``MIN_PART`` and at most ``most``.
    """
    size = min(most, max(MIN_PART, (len(places) + 1) // 2))
    return [places[start : start + size] for start in range(0, len(places), size)]


def seed_of(*parts: int) -> int:
    """Return a seed that depends on all the given numbers, e.g. on the seed of a call and the index of a prompt."""
    return int.from_bytes(hashlib.sha256(" ".join(map(str, parts)).encode()).digest()[:7], "big")


def turn_length(vlm: VisionLanguageModel, ids: Sequence[int], stops: Sequence[str]) -> tuple[int, bool]:
    """Return the number of tokens of the first turn in ``ids``, and whether this turn is complete.

    A turn is one answer of the model, and ``ids`` are the tokens that were drawn for it. A turn ends after its first
    end token. If one of the texts in ``stops`` is complete earlier, the turn ends after the token that completes this
    text. If there is neither an end token nor such a text, the turn is not complete, and all tokens belong to it.
    """
    end = next((place for place, token in enumerate(ids, 1) if token in vlm.end_ids), None)
    length = len(ids) if end is None else end

    def is_complete(count: int) -> bool:
        text = vlm.tokenizer.decode(ids[:count], skip_special_tokens=False)
        return any(stop in text for stop in stops)

    if stops and is_complete(length):
        return bisect.bisect_left(range(length), True, key=is_complete), True
    return length, end is not None
