"""Draws the training rows of each step in a seeded random order, and encodes the next batch in a background thread.

In a training on several GPUs, each GPU has one process, a *rank*. All ranks draw the same rows in the same order, as
one process would. But each rank encodes only a part of the rows. With two ranks, for example, the first rank encodes
the rows 0, 2, 4, … of a step, and the second rank encodes the rows 1, 3, 5, …. A rank assumes that the rows of the
other ranks can be used. If a rank finds that one of its rows cannot be used (e.g. because it is too long), all ranks
draw the step's rows again without this row.
"""

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch

from groundtrace.rewards.rows.row import TrainingRow, UnusableRow
from groundtrace.rewards.rows.shards import ShardError, Shards
from groundtrace.trainer import ranks
from groundtrace.trainer.plan import Part, next_part
from groundtrace.trainer.sample import Sample

KEPT_BYTES = 2**31
"""The maximum size of the cache of encoded samples, in bytes of image patches.

If the samples of a row no longer fit in the cache, the row is encoded again each time that it is drawn.
"""

Drawn = tuple[TrainingRow, Sample]
Encode = Callable[[TrainingRow], Sequence[Drawn]]
"""A function that encodes a row as samples, and returns a list of pairs (row, sample).

The row in a pair is the encoded row, or a copy of it that has only the prompt of the sample. The function raises
UnusableRow if the row cannot be used.
"""
Found = Sequence[Drawn | None]
"""The samples of a row, as one rank (the process of one GPU) knows them; empty if the row is left out.

Only one rank encodes the row. For every other rank, each sample is None, so only the number of samples is known.
"""
LeftOut = Callable[[str, str], None]
Position = int | tuple[int, ...]
"""The type of a position in the data.

It is the number of rows consumed: the rows drawn, and the rows left out because they cannot be used. With several parts
of a batch plan, it is a tuple: the number of rows consumed from each part, then the number of rows drawn from each part
(without the rows left out).
"""


@dataclass(frozen=True)
class LengthLimit:
    """Holds the maximum length of an encoded row in tokens.

    ``max_tokens`` is this maximum. It includes ``answer_tokens`` tokens that are reserved for an answer to be sampled.
    """

    max_tokens: int
    answer_tokens: int = 0

    def refusal(self, sample: Sample) -> str | None:
        """Return the reason why a sample (an encoded row) is too long; None if it is short enough."""
        if len(sample) + self.answer_tokens <= self.max_tokens:
            return None
        kept = f", of which {self.answer_tokens} are kept for the answer" if self.answer_tokens else ""
        return f"{sample.id}: {len(sample)} tokens, batch.max_tokens is {self.max_tokens}{kept}"


def first_samples(shards: Shards, encode: Encode, room: LengthLimit, count: int = 8) -> list[Sample]:
    """Return the first usable training rows as samples (tokenised rows), e.g. to estimate the average length.

    The result has at least ``count`` samples, or all samples if there are fewer. ``encode`` is a function that returns
    the samples of a row. ``room`` is the maximum length of a sample; rows with a longer sample are skipped.
    """
    found: list[Sample] = []
    for index in range(len(shards)):
        with contextlib.suppress(UnusableRow):
            samples = [sample for _, sample in encode(shards[index])]
            found += samples if all(room.refusal(sample) is None for sample in samples) else []
        if len(found) >= count:
            break
    return found


