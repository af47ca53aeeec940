"""Loads and saves a vision-language model with its processor, and encodes its inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor

from groundtrace.config.extras import require_extra
from groundtrace.grading.responses.speech import Speech
from groundtrace.inference.families.base import Family
from groundtrace.inference.families.registry import trainable_families
from groundtrace.inference.model_files import reading
from groundtrace.rewards.rows.row import UnusableRow
from groundtrace.schemas.coordinates import CoordinateFrame, ResizeRule
from groundtrace.trainer import attention, ranks
from groundtrace.trainer.model_path import ModelError, check_model_path
from groundtrace.trainer.model_sizes import check_size
from groundtrace.trainer.processor_limits import bound_images, check_image_processor
from groundtrace.trainer.sample import EncodedImage
from groundtrace.trainer.settings import ModelSettings
from groundtrace.trainer.sharding import gathered_parts, is_sharded, parts

PROJECTOR = ("merger", "deepstack_merger_list")
"""The modules of ``visual`` that map image features into the language model. The other modules are the vision tower."""
PROCESSOR_FILES = "tokenizer.json, tokenizer_config.json or processor_config.json"
LORA_LAYERS = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"


@dataclass
class VisionLanguageModel:
    """Holds a loaded model, its processor, and the token ids that the trainer needs.

    Attributes:
        model: the transformers model.
        processor: the transformers processor, with tokenizer, image processor and chat template.
        speech: the form in which the model writes coordinates.
        image_id: the id of the image token.
        end_ids: all token ids that end a response, from the generation config and the tokenizer.
        banned_ids: the token ids that a response must never contain: image and video tokens, and their start and end
            marks.
        settings: the settings of the model.
    """

    model: Any
    processor: Any
    speech: Speech
    image_id: int
    end_ids: tuple[int, ...]
    banned_ids: tuple[int, ...]
    settings: ModelSettings

    @cached_property
    def special_texts(self) -> tuple[str, ...]:
        """Return the texts of all special tokens, such as ``<|im_end|>`` or the image token."""
        media = (getattr(self.processor, name, None) for name in ("image_token", "video_token"))
        return tuple(dict.fromkeys([*self.tokenizer.all_special_tokens, *filter(None, media)]))

    @property
    def tokenizer(self) -> Any:
        """Return the tokenizer, which is part of the processor."""
        return self.processor.tokenizer

    @property
    def never_ids(self) -> tuple[int, ...]:
        """Return the token ids that a sampler must not draw.

        These are the tokens that a response must never contain (``banned_ids``), without those that end a response.
        """
        return tuple(token for token in self.banned_ids if token not in self.end_ids)

    @property
    def device(self) -> torch.device:
        """Return the device that holds the model."""
        return self.model.device

    def text_of(self, ids: Sequence[int]) -> str:
        """Decode the token ids of a response, and return its text.

        If the last token is an end token, it is left out. Other special tokens are part of the text.
        """
        kept = ids[:-1] if ids and ids[-1] in self.end_ids else ids
        return self.tokenizer.decode(kept, skip_special_tokens=False)

    def encode_image(self, image: Image.Image, key: str, name: str = "an image") -> EncodedImage:
        """Encode an upright RGB image for the vision tower. Raises UnusableRow if the image cannot be resized.

        ``image`` must be rotated to upright. ``key`` is a text that is equal for equal images, such as a hash of the
        file. ``name`` names the image and its row in the error message.
        """
        try:
            seen = self.processor.image_processor(image, return_tensors="pt")
        except ValueError as error:
            raise UnusableRow(f"{name} of {image.width}x{image.height} px cannot be resized: {error}") from error
        t, h, w = seen["image_grid_thw"][0].tolist()
        merged = t * h * w // self.processor.image_processor.merge_size**2
        return EncodedImage(key, seen["pixel_values"], (t, h, w), merged, image.width, image.height)

    def positions(self, ids: torch.Tensor, is_image: torch.Tensor, images: Sequence[EncodedImage]) -> torch.Tensor:
        """Return the rotary positions of one sequence of L tokens as (3, L): in time, height and width.

        ``ids`` (L,) are the token ids. ``is_image`` (L,) bool is True for image tokens. ``images`` are the sequence's
        images, in the order of their tokens.
        """
        if not images:
            return torch.arange(len(ids)).expand(3, -1)
        grids = torch.tensor([image.grid for image in images])
        found, _ = self.model.model.get_rope_index(ids[None], is_image[None].int(), image_grid_thw=grids)
        return found[:, 0]

    def save(self, folder: Path) -> None:
        """Write the weights, config, processor and generation settings to a folder that transformers and vLLM can load.

        LoRA adapters are merged into the weights. In a training on several GPUs, all ranks (the processes of the GPUs)
        must call this method, and the first rank writes the files. The method needs CPU memory for the whole model.
        """
        state = _gathered_state(self.model) if parts(self.model) else _plain_state(self.model)

        def write() -> None:
            self.model.save_pretrained(folder, state_dict=state)
            self.processor.save_pretrained(folder)

        ranks.together(write if ranks.is_first() else lambda: None)


def load_model(settings: ModelSettings, device: str | None = None) -> VisionLanguageModel:
    """Load the model and processor that the settings name, and return them. The model is in training mode.

    ``device`` is the device of the model. None means the GPU, or the CPU on a machine without a GPU. In a training on
    several GPUs, None means the CPU; :func:`groundtrace.trainer.sharding.shard` then distributes the model. Only
    safetensors files are read, and no code from the model's repository is run.

    Raises ModelError in these cases:

    - The model is missing, or lacks weights or a chat template.
    - Its family cannot be trained (:attr:`groundtrace.inference.families.base.Family.trained_as`).
    - A setting does not fit the model.
    """
    where = device or ("cuda" if torch.cuda.is_available() and ranks.count() == 1 else "cpu")
    source = {"revision": settings.revision, "trust_remote_code": False}
    auto: Any = AutoModelForImageTextToText
    check_model_path(settings)
    with reading(settings.path, "its config.json"):
        config = AutoConfig.from_pretrained(settings.path, **source)
        family = family_of(config, settings)
    with reading(settings.path, "its config.json or weights"):
        if Path(settings.path).is_dir():
            check_size(config, Path(settings.path))
    with reading(settings.path, f"the files of its tokenizer and processor, such as {PROCESSOR_FILES}"):
        processor = AutoProcessor.from_pretrained(settings.path, **source)
    with reading(settings.path, "its config.json or weights"):
        model, report = auto.from_pretrained(
            settings.path,
            dtype=getattr(torch, settings.dtype),
            attn_implementation="sdpa",
            use_safetensors=True,
            output_loading_info=True,
            **source,
        )
    if missing := sorted(report["missing_keys"]):
        raise ModelError(
            f"the model {settings.path} lacks {len(missing)} weights, such as {missing[0]}: download the complete model"
        )
    if getattr(processor, "chat_template", None) is None:
        raise ModelError(
            f"the model {settings.path} has no chat template: set model.path to a model with a chat template"
        )
    with reading(settings.path, f"generation_config.json, config.json, {PROCESSOR_FILES}"):
        check_image_processor(processor.image_processor, settings)
        bound_images(processor.image_processor, settings)
        speech = _speech(settings, family, processor.image_processor)
        ends, banned = _end_ids(model, processor.tokenizer), _banned_ids(model.config)
    prepare(model, settings)
    return VisionLanguageModel(model.to(where), processor, speech, model.config.image_token_id, ends, banned, settings)


def family_of(config: Any, settings: ModelSettings) -> Family:
    """Return the family of a model: a set of models that write coordinates in the same form, such as Qwen3-VL.

    ``config`` is the model's transformers config. ``settings`` names the model, for the error message. Raises
    ModelError if the trainer does not support the family.
    """
    families = trainable_families()
    if config.model_type not in families:
        raise ModelError(
            f"{settings.path} has the model type {config.model_type!r}, but the trainer supports "
            f"{', '.join(families)}: change model.path"
        )
    return families[config.model_type]


def set_attention(model: Any, implementation: str) -> None:
    """Set the attention function that the language model and the vision tower use.

    ``implementation`` is the function's name in transformers. Use :data:`groundtrace.trainer.attention.NAME` for
    training on packed rows (several sequences in one row of tokens), and ``sdpa`` for sampling.

    The language model and the vision tower have their own configs. Only these two configs are changed. The config of
    the whole model always names ``sdpa``. If it named :data:`groundtrace.trainer.attention.NAME`, transformers would
    raise an error, because this name contains "flash".
    """
    if model.config.text_config._attn_implementation != implementation:
        model.set_attn_implementation({"": "sdpa", "text_config": implementation, "vision_config": implementation})


def prepare(model: Any, settings: ModelSettings) -> None:
    """Prepare a loaded model for training.

    Depending on the settings, this function adds LoRA adapters, freezes parts of the model, and switches gradient
    checkpointing on. It also selects the attention for packed rows (several sequences in one row of tokens). The model
    is changed in place.
    """
    if settings.lora_rank:
        require_extra("train", "model.lora_rank", "peft")
        from peft import LoraConfig, inject_adapter_in_model

        config = LoraConfig(
            r=settings.lora_rank,
            lora_alpha=settings.lora_alpha,  # type: ignore[arg-type] (peft only divides it by the rank)
            lora_dropout=0.0,
            target_modules=LORA_LAYERS,
        )
        model.requires_grad_(False)
        inject_adapter_in_model(config, model)
    else:
        for name, part in model.model.visual.named_children():
            is_frozen = settings.freeze_projector if name in PROJECTOR else settings.freeze_vision
            part.requires_grad_(not is_frozen)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    set_attention(model, attention.NAME)
    model.train()


def is_of_tower(name: str) -> bool:
    """Return whether a weight is part of the vision tower. ``name`` is the weight's full name in the model.

    The projector between vision tower and language model is not part of the vision tower.
    """
    _, found, inner = name.partition("visual.")
    return bool(found) and inner.partition(".")[0] not in PROJECTOR


def _plain_state(model: Any) -> dict[str, torch.Tensor]:
    """Return copies of the model's weights with the LoRA adapters merged into them; the model does not change."""
    return _merged(model.state_dict(), model)


