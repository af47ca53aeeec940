"""Checkpoints of the real detector and segmenter classes with few random weights, written without a download.

Each writer makes the folder that ``from_pretrained`` reads: config, safetensors, the processor's settings and, for the
detectors, a tokenizer whose vocabulary is made here. What the models find is meaningless; everything around it is real.
The same library versions give the same weights.
"""

import functools
import string
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertTokenizer,
    CLIPTokenizer,
    GroundingDinoConfig,
    GroundingDinoForObjectDetection,
    GroundingDinoImageProcessor,
    GroundingDinoProcessor,
    Owlv2Config,
    Owlv2ForObjectDetection,
    Owlv2ImageProcessor,
    Owlv2Processor,
    Sam2Config,
    Sam2ImageProcessor,
    Sam2Model,
    Sam2Processor,
    SamConfig,
    SamImageProcessor,
    SamModel,
    SamProcessor,
    SwinConfig,
)

SEED = 20261121
SIDE_PX = 128
"""The side of what SAM 2, SAM and OWLv2 look at."""
WORDS = ("a", "red", "blue", "square", "squares", "circle", "dog")


def write_grounding_dino(folder: Path) -> None:
    """A Swin of three stages, a BERT of two layers, 20 queries. Separators stand where the model looks for them."""
    vocabulary = {f"[unused{index}]": index for index in range(1030)}
    separators = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, ".": 1012, "?": 1029}
    words = {word: 200 + index for index, word in enumerate([*WORDS, *string.ascii_lowercase[1:]])}
    placed = {index: token for token, index in (separators | words).items()}
    tokenizer = BertTokenizer({placed.get(index, token): index for token, index in vocabulary.items()})
    backbone = SwinConfig(
        image_size=64, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[2, 2, 2, 2], window_size=4, out_indices=[2, 3, 4]
    )
    text = BertConfig(
        vocab_size=1030,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    config = GroundingDinoConfig(
        backbone_config=backbone,
        text_config=text,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        num_queries=20,
        max_text_len=32,
    )
    images = GroundingDinoImageProcessor(size={"shortest_edge": 96, "longest_edge": 160})
    _write(folder, GroundingDinoForObjectDetection, config, GroundingDinoProcessor(images, tokenizer))


def write_owlv2(folder: Path) -> None:
    """64 patches of 16 px, one box each; CLIP's letters are the tokens."""
    letters = [*string.ascii_letters, *string.digits, *string.punctuation.replace("!", "")]
    tokens = ["!", *letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    tokenizer = CLIPTokenizer(
        {token: index for index, token in enumerate(tokens)}, [], pad_token="!", model_max_length=16
    )
    layers = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {"vocab_size": len(tokens), "bos_token_id": len(tokens) - 2, "eos_token_id": len(tokens) - 1, **layers}
    vision = {"image_size": SIDE_PX, "patch_size": 16, **layers}
    config = Owlv2Config(text_config=text, vision_config=vision, projection_dim=32)
    images = Owlv2ImageProcessor(size={"height": SIDE_PX, "width": SIDE_PX})
    torch.manual_seed(SEED)
    model = Owlv2ForObjectDetection(config)
    with torch.no_grad():  # else every label finds the same: it is the patch alone that decides
        model.class_head.logit_shift.weight.zero_()
        model.class_head.logit_scale.weight.zero_()
        model.class_head.logit_scale.bias.fill_(20.0)
        model.owlv2.text_model.embeddings.token_embedding.weight.normal_()
    _save(folder, model, Owlv2Processor(images, tokenizer))


def write_sam2(folder: Path) -> None:
    """A Hiera of four stages and five blocks."""
    backbone = {
        "hidden_size": 8,
        "image_size": [SIDE_PX, SIDE_PX],
        "blocks_per_stage": [1, 1, 2, 1],
        "embed_dim_per_stage": [8, 16, 32, 64],
        "num_attention_heads_per_stage": [1, 1, 2, 2],
        "window_size_per_stage": [8, 4, 4, 4],
        "global_attention_blocks": [3],
    }
    vision = {
        "backbone_config": {"model_type": "sam2_hiera_det_model", **backbone},
        "backbone_channel_list": [64, 32, 16, 8],
        "backbone_feature_sizes": [[SIDE_PX // size] * 2 for size in (4, 8, 16)],
        "fpn_hidden_size": 32,
    }
    config = Sam2Config(vision_config=vision, **_promptable())
    images = Sam2ImageProcessor(size={"height": SIDE_PX, "width": SIDE_PX})
    _write(folder, Sam2Model, config, Sam2Processor(images))


def write_sam(folder: Path) -> None:
    """A vision transformer of two layers."""
    vision = {
        "hidden_size": 32,
        "output_channels": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": SIDE_PX,
        "window_size": 4,
        "global_attn_indexes": [1],
        "num_pos_feats": 16,
        "mlp_dim": 32,
        "initializer_range": 0.02,
    }
    config = SamConfig(vision_config=vision, **_promptable())
    images = SamImageProcessor(
        size={"longest_edge": SIDE_PX}, pad_size={"height": SIDE_PX, "width": SIDE_PX}, mask_size={"longest_edge": 32}
    )
    _write(folder, SamModel, config, SamProcessor(images))


WRITERS: dict[str, Callable[[Path], None]] = {
    "grounding-dino": write_grounding_dino,
    "owlv2": write_owlv2,
    "sam2": write_sam2,
    "sam": write_sam,
}


@functools.cache
def _root() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="tiny-vision-models-")


@functools.cache
def checkpoint(name: str) -> Path:
    """The folder of a tiny checkpoint, written once a process and gone with it. Not to be changed."""
    folder = Path(_root().name) / name
    WRITERS[name](folder)
    return folder


def _promptable() -> dict[str, dict[str, Any]]:
    """The parts that read boxes and draw masks, alike in both."""
    decoder = {"hidden_size": 32, "mlp_dim": 32, "num_attention_heads": 2, "iou_head_hidden_dim": 32}
    encoder = {"hidden_size": 32, "image_size": SIDE_PX, "patch_size": 16}
    return {"prompt_encoder_config": encoder, "mask_decoder_config": decoder}


def _write(folder: Path, model_class: Any, config: Any, processor: Any) -> None:
    torch.manual_seed(SEED)
    _save(folder, model_class(config), processor)


def _save(folder: Path, model: Any, processor: Any) -> None:
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