class RowSampler:
    """Draws training rows in a random order, and encodes them as samples (tokenised prompts or conversations).

    The next rows depend only on the seed and on the attribute ``position``. This attribute is the number of rows
    that were already drawn or left out. With several parts of a batch plan, it is a tuple with such numbers for each
    part (:data:`Position`). To resume a training, set ``position`` to the saved value. If a row cannot be used, the
    next row replaces it.

    - ``shards`` holds the rows, and ``seed`` is the seed of their order.
    - ``encode`` is a function that returns the samples of a row, one for each of its prompts.
    - ``room`` is the maximum length of a sample. A row with a longer sample cannot be used.
    - ``left_out`` is called once for each row that cannot be used, with the row's name and the reason.
    - ``parts`` are the parts of a batch plan, which states which share of a batch comes from which rows. If they are
      given, :func:`groundtrace.trainer.plan.next_part` chooses the part from which each row is drawn. As soon as
      all rows of a part were drawn or left out, a new epoch begins for this part alone: its rows are shuffled again.
    - ``samples_of`` is a function that returns the number of samples of a row, given its index. It is used only for
      rows that other ranks (the processes of the other GPUs) encode.
    """

    def __init__(
        self,
        shards: Shards,
        encode: Encode,
        seed: int,
        room: LengthLimit,
        left_out: LeftOut,
        parts: Sequence[Part] = (),
        samples_of: Callable[[int], int] = lambda index: 1,
    ) -> None:
        self.position: Position = 0
        self._shards, self._encode, self._seed, self._room = shards, encode, seed, room
        self._parts = tuple(parts) or (Part(range(len(shards))),)
        self._left_out, self._samples_of = left_out, samples_of
        self._bad: set[int] = set()
        self._news: list[tuple[int, str]] = []
        self._kept: dict[int, Sequence[Drawn]] = {}
        self._bytes = 0
        self._orders: dict[int, tuple[int, list[int]]] = {}
        self._ahead: tuple[Position, int, Future[tuple[list[Drawn | None], Position]]] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encode")

    def take(self, count: int) -> list[Drawn]:
        """Draw the next ``count`` samples, and return those that this rank encodes. The samples of a row are adjacent.

        A sample is an encoded prompt or conversation; a row has one sample or several. A rank is the process of one
        GPU. A batch plan divides the rows into parts, and sets each part's share of the samples. In two cases, fewer
        than ``count`` samples are drawn:

        - The next row has more samples than are still needed. The samples of a row are never split.
        - The plan has several parts, and the only rows that still fit belong to parts that are already above their
          share.

        All ranks must call this method. Raises ShardError if no row can be used, or if no row of a part can be used.
        """
        drawn, position = ranks.together(lambda: self._drawn(count))
        while self._learn_of_bad_rows():
            self._ahead = None
            drawn, position = ranks.together(lambda: self._drawn(count))
        self.position = position
        self._ahead = (position, count, self._thread.submit(self._from, position, count))
        return [each for each in drawn if each is not None]

    def _drawn(self, count: int) -> tuple[list[Drawn | None], Position]:
        if self._ahead is not None and self._ahead[:2] == (self.position, count):
            return self._ahead[2].result()
        return self._thread.submit(self._from, self.position, count).result()

    def _learn_of_bad_rows(self) -> bool:
        """Exchange the unusable rows that the ranks found since the previous exchange; return whether there are any.

        A rank is the process of one GPU.

        In a training of one process, nothing is exchanged, and the result is False.
        """
        if ranks.count() == 1:
            return False
        own, self._news = self._news, []
        found = sorted({row for news in ranks.gathered(own) for row in news})
        for index, reason in found:
            if index not in self._bad:
                self._leave_out(index, reason)
        self._news = []
        return bool(found)

    def _from(self, position: Position, count: int) -> tuple[list[Drawn | None], Position]:
        parts = len(self._parts)
        state = position if isinstance(position, tuple) else (position,) if parts == 1 else (0,) * 2 * parts
        taken, rows_drawn = list(state[:parts]), list(state[parts:])
        target = count + sum(part.prompts * rows for part, rows in zip(self._parts, rows_drawn, strict=False))
        drawn: list[Drawn | None] = []
        number = 0
        while len(drawn) < count:
            at = 0 if parts == 1 else next_part(self._parts, rows_drawn, target, count - len(drawn))
            if at is None:
                break
            found, after = self._next(at, taken[at], number % ranks.count() == ranks.index())
            if len(drawn) + len(found) > count:
                break
            drawn += found
            taken[at] = after
            number += 1
            if rows_drawn:
                rows_drawn[at] += 1
        return drawn, taken[0] if parts == 1 else (*taken, *rows_drawn)

    def _next(self, at: int, taken: int, is_own: bool) -> tuple[Found, int]:
        """Return the samples of the next usable row of part ``at`` of the batch plan, and the new value of ``taken``.

        Without a batch plan, all rows are in part 0. ``taken`` is the number of rows of this part that have already
        been consumed, including unusable rows. ``is_own`` is True if this rank (the process of one GPU) encodes the
        row. If another rank encodes the row, each sample is None. Raises ShardError if the part has no usable row.
        """
        part = self._parts[at]
        for passed in range(len(part.rows)):
            if found := self._read(self._index(at, taken + passed), is_own):
                return found, taken + passed + 1
        named = f" with the streams {part.name}" if part.name else ""
        raise ShardError(
            f"none of the {len(part.rows)} rows{named} can be used: see the reasons in left_out.jsonl of the output "
            "folder"
        )

    def _index(self, at: int, place: int) -> int:
        rows = self._parts[at].rows
        epoch, place = divmod(place, len(rows))
        if at not in self._orders or self._orders[at][0] != epoch:
            generator = torch.Generator().manual_seed(self._seed + epoch)
            self._orders[at] = (epoch, torch.randperm(len(rows), generator=generator).tolist())
        return rows[self._orders[at][1][place]]

    def _read(self, index: int, is_own: bool) -> Found:
        """Return the samples of the row with the index ``index``; empty if the row is left out.

        If another rank (the process of another GPU) encodes the row (``is_own`` is False), each sample is None.
        """
        if index in self._bad:
            return ()
        if not is_own:
            return (None,) * self._samples_of(index)
        if index in self._kept:
            return self._kept[index]
        try:
            drawn = self._encode(self._shards[index])
        except UnusableRow as error:
            return self._leave_out(index, str(error))
        if reasons := [reason for _, sample in drawn if (reason := self._room.refusal(sample)) is not None]:
            return self._leave_out(index, reasons[0])
        images = {image.key: image.patches.nbytes for _, sample in drawn for image in sample.images}
        if self._bytes + sum(images.values()) <= KEPT_BYTES:
            self._kept[index] = drawn
            self._bytes += sum(images.values())
        return drawn

    def _leave_out(self, index: int, reason: str) -> tuple[()]:
        self._bad.add(index)
        self._news.append((index, reason))
        self._left_out(f"row {index}", reason)
        return ()
