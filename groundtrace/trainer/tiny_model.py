"""Writes a Qwen3-VL checkpoint with random weights that is small enough to train on a CPU. It downloads nothing.

The model has at most 3 million parameters. In its tokenizer, each whole number from 0 to 100 is a single token. Its
folder has all files that ``from_pretrained`` and ``vllm serve`` need: configuration, float32 weights, tokenizer,
processor, chat template and generation settings. The same texts, seed and library versions give the same files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

VOCAB_SIZE = 600
CONTEXT_TOKENS = 2048
PATCH_PX = 8
MERGE = 2
IMAGE_SIDE_PX = 64
TEXT = {
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "tie_word_embeddings": True,
}
VISION = {
    "depth": 2,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_heads": 4,
    "patch_size": PATCH_PX,
    "num_position_embeddings": (IMAGE_SIDE_PX // PATCH_PX) ** 2,
}

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE_PAD, VIDEO_PAD = "<|image_pad|>", "<|video_pad|>"
SPECIAL_TOKENS = [END_OF_TEXT, TURN_START, TURN_END, VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD]

# Merges never cross these pieces: the fixed parts of tags, whole numbers of three digits at most, words with the space
# before them, runs of spaces, single other characters.
PIECES = (
    r' ?<points x1="|" y1="|" alt="|">|</points>| ?</?(?:think|answer)>'
    r"|[0-9]{1,3}| ?[A-Za-z]+|\s+|[^A-Za-z0-9\s]"
)
# The numbers 10 to 99 from their digits, and 100; those below 10 are characters.
NUMBER_MERGES = [*((str(tens), str(ones)) for tens in range(1, 10) for ones in range(10)), ("10", "0")]

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{%- if message['content'] is string -%}"
    "{{ message['content'] }}"
    "{%- else -%}"
    "{%- for part in message['content'] -%}"
    "{%- if part['type'] == 'text' -%}"
    "{{ part['text'] }}"
    "{%- elif part['type'] == 'video' -%}"
    "{{ '<|vision_start|><|video_pad|><|vision_end|>' }}"
    "{%- else -%}"
    "{{ '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- endif -%}"
    "{{ '<|im_end|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"
)


def make_tiny_model(
    folder: Path, texts: Iterable[str], seed: int, image_side_px: int = IMAGE_SIDE_PX, phrases: Sequence[str] = ()
) -> int:
    """Write a tiny model with random weights to ``folder``, and return its number of parameters.

    The folder is made if it is missing. ``texts`` are texts that the model will read and write; the tokenizer is
    trained on them. Their coordinates must be as the model writes them (integers from 0 to 100). Each text in
    ``phrases`` becomes one token. ``seed`` is the seed of the weights.

    An image with a larger area than a square with the side ``image_side_px`` is shrunk to the area of this square. Its
    proportions stay about the same. Each token of an image covers 16x16 pixels. For example, if ``image_side_px`` is
    64, an image of 256x256 pixels becomes 64x64 (16 tokens), and an image of 400x100 pixels becomes 128x32 (16 tokens).
    If ``image_side_px`` is 128, an image of 400x100 pixels becomes 256x64 (64 tokens).
    """
    tokenizer = build_tokenizer(texts, phrases)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3VLForConditionalGeneration(build_config(tokenizer, CONTEXT_TOKENS, TEXT, VISION)).float().eval()
    return save_model(folder, model, build_processor(tokenizer, PATCH_PX, image_side_px**2))


def save_model(folder: Path, model: Qwen3VLForConditionalGeneration, processor: Qwen3VLProcessor) -> int:
    """Write a model to ``folder``, with all files that ``from_pretrained`` and ``vllm serve`` need.

    The folder is made if it is missing. Returns the number of parameters.
    """
    token_id = processor.tokenizer.get_vocab()
    end_ids = [token_id[TURN_END], token_id[END_OF_TEXT]]
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=1.0, eos_token_id=end_ids, pad_token_id=token_id[END_OF_TEXT]
    )
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return sum(weight.numel() for weight in model.parameters())


def build_tokenizer(texts: Iterable[str], phrases: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer of about 600 tokens, trained on ``texts``, with the special tokens of Qwen3-VL.

    It can encode any text. Every number from 0 to 100 is one token, except in the attribute names of tags, such as
    ``x1``. Each text in ``phrases`` is one further token. ``phrases`` should hold sentences that all prompts share: as
    single tokens, they make the prompts shorter, and a training step on a CPU becomes faster.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - len(NUMBER_MERGES),
        min_frequency=2,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # Without numbers of their own the texts teach no merge of digits: those are given, not learnt.
    bpe.train_from_iterator((re.sub(r"(?<!\w)[0-9]+", "", text) for text in texts), trainer)
    learnt = json.loads(bpe.to_str())["model"]
    merges = [*NUMBER_MERGES, *(tuple(pair) for pair in learnt["merges"])]
    vocab = dict(learnt["vocab"])
    for left, right in NUMBER_MERGES:
        vocab[left + right] = len(vocab)
    bpe.model = models.BPE(vocab=vocab, merges=merges)
    bpe.add_special_tokens(SPECIAL_TOKENS)
    bpe.add_tokens([AddedToken(phrase, normalized=False) for phrase in phrases])
    return as_qwen3(bpe, CONTEXT_TOKENS)


def as_qwen3(bpe: Tokenizer, context_tokens: int) -> PreTrainedTokenizerFast:
    """Return the tokenizer ``bpe`` in the form that Qwen3-VL's processor needs.

    ``context_tokens`` is the maximum number of tokens of a sequence.
    """
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=SPECIAL_TOKENS,
        model_max_length=context_tokens,
    )


def build_processor(tokenizer: PreTrainedTokenizerFast, patch_px: int, most_px: int) -> Qwen3VLProcessor:
    """Return a Qwen3-VL processor, which prepares texts and images for the model.

    ``patch_px`` is the side of an image patch in pixels; an image token covers ``MERGE`` x ``MERGE`` patches. An image
    with less area than 4 tokens is enlarged to this area, and an image with more than ``most_px`` pixels is shrunk to
    this number of pixels.
    """
    pixels = {
        "patch_size": patch_px,
        "merge_size": MERGE,
        "temporal_patch_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "size": {"shortest_edge": (2 * patch_px * MERGE) ** 2, "longest_edge": most_px},
    }
    return Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**pixels),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(**pixels),
        chat_template=CHAT_TEMPLATE,
    )


def build_config(
    tokenizer: PreTrainedTokenizerFast, context_tokens: int, text: dict[str, Any], vision: dict[str, Any]
) -> Qwen3VLConfig:
    """Return the transformers config of a tiny model.

    ``context_tokens`` is the maximum number of tokens of a sequence. ``text`` and ``vision`` hold the widths and depths
    of the language model and of the vision tower. All other values are the same for every tiny model. Attention heads
    have the width 32, because vLLM's CPU attention does not support narrower heads. Qwen3-VL adds the features of
    some vision layers to the first layers of the language model (deepstack). A tiny model adds only
    those of the first vision layer.
    """
    token_id = tokenizer.get_vocab()
    text = text | {
        "vocab_size": len(tokenizer),
        "head_dim": 32,
        "num_key_value_heads": text["num_attention_heads"],
        "max_position_embeddings": context_tokens,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [6, 5, 5],
            "mrope_interleaved": True,
        },
        "bos_token_id": token_id[END_OF_TEXT],
        "eos_token_id": token_id[TURN_END],
        "pad_token_id": token_id[END_OF_TEXT],
        "dtype": "float32",
    }
    vision = vision | {
        "spatial_merge_size": MERGE,
        "temporal_patch_size": 2,
        "out_hidden_size": text["hidden_size"],
        "deepstack_visual_indexes": [0],
    }
    return Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=token_id[IMAGE_PAD],
        video_token_id=token_id[VIDEO_PAD],
        vision_start_token_id=token_id[VISION_START],
        vision_end_token_id=token_id[VISION_END],
        tie_word_embeddings=text["tie_word_embeddings"],
        dtype="float32",
    )