def _merged(weights: Mapping[str, torch.Tensor], model: Any) -> dict[str, torch.Tensor]:
    """Return the weights of a model with the LoRA adapters merged into them.

    ``weights`` are the weights of ``model`` by name. In the result, the weights have the names of a model without
    adapters. For example, ``q_proj.base_layer.weight`` becomes ``q_proj.weight``, and the adapters' own weights are
    left out. There is one exception: the adapter of a sharded weight is not merged into the weight. The caller
    :func:`_gathered_state` ignores such a weight, and calls this function again when the weight is gathered.
    """
    state = {name.replace(".base_layer", ""): value for name, value in weights.items() if ".lora_" not in name}
    for name, layer in model.named_modules():
        if hasattr(layer, "lora_A") and hasattr(layer, "get_delta_weight") and not is_sharded(layer.base_layer.weight):
            weight = layer.base_layer.weight.detach()
            merged = weight + layer.get_delta_weight("default").detach().to(weight.dtype)
            state[f"{name}.weight"] = merged.cpu()  # on the GPU, these copies would need the memory of a second model
    return state


def _gathered_state(model: Any) -> dict[str, torch.Tensor]:
    """Return the weights of a sharded model on the CPU, with the adapters merged as by :func:`_plain_state`.

    The parts of the model are gathered one after the other, so all ranks (the processes of the GPUs) must call this
    function. Only the first rank returns weights; the result on the other ranks is empty. Tied weights stay one tensor.
    """
    state: dict[str, torch.Tensor] = {}
    for prefix, part in gathered_parts(model):
        if not ranks.is_first():
            continue
        copies: dict[int, torch.Tensor] = {}
        for name, value in _merged(dict(part.named_parameters(remove_duplicate=False)), part).items():
            if not is_sharded(value):
                if id(value) not in copies:
                    copies[id(value)] = value.detach().to("cpu", copy=True)
                state[prefix + name] = copies[id(value)]
    return state


