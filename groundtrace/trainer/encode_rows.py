"""Rows of shards as samples of a model: images as its tower takes them, tags in its own frame.

Images are decoded by the same code that read them into the pipeline, and never more than one row's at a time.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace

from PIL import Image

from groundtrace.trainer.encode import encode_messages, encode_prompt
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import EncodedImage, Sample
from groundtrace.trainer.shards import BadRow, TrainingRow, sizes_of
from groundtrace.trainer.streams import asked
from groundtrace.vision.decode import UndecodableMedia, decode_image


def encoded_images(vlm: VisionLanguageModel, row: TrainingRow) -> tuple[EncodedImage, ...]:
    """The row's images, decoded and upright, as the vision tower takes them. Raises BadRow, naming the image."""
    found = []
    for number, (data, _) in enumerate(row.images, 1):
        try:
            decoded = decode_image(data)
        except UndecodableMedia as error:
            raise BadRow(f"{row.id}: image {number} does not decode: {error}") from error
        found.append(vlm.encode_image(Image.fromarray(decoded.pixels), hashlib.sha256(data).hexdigest()))
    return tuple(found)


def sft_sample(vlm: VisionLanguageModel, row: TrainingRow) -> Sample:
    """An SFT row as a sample, its tags in the model's own frame. Raises BadRow."""
    images = encoded_images(vlm, row)
    messages = [_in_frame(vlm, row, turn, images) for turn in row.messages]
    return encode_messages(vlm, row.id, messages, images)


def prompt_sample(vlm: VisionLanguageModel, row: TrainingRow, images: tuple[EncodedImage, ...] | None = None) -> Sample:
    """A row's turns up to the answer, as a sample to continue; ``images`` are the row's where they are encoded
    already. Raises BadRow.
    """
    images = encoded_images(vlm, row) if images is None else images
    turns = row.messages[:-1] if row.messages[-1]["role"] == "assistant" else row.messages
    return encode_prompt(vlm, row.id, [_in_frame(vlm, row, turn, images) for turn in turns], images)


def prompt_samples(
    vlm: VisionLanguageModel, row: TrainingRow, only: Collection[str] = ()
) -> list[tuple[TrainingRow, Sample]]:
    """What is asked of a row, stream by stream, as samples to continue that share its images. Raises BadRow."""
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
