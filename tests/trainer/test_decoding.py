"""Turns are drawn from the same distribution as with generate, whatever leaves the batch before."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from groundtrace.trainer.collate import distinct_images
from groundtrace.trainer.decoding import _GROWTH, GrowingLayer, draw_turns
from groundtrace.trainer.encode import encode_prompt
from groundtrace.trainer.model import VisionLanguageModel, set_attention
from groundtrace.trainer.sample import EncodedImage, Sample

COLD = 1e-4


def prompts_of(vlm: VisionLanguageModel, picture: Callable[..., EncodedImage]) -> list[Sample]:
    """Prompts of different lengths, with no, one and two pictures, one of which they share."""
    shared, other = picture(vlm, 96, 64), picture(vlm, 64, 64)
    asked = (("<image>How many?", (shared,)), ("Which?", ()), ("Compare <image> with <image>.", (other, shared)))
    return [encode_prompt(vlm, text, [{"role": "user", "content": text}], images) for text, images in asked]


def drawn(vlm: VisionLanguageModel, *arguments: Any) -> list[list[tuple[list[int], list[float]]]]:
    vlm.model.eval()
    torch.manual_seed(0)
    try:
        return draw_turns(vlm, *arguments)
    finally:
        vlm.model.train()


def generated(vlm: VisionLanguageModel, prompt: Sample, tokens: int) -> list[int]:
    """What transformers' own greedy search continues a prompt with."""
    set_attention(vlm.model, "sdpa")
    vlm.model.model.rope_deltas = None
    inputs: dict[str, torch.Tensor] = {
        "input_ids": prompt.ids[None],
        "attention_mask": torch.ones_like(prompt.ids)[None],
        "mm_token_type_ids": prompt.is_image[None].long(),
    }
    images = distinct_images([prompt])
    if images.patches is not None and images.grids is not None:
        inputs |= {"pixel_values": images.patches, "image_grid_thw": images.grids}
    config = GenerationConfig(
        do_sample=False,
        max_new_tokens=tokens,
        eos_token_id=list(vlm.end_ids),
        pad_token_id=vlm.end_ids[0],
        suppress_tokens=list(vlm.never_ids),
    )
    vlm.model.eval()
    own, vlm.model.generation_config = vlm.model.generation_config, GenerationConfig()
    try:
        return vlm.model.generate(**inputs, generation_config=config)[0, len(prompt) :].tolist()
    finally:
        vlm.model.generation_config = own
        vlm.model.train()


def test_cold_turns_are_those_of_generate(vlm: VisionLanguageModel, picture: Callable[..., EncodedImage]) -> None:
    """In one batch with padding and pictures, beyond the growth of the buffers, with turns that end early."""
    prompts, room = prompts_of(vlm, picture), [_GROWTH + 8, 3, 12]
    found = drawn(vlm, prompts, 2, room, COLD)
    for prompt, turns, tokens in zip(prompts, found, room, strict=True):
        expected = generated(vlm, prompt, tokens)
        assert [ids for ids, _ in turns] == [expected, expected]
        assert all(logprob == pytest.approx(0, abs=1e-3) for _, logprobs in turns for logprob in logprobs)


def test_a_turn_ends_when_it_is_complete(qwen3: VisionLanguageModel, picture: Callable[..., EncodedImage]) -> None:
    def is_complete(ids: Sequence[int]) -> bool:
        return len(ids) >= 2 and ids[-1] % 2 == 0

    for turns in drawn(qwen3, prompts_of(qwen3, picture), 8, [20] * 3, 1.0, is_complete):
        for ids, logprobs in turns:
            complete = [place for place in range(2, len(ids) + 1) if is_complete(ids[:place])]
            assert len(ids) == len(logprobs) and (ids[-1] in qwen3.end_ids or [len(ids)] == (complete or [20]))


def test_turns_of_a_prompt_differ_and_their_draws_have_the_distribution_of_the_model(
    qwen3: VisionLanguageModel, picture: Callable[..., EncodedImage]
) -> None:
    [turns] = drawn(qwen3, prompts_of(qwen3, picture)[:1], 64, [1], 1.0)
    assert len({tuple(ids) for ids, _ in turns}) > 8
    known = {ids[0]: logprobs[0] for ids, logprobs in turns}
    assert all(logprobs == [known[ids[0]]] for ids, logprobs in turns) and max(known.values()) < 0


@pytest.mark.parametrize("lengths", [(1, 1, 1), (5, 1, _GROWTH, 1), (3, _GROWTH + 1, 2)])
def test_the_buffers_hold_all_keys_and_values(lengths: tuple[int, ...]) -> None:
    layer, keys = GrowingLayer(), torch.randn(3, 2, sum(lengths), 4)
    for start, length in zip([sum(lengths[:place]) for place in range(len(lengths))], lengths, strict=True):
        new = keys[:, :, start : start + length]
        held, values = layer.update(new, -new)
        assert torch.equal(held, keys[:, :, : start + length]) and torch.equal(values, -held)
    assert layer.get_seq_length() == sum(lengths)
    rows = torch.tensor([2, 0, 0])
    layer.batch_select_indices(rows)
    assert torch.equal(layer.keys, keys[rows]) and torch.equal(layer.values, -keys[rows])
    held, _ = layer.update(keys[:, :, :1], keys[:, :, :1])
    assert torch.equal(held, torch.cat([keys[rows], keys[:, :, :1]], dim=2))
