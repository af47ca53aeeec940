"""The order in which turns are drawn: in parts, of which one waits for the environment while another is drawn."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch

from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.sampler import MIN_PART, Place, Sampler, SamplerError, seed_of


def prompt(index: int) -> Sample:
    none = torch.zeros(1, dtype=torch.bool)
    return Sample(f"q{index}", f"q{index}", torch.tensor([index]), none, none, (), ())


@dataclass
class Counting(Sampler):
    """Notes each call: its prompts, its number of turns and its seed."""

    prompts_at_once: int = 64
    calls: list[tuple[list[int], int, int]] = field(default_factory=list)
    second: threading.Event = field(default_factory=threading.Event)

    def sync(self) -> None:
        """Nothing to load."""

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        self.calls.append(([int(each.ids[0]) for each in prompts], n, seed))
        if len(self.calls) == 2:
            self.second.set()
        return [[Rollout((number,), False) for number in range(n)] for _ in prompts]


def test_one_part_is_executed_while_the_other_is_drawn() -> None:
    """Observations of the second half come only once turns of the first half are drawn."""
    sampler, taken = Counting(), dict[Place, int]()

    async def take(place: Place, turn: Rollout) -> Sample | None:
        taken[place] = taken.get(place, 0) + 1
        if place[0] == 1 and taken[place] == 1:
            assert await asyncio.to_thread(sampler.second.wait, 30)
        return prompt(place[0]) if taken[place] < 2 else None

    sampler.play([prompt(0), prompt(1)], MIN_PART, 5, take)
    assert set(taken.values()) == {2}
    assert sampler.calls == [
        ([0, 1], MIN_PART, 5),
        ([0] * MIN_PART, 1, seed_of(5, 1, 0)),
        ([1] * MIN_PART, 1, seed_of(5, 1, 1)),
    ]


def test_responses_that_have_ended_are_not_drawn_again() -> None:
    """Of six responses half go on to a second turn, and one to a third."""
    sampler, turns = Counting(), dict[Place, int]()

    async def take(place: Place, turn: Rollout) -> Sample | None:
        turns[place] = turns.get(place, 0) + 1
        return prompt(place[0]) if turns[place] <= place[1] // 2 * (1 + place[0]) else None

    sampler.play([prompt(0), prompt(1)], 3, 0, take)
    assert turns == {(0, 0): 1, (0, 1): 1, (0, 2): 2, (1, 0): 1, (1, 1): 1, (1, 2): 3}
    assert [(ids, n) for ids, n, _ in sampler.calls] == [([0, 1], 3), ([0, 1], 1), ([1], 1)]


def test_a_failed_call_cancels_what_waits() -> None:
    cancelled = threading.Event()

    class Failing(Counting):
        def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
            if self.calls:
                raise SamplerError("the server is gone")
            return super().sample(prompts, n, seed)

    async def take(place: Place, turn: Rollout) -> Sample | None:
        if place[1] >= MIN_PART:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.set()
                raise
        return prompt(0)

    with pytest.raises(SamplerError, match="the server is gone"):
        Failing().play([prompt(0)], 2 * MIN_PART, 0, take)
    assert cancelled.wait(30)


def test_seeds_differ() -> None:
    assert len({seed_of(0, 1, 2), seed_of(0, 12), seed_of(1, 1, 2), seed_of(0, 1, 3), seed_of(0)}) == 5
    assert 0 <= seed_of(7) < 2**56
