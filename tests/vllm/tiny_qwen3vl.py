"""Write a servable Qwen3-VL checkpoint of about half a million random weights, without any download.

Run by the interpreter that has torch and transformers: ``python tiny_qwen3vl.py OUT_DIR``. The folder holds
what ``vllm serve OUT_DIR`` reads: config, weights, a byte-level BPE tokenizer trained on the few lines below,
image and video processor settings, chat template and generation settings. The same seed and library versions
give the same weights. The text that the model writes is garbage by design; what the server does around it is
real. The weights are tilted towards ending a turn and closing a string, so that replies stop by themselves
after some tens of tokens and replies held to a JSON schema close.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

SEED = 20260211
CONTEXT_TOKENS = 8192
PATCH_PX = 16
MERGE = 2
MIN_PIXELS = (2 * PATCH_PX * MERGE) ** 2
MAX_PIXELS = (16 * PATCH_PX * MERGE) ** 2

# Logits added to the tokens that end a turn and to those that hold a double quote.
END_TILT = 3.0
QUOTE_TILT = 2.0

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE_PAD, VIDEO_PAD = "<|image_pad|>", "<|video_pad|>"
SPECIAL_TOKENS = [END_OF_TEXT, TURN_START, TURN_END, VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD]

# The merges learnt from these lines make the garbage look like broken replies: what parsers must survive.
CORPUS = (
    "The red square is left of the blue circle, so the answer is three.",
    "How many yellow triangles are in the image? Count each of them and point at them.",
    '<points x1="412" y1="88" alt="the green shape">the green shape</points>',
    '{"answer": "yes", "points": [{"x": 120, "y": 640, "label": "black item"}], "confidence": 0.75}',
    "<think>First look at the frame 12 (4.0 s), then from 4.0 s to 6.5 s.</think><answer>B</answer>",
    "<box>[10,20,300,400]</box> \\boxed{7} true false null",
)

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


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE (441 tokens) that can spell any text, with the special tokens of Qwen3-VL."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=SPECIAL_TOKENS,
        model_max_length=CONTEXT_TOKENS,
    )


def build_processor(tokenizer: PreTrainedTokenizerFast) -> Qwen3VLProcessor:
    """Qwen3-VL's processor with its real patch size, and images held to 4-256 tokens each."""
    size = {"shortest_edge": MIN_PIXELS, "longest_edge": MAX_PIXELS}
    pixels = {
        "patch_size": PATCH_PX,
        "merge_size": MERGE,
        "temporal_patch_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "size": size,
    }
    return Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**pixels),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(**pixels),
        chat_template=CHAT_TEMPLATE,
    )


def build_config(tokenizer: PreTrainedTokenizerFast) -> Qwen3VLConfig:
    """The architecture: 2 text layers of width 64 and 2 vision layers of width 64, deepstack included.

    Heads are 32 wide because vLLM's CPU attention takes no narrower ones.
    """
    token_id = tokenizer.get_vocab()
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 192,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": CONTEXT_TOKENS,
        "initializer_range": 0.1,
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
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 2,
        "patch_size": PATCH_PX,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": 2,
        "out_hidden_size": text["hidden_size"],
        "num_position_embeddings": 32**2,
        "deepstack_visual_indexes": [0],
        "initializer_range": 0.2,
    }
    return Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=token_id[IMAGE_PAD],
        video_token_id=token_id[VIDEO_PAD],
        vision_start_token_id=token_id[VISION_START],
        vision_end_token_id=token_id[VISION_END],
        tie_word_embeddings=False,
        dtype="float32",
    )


@torch.no_grad()
def tilt(model: Qwen3VLForConditionalGeneration, tokenizer: PreTrainedTokenizerFast) -> None:
    """Make the tokens that end things likelier, in place.

    The output layer has no bias, so channel 0 of the residual stream plays its part: every token's embedding
    holds the same number there and no layer writes to it, which makes column 0 of the output matrix a bias.
    The last normalisation scales it by a factor near 1.
    """
    text = model.model.language_model
    channel = 2.0
    text.embed_tokens.weight.normal_()
    text.embed_tokens.weight[:, 0] = channel
    for layer in text.layers:
        layer.self_attn.o_proj.weight[0] = 0.0
        layer.mlp.down_proj.weight[0] = 0.0
    head = model.lm_head.weight
    head.normal_(std=0.2)
    head[:, 0] = 0.0
    token_id = tokenizer.get_vocab()
    quotes = [index for token, index in token_id.items() if '"' in token]
    head[quotes, 0] = QUOTE_TILT / channel
    head[token_id[TURN_END], 0] = END_TILT / channel


def write_model(out_dir: Path) -> int:
    """Write the whole model folder to ``out_dir`` (made if missing) and return the number of weights."""
    torch.manual_seed(SEED)
    tokenizer = build_tokenizer()
    model = Qwen3VLForConditionalGeneration(build_config(tokenizer)).eval()
    tilt(model, tokenizer)
    token_id = tokenizer.get_vocab()
    end_ids = [token_id[TURN_END], token_id[END_OF_TEXT]]
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=1.0, eos_token_id=end_ids, pad_token_id=end_ids[1]
    )
    out_dir.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out_dir)
    build_processor(tokenizer).save_pretrained(out_dir)
    return sum(weight.numel() for weight in model.parameters())


def main(arguments: list[str]) -> int:
    """Command line: one argument, the folder to write. Returns the exit status."""
    if len(arguments) != 1:
        print("usage: python tiny_qwen3vl.py OUT_DIR", file=sys.stderr)
        return 2
    out_dir = Path(arguments[0])
    print(f"{out_dir}: {write_model(out_dir):,} weights")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
