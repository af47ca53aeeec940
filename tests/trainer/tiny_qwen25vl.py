"""Write a Qwen2.5-VL checkpoint of some random weights, without any download: the sibling of the tiny Qwen3-VL.

The vision tower has one layer with windows and one that sees the whole picture, so that both kinds of its attention
run. The tokenizer is the tiny Qwen3-VL's, which the caller hands over; the chat template is the same.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

from groundtrace.trainer.tiny_model import (
    CHAT_TEMPLATE,
    END_OF_TEXT,
    IMAGE_PAD,
    MERGE,
    TURN_END,
    VIDEO_PAD,
    VISION_END,
    VISION_START,
)

SEED = 20260212
PATCH_PX = 14
MIN_PIXELS = (2 * PATCH_PX * MERGE) ** 2
MAX_PIXELS = (16 * PATCH_PX * MERGE) ** 2


def build_config(token_id: dict[str, int]) -> Qwen2_5_VLConfig:
    """2 text layers of width 64 with two query heads to a key head, and 2 vision layers of width 64."""
    text = {
        "vocab_size": len(token_id),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 8192,
        "initializer_range": 0.1,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
        "bos_token_id": token_id[END_OF_TEXT],
        "eos_token_id": token_id[TURN_END],
        "pad_token_id": token_id[END_OF_TEXT],
        "dtype": "float32",
    }
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 2,
        "patch_size": PATCH_PX,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": 2,
        "out_hidden_size": text["hidden_size"],
        "window_size": 2 * PATCH_PX * MERGE,
        "fullatt_block_indexes": [1],
        "initializer_range": 0.2,
    }
    return Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=token_id[IMAGE_PAD],
        video_token_id=token_id[VIDEO_PAD],
        vision_start_token_id=token_id[VISION_START],
        vision_end_token_id=token_id[VISION_END],
        tie_word_embeddings=False,
        dtype="float32",
    )


def write_model(out_dir: Path, tokenizer: Any) -> None:
    """Write the whole model folder to ``out_dir`` (made if missing)."""
    torch.manual_seed(SEED)
    token_id = tokenizer.get_vocab()
    model = Qwen2_5_VLForConditionalGeneration(build_config(token_id))
    end_ids = [token_id[TURN_END], token_id[END_OF_TEXT]]
    model.generation_config = GenerationConfig(eos_token_id=end_ids, pad_token_id=end_ids[1])
    out_dir.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out_dir)
    pixels = {
        "patch_size": PATCH_PX,
        "merge_size": MERGE,
        "temporal_patch_size": 2,
        "size": {"shortest_edge": MIN_PIXELS, "longest_edge": MAX_PIXELS},
    }
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(**pixels),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(**pixels),
        chat_template=CHAT_TEMPLATE,
    )
    processor.save_pretrained(out_dir)