def _speech(settings: ModelSettings, family: Family, image_processor: Any) -> Speech:
    frame = CoordinateFrame(settings.frame) if settings.frame else family.frame
    if frame is CoordinateFrame.UNIT:
        raise ModelError(
            "coordinates in the frame 'unit' (numbers from 0 to 1) cannot be written with one decimal: set model.frame "
            "to norm1000 or molmo100"
        )
    decimals = settings.decimals
    if decimals is None:
        other = int(frame in (CoordinateFrame.MOLMO100, CoordinateFrame.PX))
        decimals = family.decimals if frame is family.frame else other
    if decimals not in (0, 1):
        raise ModelError(f"model.decimals must be 0 or 1, got {decimals}")
    size = image_processor.size
    factor = image_processor.patch_size * image_processor.merge_size
    return Speech(frame, decimals, ResizeRule(factor, size["shortest_edge"], size["longest_edge"]))


def _end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Return the ids of all tokens that end a response.

    These are the ids of the end tokens in the model's generation config, and the id of the tokenizer's end token.
    Raises ModelError if neither the generation config nor the tokenizer has an end token.
    """
    named = model.generation_config.eos_token_id
    ids = {tokenizer.eos_token_id, *(named if isinstance(named, list | tuple) else [named])} - {None}
    if not ids:
        raise ModelError(
            "neither the model's generation config nor its tokenizer has an end-of-sequence token: set model.path "
            "to another model"
        )
    return tuple(sorted(ids))


def _banned_ids(config: Any) -> tuple[int, ...]:
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    return tuple(sorted({getattr(config, name) for name in names if getattr(config, name, None) is not None}))
