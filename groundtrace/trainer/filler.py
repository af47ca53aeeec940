"""Makes the number of micro-batches equal on all ranks, so that no rank waits forever for another.

A rank is the process of one GPU. FSDP exchanges weights and gradients in each forward and backward pass of each layer.
So all ranks must make the same passes. If one rank had fewer micro-batches than the other ranks, or no images, the
other ranks would wait forever. Such a rank gets a *filler*: a short sample without targets of the loss.

A filler goes through every layer like any other sample, so all weights get a gradient on every rank. The gradient is
exactly 0, because no target depends on the filler: packed sequences do not attend to each other. Instead of a filler,
the rank could compute one of its samples again, and multiply the loss by 0. But 0 times an infinite loss is NaN.
"""

from collections.abc import Sequence

from PIL import Image

from groundtrace.trainer import ranks
from groundtrace.trainer.encode import MARK, encode_prompt
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sample import Sample

_NAME = "filler"


def filler(vlm: VisionLanguageModel, has_image: bool) -> Sample:
    """Return a filler: a short sample whose tokens do not count in the loss.

    A rank (the process of one GPU) computes a filler in two cases: it has fewer micro-batches than another rank, or one
    of its micro-batches has no images although there are images elsewhere in the step (:func:`evened`). If
    ``has_image`` is True, the filler has a small image.
    """
    size = vlm.processor.image_processor
    side = 2 * size.patch_size * size.merge_size
    images = [vlm.encode_image(Image.new("RGB", (side, side)), _NAME)] if has_image else []
    turn = {"role": "user", "content": MARK if has_image else _NAME}
    return encode_prompt(vlm, _NAME, [turn], images)


def evened(vlm: VisionLanguageModel, batches: Sequence[Sequence[Sample]]) -> list[list[Sample]]:
    """Return this rank's micro-batches, with fillers added so that all ranks have the same number of micro-batches.

    A rank is the process of one GPU. A filler is a short sample whose tokens do not count in the loss. ``batches`` are
    the micro-batches of this rank. If any rank has an image in this step, a filler with an image is added to each
    micro-batch without images. If no rank has an image, the vision tower does not run. Its weights then have no
    gradient, as in a training of one process. All ranks must call this function. In a training of one process, nothing
    is added.
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
