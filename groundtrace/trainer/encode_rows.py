"""Encodes rows of shards as samples for a model: images for its vision tower, tags in its coordinate frame.

The pipeline's own decoder decodes the images, of one row at a time.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace

from PIL import Image

from groundtrace.rewards.rows.row import BadRow, TrainingRow, asked, sizes_of
from groundtrace.trainer.encode import encode_messages, encode_prompt
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import EncodedImage, Sample
from groundtrace.vision.decode import UndecodableMedia, decode_image


def encoded_images(vlm: VisionLanguageModel, row: TrainingRow) -> tuple[EncodedImage, ...]:
    """The row's images, decoded, upright and encoded for the vision tower. Raises BadRow, naming the image."""
    found = []
    for number, (data, _) in enumerate(row.images, 1):
        try:
            decoded = decode_image(data)
        except UndecodableMedia as error:
            raise BadRow(f"{row.id}: image {number} does not decode: {error}") from error
        found.append(vlm.encode_image(Image.fromarray(decoded.pixels), hashlib.sha256(data).hexdigest()))
    return tuple(found)


def sft_sample(vlm: VisionLanguageModel, row: TrainingRow) -> Sample:
    """An SFT row as a sample, with tags in the model's coordinate frame. Raises BadRow."""
    images = encoded_images(vlm, row)
    messages = [_in_frame(vlm, row, turn, images) for turn in row.messages]
    return encode_messages(vlm, row.id, messages, images)


def prompt_sample(vlm: VisionLanguageModel, row: TrainingRow, images: tuple[EncodedImage, ...] | None = None) -> Sample:
    """A row's turns up to the answer, as a prompt; ``images`` are the row's encoded images if already made.

    Raises BadRow.
    """
    images = encoded_images(vlm, row) if images is None else images
    turns = row.messages[:-1] if row.messages[-1]["role"] == "assistant" else row.messages
    return encode_prompt(vlm, row.id, [_in_frame(vlm, row, turn, images) for turn in turns], images)


def prompt_samples(
    vlm: VisionLanguageModel, row: TrainingRow, only: Collection[str] = ()
) -> list[tuple[TrainingRow, Sample]]:
    """The row's prompts, one for each of its streams (or those in ``only``), sharing its images. Raises BadRow."""
    rows, images = asked(row, only), encoded_images(vlm, row)
    return [(each, replace(prompt_sample(vlm, each, images), stream=each.context.stream or "")) for each in rows]


def _in_frame(
    vlm: VisionLanguageModel, row: TrainingRow, turn: Mapping[str, str], images: tuple[EncodedImage, ...]
) -> Mapping[str, str]:
    if turn["role"] != "assistant" or not images:
        return turn
    try:
        content = vlm.speech.to_model(turn["content"], sizes_of(row, images))
    except ValueError as error:
        raise BadRow(f"{row.id}: {error}") from error
    return {**turn, "content": content}
