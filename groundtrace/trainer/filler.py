"""Gives all ranks micro-batches of the same kind, so that each makes the same collectives.

FSDP exchanges weights and gradients in each forward and backward pass of each layer. A rank with fewer micro-batches
than another, or without images where another has some, would leave the others waiting. Such a rank gets a *filler*: a
short sample without targets. A filler goes through every layer like any other sample, so all weights get a gradient on
every rank. The gradient is exactly 0, because no target depends on the filler: packed sequences do not attend to each
other. No loss is multiplied by 0, which would turn an infinite value into NaN.
"""

from collections.abc import Sequence

from PIL import Image

from groundtrace.trainer import ranks
from groundtrace.trainer.encode import MARK, encode_prompt
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import Sample

_NAME = "filler"


def filler(vlm: VisionLanguageModel, has_image: bool) -> Sample:
    """Return a sample without targets, with a small image if ``has_image`` is True."""
    size = vlm.processor.image_processor
    side = 2 * size.patch_size * size.merge_size
    images = [vlm.encode_image(Image.new("RGB", (side, side)), _NAME)] if has_image else []
    turn = {"role": "user", "content": MARK if has_image else _NAME}
    return encode_prompt(vlm, _NAME, [turn], images)


def evened(vlm: VisionLanguageModel, batches: Sequence[Sequence[Sample]]) -> list[list[Sample]]:
    """Return the micro-batches of this rank, with fillers where other ranks have more of them, or images.

    All ranks must call this function. If any rank has an image in a step, each micro-batch gets at least one. If no
    rank has one, the vision tower does not run, and its weights have no gradient, as in a training of one process.
    """
    own = [list(batch) for batch in batches]
    if ranks.count() == 1:
        return own
    facts = ranks.gathered((len(own), any(sample.images for batch in own for sample in batch)))
    has_image = any(has for _, has in facts)
    own += [[] for _ in range(max(number for number, _ in facts) - len(own))]
    lacking = [batch for batch in own if not (any(sample.images for sample in batch) if has_image else batch)]
    if lacking:
        added = filler(vlm, has_image)
        for batch in lacking:
            batch.append(added)
    return own
