"""Chooses the questions of the validation, and removes from the training all rows that share an image with them.

Two rows are in the same media group if they share an image file, directly or through other rows. All rows of a media
group are used either for the validation or for the training. A pipeline divides its questions into those for SFT and
those for RL in the same way (:mod:`groundtrace.stages.split_by_media_group`), but compares decoded pixels. This module
compares files, because to decode all images would take minutes. For the rows that a pipeline wrote, the result is the
same, because a pipeline writes one file for equal pixels.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from groundtrace.config.errors import ConfigError
from groundtrace.rewards.rows.records import Records
from groundtrace.rewards.rows.row import TrainingRow, UnusableRow
from groundtrace.rewards.rows.shards import ShardError, Shards, shards_to_evaluate
from groundtrace.schemas.media_groups import media_groups
from groundtrace.schemas.ordering import unit_hash
from groundtrace.schemas.text import counted
from groundtrace.storage.mirror import local_copy
from groundtrace.trainer.settings import TrainerSettings

Rows = Records | Shards
PURPOSE = "validation"
"""The name of this random choice. It is hashed with each group and question, so that their random order is independent
of other random choices (:func:`groundtrace.schemas.ordering.unit_hash`).
"""


@dataclass(frozen=True)
class HeldOut:
    """Holds the questions of the validation, on which the model is not trained.

    Attributes:
        rows: the rows with the questions.
        order: the rows' indices in the order in which they are asked.
        text: a description of the questions. A training is resumed only if this text is the same.
        left_out: the number of training rows that were removed because they share an image with these questions.
    """

    rows: Rows
    order: tuple[int, ...]
    text: str
    left_out: int = 0

    @property
    def note(self) -> str:
        """Return a line for the user: the numbers of questions of the validation, and of removed training rows."""
        shared = f"; not trained on because of their images: {counted(self.left_out, 'row')}" if self.left_out else ""
        return f"held out for the validation: {counted(len(self.order), 'row')}{shared}"


def hold_out(shards: Shards, settings: TrainerSettings, output: Path) -> tuple[Shards, HeldOut | None]:
    """Divide the rows into those to train on and the held-out questions of the validation, and return both.

    A row is a question with its images. ``shards`` holds all rows. ``output`` is the output folder of the training.
    Held-out questions are not trained on. If the settings define no validation, the results are ``shards`` and None.
    Raises ConfigError if ``validation.share`` cannot be applied, e.g. because nearly all rows show the same image and
    must stay together. Raises ShardError if ``validation.data`` cannot be read, or if no row is left to train on.
    For a URL in ``validation.data``, StoreUnavailable is raised if the store stays unreachable, and StorageError if the
    URL has no files or cannot be copied to this machine.
    """
    own = settings.validation
    if not own.is_on:
        return shards, None
    if own.data:
        return _without(shards, _opened(local_copy(own.data), settings, output), settings)
    groups = _groups(_media(shards))
    chosen = _chosen(groups, own.share, settings.seed)
    held = [index for index, group in enumerate(groups) if group in chosen]
    rows = shards.subset(held)
    kept = shards.subset([index for index, group in enumerate(groups) if group not in chosen])
    return kept, HeldOut(rows, _order(len(rows), settings.seed), _text(rows, rows.sha256, settings))


def text_of(held: HeldOut | None) -> str:
    """Return a text that describes the validation's questions; "" without a validation (``held`` is None).

    ``held`` holds the questions. The text is saved in each checkpoint. A training can be resumed from the checkpoint
    only if the text is still the same (:mod:`groundtrace.trainer.identity`).
    """
    return "" if held is None else held.text


def _chosen(groups: Sequence[str], share: float, seed: int) -> set[str]:
    """Return the media groups (sets of rows that share images) to hold out from the training.

    Together, the returned groups have about ``share * n`` of the n rows, and never more than this number rounded up.
    ``groups`` holds the name of each row's group. The groups are tried in the order of their hashes, which depend on
    ``seed``. Raises ConfigError if no group is small enough, or if the result would be all groups.
    """
    sizes, room = Counter(groups), math.ceil(share * len(groups))
    wanted, chosen = room, set[str]()
    for group in sorted(sizes, key=lambda name: unit_hash(name, seed, PURPOSE)):
        if sizes[group] <= room:
            chosen.add(group)
            room -= sizes[group]
    if not chosen:
        raise ConfigError(
            f"validation.share = {share:g} is too low: it lets the trainer hold out {counted(wanted, 'row')} of "
            f"{len(groups)}, but all rows with the same image are held out together, and each image has "
            f"{min(sizes.values())} rows or more. Raise validation.share, or set validation.data"
        )
    if len(chosen) == len(sizes):
        raise ConfigError(
            f"validation.share = {share:g} is too high: all {counted(len(groups), 'row')} would be held out, and none "
            "would be left to train on. Lower validation.share, or set validation.data"
        )
    return chosen


def _without(shards: Shards, rows: Rows, settings: TrainerSettings) -> tuple[Shards, HeldOut | None]:
    """Return the rows to train on, and the held-out questions, which are only used for the validation.

    ``shards`` holds all rows of the training data, and ``rows`` holds the held-out questions.

    The rows to train on are the rows of ``shards`` that do not share an image with a held-out question, neither
    directly nor through other rows. Raises ShardError if no row is left to train on.
    """
    readable = () if isinstance(rows, Shards) else _readable(rows)
    held = _media(rows) if isinstance(rows, Shards) else [_media_of(row) for row in readable]
    own = _media(shards)
    groups = _groups([*own, *held])
    shared = set(groups[len(own) :])
    kept = [index for index, group in enumerate(groups[: len(own)]) if group not in shared]
    if not kept:
        raise ShardError(
            f"every training row shares an image with {settings.validation.data}: set validation.data to "
            "questions about other images"
        )
    digest = rows.sha256 if isinstance(rows, Shards) else _digest(readable, held)
    left_out = len(own) - len(kept)
    order, text = _order(len(rows), settings.seed), _text(rows, digest, settings)
    return shards.subset(kept) if left_out else shards, HeldOut(rows, order, text, left_out)


def _opened(data: Path, settings: TrainerSettings, output: Path) -> Rows:
    if (data / "records.jsonl").is_file():
        return Records(data, settings.eval.form)
    return shards_to_evaluate(data, output / "rows")


def _readable(rows: Records) -> list[TrainingRow]:
    """Return the records that can be read. The validation reports the other records."""
    found = []
    for index in range(len(rows)):
        try:
            found.append(rows[index])
        except UnusableRow:
            continue
    return found


def _media(shards: Shards) -> list[tuple[str, ...]]:
    """Return, for each row, the digests of its images.

    A row without images gets a text with its index instead of a digest. So it shares nothing with another row.
    """
    return [found or (f"row {index} of {shards.side}",) for index, found in enumerate(shards.images_sha256())]


def _media_of(row: TrainingRow) -> tuple[str, ...]:
    return tuple(hashlib.sha256(data).hexdigest() for data, _ in row.images) or (f"record {row.id}",)


def _digest(rows: Sequence[TrainingRow], media: Sequence[tuple[str, ...]]) -> str:
    """Return a digest of the ids, messages, gold answers, gold boxes and images of the rows.

    ``media`` holds the digests of each row's images.
    """
    asked = [(row.id, row.messages, row.question.answer, row.question.gold_boxes) for row in rows]
    return hashlib.sha256(repr((asked, media)).encode()).hexdigest()


def _groups(media: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the name of each row's media group (a set of rows that share images, directly or through other rows).

    The name of a group is the smallest digest in it. ``media`` holds the digests of each row's images.
    """
    return [group for _, group in media_groups((str(index), hashes) for index, hashes in enumerate(media))]


def _order(rows: int, seed: int) -> tuple[int, ...]:
    return tuple(sorted(range(rows), key=lambda index: unit_hash(str(index), seed, PURPOSE)))


def _text(rows: Rows, digest: str, settings: TrainerSettings) -> str:
    own = settings.validation
    asked = own.questions or "all"
    return f"{len(rows)} rows, ids sha256 {digest[:12]}, of which {asked} are asked {own.samples} times"
