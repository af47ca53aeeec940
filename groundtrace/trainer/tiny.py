"""Makes a tiny model with random weights, for tests of a training on a CPU (the command ``trainer tiny``).

The tokenizer is trained on the prompts and responses in the data of a run (a pipeline's execution), so that these texts
have few tokens. Each sentence that many prompts share, such as the instruction, becomes one token.
"""

import contextlib
import io
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image

from groundtrace.grading.responses.speech import Speech
from groundtrace.rewards.rows.row import TrainingRow, UnusableRow, per_stream, sizes_of
from groundtrace.rewards.rows.shards import Shards, shard_side
from groundtrace.schemas.coordinates import CoordinateFrame, OutOfFrame
from groundtrace.schemas.errors import UserError
from groundtrace.storage.files import new_folder
from groundtrace.trainer.encode import MARK
from groundtrace.trainer.tiny_model import MERGE, PATCH_PX, make_tiny_model

SPEECH = Speech(CoordinateFrame.MOLMO100, 0)
"""The form of coordinates for which the tokenizer is made: whole numbers from 0 to 100, each of them one token."""
MIN_IMAGE_SIDE_PX = 2 * PATCH_PX * MERGE
MAX_ROWS = 10_000
"""The maximum number of SFT rows, and of RL rows, from which the tokenizer is learnt."""
SHARED_BY, MIN_WORDS = 0.2, 3
"""A sentence of at least MIN_WORDS words becomes one token if at least the share SHARED_BY of all prompts contains it.

These tokens make the prompts shorter, and so a training step on a CPU faster.
"""
_SENTENCE = re.compile(r"(?<=[.?!])\s+|\n")


def make_tiny(data: Path, out: Path, seed: int, image_side_px: int) -> Path:
    """Write a tiny model, which can be trained on a CPU, to the folder ``out``, and return ``out``.

    ``data`` is the output folder of a run (a pipeline's execution), from whose texts the tokenizer is learnt. ``seed``
    is the seed of the random weights. An image that is larger than a square with the side ``image_side_px`` is shrunk
    to the area of this square. Raises ShardError if the run has no rows. Raises UserError if none of the rows can be
    used, if ``out`` is not empty or cannot be written, or if ``image_side_px`` is too small.
    """
    if image_side_px < MIN_IMAGE_SIDE_PX:
        raise UserError(f"--image-side must be at least {MIN_IMAGE_SIDE_PX}, got {image_side_px}")
    with new_folder(out) as folder:
        if not (found := list(_texts(data))):
            raise UserError(
                f"no row in {data} can be used for training, e.g. because images cannot be opened: repeat the run that "
                "made this folder, or name another run in --data"
            )
        prompts, responses = ([text for texts in side for text in texts] for side in zip(*found, strict=True))
        phrases = shared_sentences(prompts)
        weights = make_tiny_model(folder, [*prompts, *responses], seed, image_side_px, phrases)
    print(f"trainer: {weights:,} weights; the tokenizer is made for {len(prompts):,} prompts", file=sys.stderr)
    return out


def texts_of(row: TrainingRow) -> tuple[list[str], list[str]]:
    """Return the prompts and the responses in a training row, as the tiny model reads and writes them.

    The coordinates in responses are converted to those that the tiny model writes. Raises UnusableRow if an image
    cannot be opened, or if a point or box tag has a position outside its image.
    """
    try:
        sizes = sizes_of(row, [Image.open(io.BytesIO(data)) for data, _ in row.images])
        turns = [turn for each in (row, *per_stream(row)) for turn in each.messages]
        responses = [SPEECH.to_model(turn["content"], sizes) for turn in turns if turn["role"] == "assistant"]
    except (OSError, OutOfFrame) as error:
        raise UnusableRow(f"{row.id}: {error}") from error
    prompts = [turn["content"].replace(MARK, "") for turn in turns if turn["role"] != "assistant"]
    return list(dict.fromkeys(prompts)), list(dict.fromkeys(responses))


def shared_sentences(prompts: Sequence[str]) -> list[str]:
    """Return the sentences that many prompts contain, such as the instruction, sorted from long to short.

    A sentence is returned if at least the share ``SHARED_BY`` of the prompts contains it, and if it has at least
    ``MIN_WORDS`` words.
    """
    counts = Counter(sentence for prompt in prompts for sentence in {*_SENTENCE.split(prompt)})
    shared = [
        sentence
        for sentence, count in counts.items()
        if count >= SHARED_BY * len(prompts) and len(sentence.split()) >= MIN_WORDS
    ]
    return sorted(shared, key=lambda sentence: (-len(sentence), sentence))


def _texts(data: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the prompts and the responses of each usable SFT and RL row of a run, as a pair of lists for each row.

    At most the first :data:`MAX_ROWS` rows of each of the two sets are read. Raises ShardError if there are no shards
    (Parquet files of rows).
    """
    sides = [side for side in ("sft", "rl") if sorted((data / side).glob("*.parquet"))] or [shard_side(data)]
    for side in sides:
        with tempfile.TemporaryDirectory(prefix="trainer-tiny-") as cache:
            shards = Shards(data, side, Path(cache))
            for index in range(min(len(shards), MAX_ROWS)):
                with contextlib.suppress(UnusableRow):
                    yield texts_of(shards[index])
