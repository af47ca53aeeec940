"""Drawing rows in a seeded order, epoch after epoch, and encoding them ahead of their use."""

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch

from trainer.sample import BadRow, Sample
from trainer.shards import ShardError, Shards, TrainingRow

KEPT_BYTES = 2**31
"""Encoded samples are kept for the next epoch up to this many bytes of patches; others are encoded again."""

Encode = Callable[[TrainingRow], Sample]
Drawn = tuple[TrainingRow, Sample]
LeftOut = Callable[[str, str], None]


@dataclass(frozen=True)
class Room:
    """How long a row may be: ``max_tokens`` with its answer, for which ``answer_tokens`` are kept."""

    max_tokens: int
    answer_tokens: int = 0

    def refusal(self, sample: Sample) -> str | None:
        """Why a sample is too long, or None."""
        if len(sample) + self.answer_tokens <= self.max_tokens:
            return None
        kept = f", of which {self.answer_tokens} are kept for the answer" if self.answer_tokens else ""
        return f"{sample.id}: {len(sample)} tokens, batch.max_tokens is {self.max_tokens}{kept}"


def first_samples(shards: Shards, encode: Encode, room: Room, count: int = 8) -> list[Sample]:
    """The first usable rows, to see what they are like."""
    found: list[Sample] = []
    for index in range(len(shards)):
        with contextlib.suppress(BadRow):
            sample = encode(shards[index])
            found += [sample] if room.refusal(sample) is None else []
        if len(found) == count:
            break
    return found


class Draws:
    """Rows in an order that is a function of seed and position only, so that a resumed run continues with the next.

    A row that cannot be used is left out, told to ``left_out`` (its number and the reason) once, and the next takes its
    place. ``position`` counts rows taken up, left out ones included.
    """

    def __init__(self, shards: Shards, encode: Encode, seed: int, room: Room, left_out: LeftOut) -> None:
        self.position = 0
        self._shards, self._encode, self._seed, self._room = shards, encode, seed, room
        self._left_out = left_out
        self._bad: set[int] = set()
        self._kept: dict[int, Drawn] = {}
        self._bytes = 0
        self._order: tuple[int, list[int]] = (-1, [])
        self._ahead: tuple[int, int, Future[tuple[list[Drawn], int]]] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encode")

    def take(self, count: int) -> list[Drawn]:
        """The next ``count`` usable rows. Raises ShardError when a whole epoch has none."""
        if self._ahead is not None and self._ahead[:2] == (self.position, count):
            drawn, self.position = self._ahead[2].result()
        else:
            drawn, self.position = self._thread.submit(self._from, self.position, count).result()
        self._ahead = (self.position, count, self._thread.submit(self._from, self.position, count))
        return drawn

    def _from(self, position: int, count: int) -> tuple[list[Drawn], int]:
        drawn: list[Drawn] = []
        unusable = 0
        while len(drawn) < count:
            found = self._read(self._index(position))
            position += 1
            if found is not None:
                drawn.append(found)
            unusable = 0 if found is not None else unusable + 1
            if unusable >= len(self._shards):
                raise ShardError(
                    f"no row of {len(self._shards)} can be used; the left-out rows are listed with reasons"
                )
        return drawn, position

    def _index(self, position: int) -> int:
        epoch, place = divmod(position, len(self._shards))
        if self._order[0] != epoch:
            generator = torch.Generator().manual_seed(self._seed + epoch)
            self._order = (epoch, torch.randperm(len(self._shards), generator=generator).tolist())
        return self._order[1][place]

    def _read(self, index: int) -> Drawn | None:
        if index in self._kept:
            return self._kept[index]
        if index in self._bad:
            return None
        try:
            row = self._shards[index]
            sample = self._encode(row)
        except BadRow as error:
            return self._leave_out(index, str(error))
        if (reason := self._room.refusal(sample)) is not None:
            return self._leave_out(index, reason)
        size = sum(image.patches.nbytes for image in sample.images)
        if self._bytes + size <= KEPT_BYTES:
            self._kept[index] = (row, sample)
            self._bytes += size
        return row, sample

    def _leave_out(self, index: int, reason: str) -> None:
        self._bad.add(index)
        self._left_out(f"row {index}", reason)
