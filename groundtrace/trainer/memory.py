"""Estimates the memory of a training step before training starts.

In a training on N GPUs, the memory of each GPU is

    (weights + float32 master weights and gradients + the optimiser's moments + reference model) / N
    + the weights that FSDP gathers (0 if N = 1) + a server on the same GPU + the largest phase

Each of the N GPUs holds its share of every weight, and makes its own forward passes of ``batch.tokens`` tokens. The
moments are two numbers per weight (one with Muon).

FSDP gathers weights by blocks. A block is a layer of the language model or of the vision tower. Each GPU holds complete
copies of the following weights and gradients:

- the weights outside all blocks (embeddings, output layer, norms), and their gradients;
- the weights of two blocks: the block that is computed, and the next block;
- the gradients of one block, twice: in the weights' type, and in float32 for the sum over the GPUs.

A training step has three phases, one after the other:

- The update (forward and backward pass) needs logits, and the activations of each token and image patch. Logits are
  computed for at most :data:`groundtrace.trainer.policy.CHUNK` tokens at a time, and only these need memory. The
  activations are kept for the backward pass. They need 34 bytes for each token, layer and hidden dimension, if the
  numbers have 16 bits. This is Eq. 2 of Korthikanti et al. 2022 (arXiv:2205.05198) without its term for attention
  scores, because the attention kernels used here do not keep these scores. There are two exceptions. With gradient
  checkpointing, each layer keeps only one hidden state per token, and only one layer at a time (the layer that is
  recomputed) needs the 34 bytes. A vision tower that is not trained needs only the activations of one of its layers.
- The optimiser's step needs a temporary float32 copy of the weights, because torch updates all weights of a GPU
  together.
- The rollouts (the sampling of answers) need memory only if transformers samples, not a server. They need the keys and
  values of all tokens and the images of all prompts that are sampled together, and the activations of one layer of the
  vision tower. The estimate assumes that every answer has the maximum length. If N > 1, each GPU also holds a complete
  copy of all weights during the sampling.

The average numbers of tokens and patches per row are measured on the first rows of the data. The estimate assumes that
each response gets as many images in observations (e.g. tool results) as its limits allow (:func:`observed_patches`).
Memory fragmentation is not included.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from groundtrace.trainer.model import is_of_tower
from groundtrace.trainer.policy import CHUNK
from groundtrace.trainer.sample import Sample
from groundtrace.trainer.settings import TrainerSettings

_KEPT_BYTES_PER_HIDDEN = 34
GIB = 2**30


@dataclass(frozen=True)
class Estimate:
    """Holds the estimated memory of a training step on one GPU.

    ``parts`` holds pairs of a name and a size in bytes, e.g. ("gradients", 4096).
    """

    parts: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        """Return the estimated memory in bytes: the sum of all parts."""
        return sum(size for _, size in self.parts)


@dataclass(frozen=True)
class AverageRow:
    """Holds the average numbers of tokens, of image patches and of images in an encoded training row.

    For GRPO, it is the row of a question; the answer that is sampled is not included. ``images`` is 0 if the number of
    images is unknown.
    """

    tokens: float = 0.0
    patches: float = 0.0
    images: float = 0.0


def rows_like(samples: Sequence[Sample]) -> AverageRow:
    """Return the average numbers of tokens, of image patches and of images of the samples (encoded training rows).

    All are 0 if there are no samples.
    """
    count = max(1, len(samples))
    patches = sum(len(image.patches) for sample in samples for image in sample.images)
    images = sum(len(sample.images) for sample in samples)
    return AverageRow(sum(map(len, samples)) / count, patches / count, images / count)


def observed_patches(model: Any, settings: TrainerSettings) -> int:
    """Return the largest number of image patches that the observations of one response can have together.

    An observation is an environment's answer to a turn, such as a tool's result. The function assumes
    ``environment.max_images`` images of the largest size that the environment and the model allow. If these images have
    more than ``rollout.max_new_tokens`` tokens, the result is lowered to the patches of ``rollout.max_new_tokens``
    tokens. The result is 0 if observations have no images.
    """
    environment, tower = settings.environment, model.config.vision_config
    in_pixels = environment.make().max_image_pixels()
    if environment.max_turns == 1 or not environment.max_images or in_pixels == 0:
        return 0
    by_tokens = settings.rollout.max_new_tokens * tower.spatial_merge_size**2
    pixels = min((each for each in (in_pixels, settings.model.max_pixels) if each is not None), default=None)
    if pixels is None:
        return by_tokens
    return min(by_tokens, environment.max_images * math.ceil(pixels / tower.patch_size**2))


def fullest_row(model: Any, settings: TrainerSettings, is_grpo: bool) -> AverageRow:
    """Return the size of the longest training row that the settings allow, for estimates without data.

    All tokens of this row are image tokens, because they need the most memory. If ``is_grpo`` is True, the row is
    shorter by ``rollout.max_new_tokens`` tokens, which the sampled answer needs.
    """
    tokens = settings.batch.max_tokens - (settings.rollout.max_new_tokens if is_grpo else 0)
    return AverageRow(tokens, tokens * model.config.vision_config.spatial_merge_size**2)


def estimate(model: Any, settings: TrainerSettings, rows: AverageRow, is_grpo: bool = False, gpus: int = 1) -> Estimate:
    """Return the memory that one training step needs on each GPU, as an estimate with the size of each part.

    ``model`` may be an outline, i.e. a model whose weights have shapes but no values
    (:func:`groundtrace.trainer.outline.outline_of`). The model must not be sharded yet. ``rows`` holds the average size
    of the training rows. ``gpus`` is the number of GPUs. If ``is_grpo`` is True, the estimate includes the sampled
    answers. The images of a question then count once for all responses to it. The images that tools return
    (observations) count once for each response.
    """
    optimiser = settings.grpo.optimiser if is_grpo else settings.sft.optimiser
    weights = list(model.parameters())
    trained = [weight for weight in weights if weight.requires_grad]
    copied = sum(weight.numel() for weight in trained if weight.dtype != torch.float32)
    count = sum(weight.numel() for weight in trained)
    text, tokens = model.config.text_config, settings.batch.tokens
    # gradients of float32 weights are freed after each update; gradients of master copies are not
    gradients = ("gradients", _share(4 * (count - copied), gpus))
    update = [
        gradients,
        ("activations", _kept_bytes(settings, tokens, text.num_hidden_layers) * text.hidden_size),
        ("activations of the vision tower", _of_tower(model, settings, rows, is_grpo)),
        ("a chunk of logits", 3 * 4 * min(CHUNK, tokens) * text.vocab_size),
    ]
    step = [gradients, ("a temporary copy in the optimiser's step", _share(4 * count, gpus))]
    is_sampled_here = is_grpo and settings.rollout.kind == "transformers"
    rollouts = [
        ("the rollouts' gathered weights", size_of(weights) if is_sampled_here and gpus > 1 else 0),
        ("the rollouts' keys and values", _cached(model, settings, rows, gpus) if is_sampled_here else 0),
        ("the rollouts' images", _seen(model, settings, rows, gpus) if is_sampled_here else 0),
    ]
    has_reference = is_grpo and settings.grpo.kl_beta > 0 and not settings.model.lora_rank
    return Estimate(
        (
            ("weights", _share(size_of(weights), gpus)),
            ("float32 master weights", _share(4 * copied, gpus)),
            ("gradients of these", _share(4 * copied, gpus)),
            ("optimiser moments", _share((4 if optimiser.muon_lr > 0 else 8) * count, gpus)),
            ("reference model", _share(size_of(weights) if has_reference else 0, gpus)),
            ("weights that FSDP gathers", gathered_bytes(model) if gpus > 1 else 0),
            ("a server on the same GPU", server_bytes(settings, is_grpo)),
            *max(update, step, rollouts, key=lambda phase: sum(size for _, size in phase)),
        )
    )


def server_bytes(settings: TrainerSettings, is_grpo: bool) -> int:
    """Return the memory, in bytes, that a server for sampling uses on each training GPU (``machine.server_gib``).

    The result is 0 for SFT without a validation, which samples no answers. ``is_grpo`` is True for GRPO, and False for
    SFT.
    """
    return round(settings.machine.server_gib * GIB) if is_grpo or settings.validation.is_on else 0


def _share(size: int, gpus: int) -> int:
    return math.ceil(size / gpus)


def size_of(weights: Iterable[torch.Tensor]) -> int:
    """Return the size of the weights in bytes. Each weight counts in its own number type."""
    return sum(weight.numel() * weight.element_size() for weight in weights)


def gathered_bytes(model: Any) -> int:
    """Return the size in bytes of the weights and gradients that each GPU holds in full in a training with FSDP.

    A layer is a module whose class transformers lists in the model's ``_no_split_modules``. Each GPU holds complete
    copies of

    - the weights outside all layers, and the gradients of these weights,
    - the weights of two layers,
    - the gradients of one layer, twice: in the number type of the weights, and in float32.

    All other weights are sharded: each GPU holds only a part of them. The result assumes that every layer is as large
    as the largest layer.
    """
    blocks = [module for module in model.modules() if type(module).__name__ in (model._no_split_modules or ())]
    inside = {id(weight) for block in blocks for weight in block.parameters()}
    outside = [weight for weight in model.parameters() if id(weight) not in inside]
    largest = max(blocks, key=lambda block: size_of(block.parameters()), default=None)
    of_block = [] if largest is None else list(largest.parameters())
    gradients = [weight for weight in (*outside, *of_block) if weight.requires_grad]
    summed = 4 * sum(weight.numel() for weight in of_block if weight.requires_grad)
    return size_of(outside) + 2 * size_of(of_block) + size_of(gradients) + summed


def _word_bytes(settings: TrainerSettings) -> int:
    return 4 if settings.model.dtype == "float32" else 2


def _kept_bytes(settings: TrainerSettings, places: int, layers: int) -> int:
    """Return the bytes of the activations that are kept for the backward pass, per hidden dimension.

    ``places`` is the number of tokens or image patches, and ``layers`` is the number of layers.
    """
    whole = _KEPT_BYTES_PER_HIDDEN // 2
    kept = layers + whole if settings.model.gradient_checkpointing and layers > 1 else layers * whole
    return places * kept * _word_bytes(settings)


def _of_tower(model: Any, settings: TrainerSettings, rows: AverageRow, is_grpo: bool) -> int:
    answer, copies = (settings.rollout.max_new_tokens, settings.grpo.group_size) if is_grpo else (0, 1)
    in_pass = settings.batch.tokens / max(1.0, rows.tokens + answer)
    observed = observed_patches(model, settings) if is_grpo else 0
    patches = round(rows.patches * max(1.0, in_pass / copies) + observed * max(1.0, in_pass))
    tower = model.config.vision_config
    is_trained = any(weight.requires_grad for name, weight in model.named_parameters() if is_of_tower(name))
    return _kept_bytes(settings, patches, tower.depth if is_trained else 1) * tower.hidden_size


def cached_bytes(model: Any, settings: TrainerSettings, tokens: int) -> int:
    """Return the number of bytes of the attention keys and values of ``tokens`` tokens, over all layers.

    Keys and values are stored in the number type ``model.dtype`` of the settings.
    """
    text = model.config.text_config
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return tokens * 2 * text.num_hidden_layers * text.num_key_value_heads * head * _word_bytes(settings)


def _cached(model: Any, settings: TrainerSettings, rows: AverageRow, gpus: int) -> int:
    """Return the bytes of the keys and values of all prompts and responses that are sampled together on one GPU.

    Each prompt has the average length in ``rows``, and each response has the maximum length.
    """
    answers = _prompts_at_once(settings, gpus) * settings.grpo.group_size
    return cached_bytes(model, settings, round(answers * (rows.tokens + settings.rollout.max_new_tokens)))


def _prompts_at_once(settings: TrainerSettings, gpus: int) -> int:
    return min(settings.rollout.prompts_at_once, _share(settings.grpo.prompts_per_step, gpus))


def _seen(model: Any, settings: TrainerSettings, rows: AverageRow, gpus: int) -> int:
    """Return the memory in bytes for the images of the prompts that are sampled together.

    The memory holds the pixels of the images, and the activations of one layer of the vision tower.

    A group is the responses to one question. At their first turn, all responses of a group have the same prompt, so its
    images are counted once for the group. At later turns, each response has its own prompt, which also contains the
    images of its observations (results of tools). If observations can have images, the result is the memory for a later
    turn; otherwise, it is that for the first turn.
    """
    at_once, tower = _prompts_at_once(settings, gpus), model.config.vision_config
    patches = at_once * rows.patches
    if observed := observed_patches(model, settings):
        responses = _share(settings.grpo.prompts_per_step * settings.grpo.group_size, gpus)
        patches = min(settings.rollout.prompts_at_once, responses) * (rows.patches + observed)
    pixels = 4 * tower.in_channels * tower.temporal_patch_size * tower.patch_size**2
    return round(patches * (pixels + _KEPT_BYTES_PER_HIDDEN // 2 * _word_bytes(settings) * tower.hidden_size))


def available_bytes() -> int:
    """Return the memory in bytes that a training may use: the GPU's total memory.

    On a machine without a GPU, the result is the available memory of the machine. Raises OSError if the available
    memory is unknown.
    """
    if torch.cuda.is_available():
        return torch.cuda.get_device_properties(0).total_memory
    for line in Path("/proc/meminfo").read_text("ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError(
        "/proc/meminfo has no line MemAvailable, so the available memory is unknown: run on Linux 3.14 or later"
    )
