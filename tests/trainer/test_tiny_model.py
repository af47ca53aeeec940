"""The tiny checkpoint: small, spells everything, one token a number, loads by the standard classes and runs."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

from groundtrace.trainer.tiny_model import make_tiny_model

POINT = '<points x1="37" y1="100" alt="blue square">blue square</points>'
TEXTS = [
    "How many blue squares are there in the image?",
    f"<think>I find {POINT}. Looking over the whole picture, there is 1 blue square.</think>\n<answer>1</answer>",
] * 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    assert make_tiny_model(path, TEXTS, seed=1) <= 3_000_000
    return path


@pytest.fixture(scope="module")
def processor(folder: Path):
    return AutoProcessor.from_pretrained(folder)


def test_whole_numbers_are_single_tokens(processor) -> None:
    tokenizer = processor.tokenizer
    for number in range(101):
        (token,) = tokenizer.encode(str(number))
        assert tokenizer.decode([token]) == str(number)
    assert len(tokenizer.encode("1000")) == 2


def test_a_point_is_few_tokens_and_its_numbers_stay_whole(processor) -> None:
    tokens = [processor.tokenizer.decode([token]) for token in processor.tokenizer.encode(" " + POINT)]
    fixed = [' <points x1="', "37", '" y1="', "100", '" alt="']
    assert tokens == [*fixed, "blue", " square", '">', "blue", " square", "</points>"]


@pytest.mark.parametrize("text", [*TEXTS[:2], "ünï 12345 ✓\n\t x1", '<points x1="412.5" y1="88">', ""])
def test_any_text_survives(processor, text: str) -> None:
    assert processor.tokenizer.decode(processor.tokenizer.encode(text)) == text


@pytest.mark.parametrize(
    ("size", "grid", "image_tokens"),
    [((256, 256), [1, 8, 8], 16), ((400, 100), [1, 4, 16], 16), ((20, 20), [1, 4, 4], 4)],
)
def test_one_forward_pass_with_a_picture(folder, processor, size, grid, image_tokens) -> None:
    model = Qwen3VLForConditionalGeneration.from_pretrained(folder)
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), np.uint8))
    content = [{"type": "image", "image": image}, {"type": "text", "text": TEXTS[0]}]
    inputs = processor.apply_chat_template(
        [{"role": "user", "content": content}],
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        add_generation_prompt=True,
    )
    assert inputs["image_grid_thw"].tolist() == [grid]
    assert int((inputs["input_ids"] == model.config.image_token_id).sum()) == image_tokens
    with torch.no_grad():
        logits = model(**inputs).logits
        blind = model(**inputs | {"pixel_values": torch.zeros_like(inputs["pixel_values"])}).logits
    assert logits.dtype == torch.float32 and logits.isfinite().all()
    assert not torch.allclose(logits[:, -1], blind[:, -1])


def test_generation_ends_at_either_end_token(folder, processor) -> None:
    model = Qwen3VLForConditionalGeneration.from_pretrained(folder)
    ends = processor.tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    assert model.generation_config.eos_token_id == ends
    assert model.lm_head.weight is model.model.language_model.embed_tokens.weight


def test_the_same_seed_writes_the_same_files(folder: Path, tmp_path: Path) -> None:
    make_tiny_model(tmp_path / "again", TEXTS, seed=1)
    make_tiny_model(tmp_path / "other", TEXTS, seed=2)
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    weights = "model.safetensors"
    assert (tmp_path / "other" / weights).read_bytes() != (folder / weights).read_bytes()
