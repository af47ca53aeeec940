"""The interface of samplers, and the order in which they draw the turns of many responses.

While the environment answers some responses, the sampler draws turns of others.
"""

import bisect
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Protocol

from groundtrace.inference.runtime import runtime
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import Rollout, Sample

LEAST_PART = 16
"""Turns are drawn in two parts, so that one part is executed while the other is drawn, if each has so many turns."""
Place = tuple[int, int]
"""The index of a prompt, and that of a response to it."""
Take = Callable[[Place, Rollout], Awaitable[Sample | None]]
"""Takes a turn of a response, and returns the prompt of its next turn; None if the response has ended."""


class SamplerError(RuntimeError):
    """Answers cannot be sampled; the message says why and what to do."""


class Sampler(Protocol):
    """Draws responses from the current policy, turn by turn.

    Attributes:
        prompts_at_once: the number of prompts that are drawn from at once.
    """

    prompts_at_once: int = 64

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        """Return ``n`` turns that answer each prompt, in order. The same weights and seed give the same turns.

        A prompt that ends within a response leaves the rest of ``max_new_tokens`` for the turn.
        """
        ...

    def sync(self) -> None:
        """Load the policy's current weights. Must be called before :meth:`sample` whenever they have changed."""
        ...

    def stream(self, prompts: Sequence[Sample], n: int, seed: int) -> Iterator[tuple[int, list[Rollout]]]:
        """Yield the index and the turns of each prompt of :meth:`sample`, as soon as they are drawn."""
        yield from enumerate(self.sample(prompts, n, seed))

    def play(self, prompts: Sequence[Sample], n: int, seed: int, take: Take) -> None:
        """Draw ``n`` responses to each prompt to their ends: each turn goes to ``take``, which runs on another thread.

        All responses draw their first turns, then all that go on their second ones, and so on, in parts whose order
        depends on the responses alone. The same weights and seed therefore give the same responses, however long each
        observation takes.
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
    """Return the places in parts of at most ``most``: two of them, if each has at least ``LEAST_PART`` places."""
    size = min(most, max(LEAST_PART, (len(places) + 1) // 2))
    return [places[start : start + size] for start in range(0, len(places), size)]


def seed_of(*parts: int) -> int:
    """Return the seed of these numbers, such as a call's seed and the index of a prompt."""
    return int.from_bytes(hashlib.sha256(" ".join(map(str, parts)).encode()).digest()[:7], "big")


def turn_length(vlm: VisionLanguageModel, ids: Sequence[int], stops: Sequence[str]) -> tuple[int, bool]:
    """Return the number of tokens of the turn at the beginning of ``ids``, and whether it has an end.

    A turn ends with the first end token, or with the token that completes the first of the ``stops``.
    """
    end = next((place for place, token in enumerate(ids, 1) if token in vlm.end_ids), None)
    length = len(ids) if end is None else end

    def is_complete(count: int) -> bool:
        text = vlm.tokenizer.decode(ids[:count], skip_special_tokens=False)
        return any(stop in text for stop in stops)

    if stops and is_complete(length):
        return bisect.bisect_left(range(length), True, key=is_complete), True
    return length, end is not None
