"""Write a servable Qwen3-VL checkpoint of about half a million random weights, without any download.

It is built as that of `trainer tiny` (groundtrace/trainer/tiny_model.py), with the real patch size. The text that
the model writes is garbage by design; what the server does around it is real. The weights are tilted towards ending a
turn and closing a string, so that replies stop by themselves after some tens of tokens and replies held to a JSON
schema close. The same seed and library versions give the same weights.
"""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3VLForConditionalGeneration

from groundtrace.trainer.tiny_model import (
    MERGE,
    SPECIAL_TOKENS,
    TURN_END,
    as_qwen3,
    build_config,
    build_processor,
    save_model,
)

SEED = 20260211
CONTEXT_TOKENS = 8192
PATCH_PX = 16
MAX_PX = (16 * PATCH_PX * MERGE) ** 2
TEXT = {
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "tie_word_embeddings": False,
    "initializer_range": 0.1,
}
VISION = {
    "depth": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_heads": 2,
    "patch_size": PATCH_PX,
    "num_position_embeddings": 32**2,
    "initializer_range": 0.2,
}

# Logits added to the tokens that end a turn and to those that hold a double quote.
END_TILT = 3.0
QUOTE_TILT = 2.0

# The merges learnt from these lines make the garbage look like broken replies: what parsers must survive.
CORPUS = (
    "The red square is left of the blue circle, so the answer is three.",
    "How many yellow triangles are in the image? Count each of them and point at them.",
    '<points x1="412" y1="88" alt="the green shape">the green shape</points>',
    '{"answer": "yes", "points": [{"x": 120, "y": 640, "label": "black item"}], "confidence": 0.75}',
    "<think>First look at the frame 12 (4.0 s), then from 4.0 s to 6.5 s.</think><answer>B</answer>",
    "<box>[10,20,300,400]</box> \\boxed{7} true false null",
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
    return as_qwen3(bpe, CONTEXT_TOKENS)


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
    model = Qwen3VLForConditionalGeneration(build_config(tokenizer, CONTEXT_TOKENS, TEXT, VISION)).eval()
    tilt(model, tokenizer)
    return save_model(out_dir, model, build_processor(tokenizer, PATCH_PX, MAX_PX))
