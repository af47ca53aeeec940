"""The trainer's rollouts from a real vLLM server: its log-probabilities are the policy's, before and after a sync."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
import torch
from PIL import Image

from groundtrace.trainer.collate import collate
from groundtrace.trainer.encode import encode_prompt, with_response
from groundtrace.trainer.model import VisionLanguageModel, load_model, set_attention
from groundtrace.trainer.policy import score
from groundtrace.trainer.rollouts import TransformersSampler
from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.sampler import SamplerError
from groundtrace.trainer.settings import ModelSettings, RolloutSettings
from groundtrace.trainer.vllm_rollouts import GENERATE, VllmSampler

pytestmark = pytest.mark.vllm

TOLERANCE_NATS = 1e-3
LENGTH = 40


@pytest.fixture
def base_url(rollout_url: str) -> str:
    return rollout_url


@pytest.fixture
def vlm(tiny_qwen3vl_dir: Path) -> VisionLanguageModel:
    """The served model with weights that hardly ever draw a banned token, as those of a trained one do."""
    made = load_model(ModelSettings(str(tiny_qwen3vl_dir), dtype="float32"), device="cpu")
    tilt_banned(made, -20.0)
    return made


@torch.no_grad()
def tilt_banned(vlm: VisionLanguageModel, logit: float) -> None:
    """Channel 0 of the tiny model's residual stream is a constant near 2 (see ``tiny_qwen3vl.py``): a bias."""
    vlm.model.lm_head.weight[list(vlm.banned_ids), 0] = logit / 2


@torch.no_grad()
def perturb(module: torch.nn.Module) -> None:
    generator = torch.Generator().manual_seed(3)
    for weight in module.parameters():
        if weight.ndim > 1:
            weight += 0.5 * weight.std() * torch.randn(weight.shape, generator=generator)


@pytest.fixture
def prompts(vlm: VisionLanguageModel) -> list[Sample]:
    """No picture, one, and two of other sizes."""

    def seen(seed: int, width: int, height: int) -> Any:
        noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
        return vlm.encode_image(Image.fromarray(noise), f"noise-{seed}")

    def asked(id: str, content: str, *pictures: Any) -> Sample:
        return encode_prompt(vlm, id, [{"role": "user", "content": content}], pictures)

    one = asked("one", "<image>How many are red?", seen(0, 96, 64))
    two = asked("two", "Compare <image> with <image> now.", seen(1, 64, 64), seen(2, 128, 160))
    return [asked("none", "How many?"), one, two]


@pytest.fixture
def sampler(vlm: VisionLanguageModel, base_url: str, tmp_path: Path) -> VllmSampler:
    return make(vlm, base_url, tmp_path)


def make(vlm: VisionLanguageModel, base_url: str, folder: Path, **changes: Any) -> VllmSampler:
    settings = RolloutSettings(kind="vllm", base_url=base_url, max_new_tokens=LENGTH)
    return VllmSampler(vlm, replace(settings, **changes), str(folder / "weights"))


@torch.no_grad()
def largest_difference(
    vlm: VisionLanguageModel, prompts: Sequence[Sample], answers: list[list[Rollout]], temperature: float = 1.0
) -> float:
    """Between the server's log-probabilities and the policy's, of any token, in nats."""
    pairs = [(prompt, answer) for prompt, own in zip(prompts, answers, strict=True) for answer in own]
    samples = [with_response(prompt, answer.ids, prompt.id) for prompt, answer in pairs]
    theirs = torch.tensor([logprob for _, answer in pairs for logprob in answer.logprobs or ()])
    return (score(vlm, collate(vlm, samples), temperature).logprobs - theirs).abs().max().item()


async def greedy(sampler: VllmSampler, base_url: str, prompt: Sample) -> list[int]:
    """The server's likeliest continuation of a prompt."""
    body = sampler.request(prompt, 1, 0)
    body["sampling_params"]["temperature"] = 0.0
    async with (
        aiohttp.ClientSession() as session,
        session.post(base_url.removesuffix("/v1") + GENERATE, json=body) as reply,
    ):
        return (await reply.json())["choices"][0]["token_ids"]


def inputs_of(prompt: Sample) -> dict[str, Any]:
    inputs: dict[str, Any] = {"input_ids": prompt.ids[None], "mm_token_type_ids": prompt.is_image[None].int()}
    if prompt.images:
        inputs["pixel_values"] = torch.cat([picture.patches for picture in prompt.images])
        inputs["image_grid_thw"] = torch.tensor([picture.grid for picture in prompt.images])
    return inputs


@torch.no_grad()
def next_token(vlm: VisionLanguageModel, prompt: Sample) -> torch.Tensor:
    """The distribution of the first token of an answer, by transformers."""
    ready(vlm)
    return vlm.model(**inputs_of(prompt)).logits[0, -1].softmax(0)


def ready(vlm: VisionLanguageModel) -> None:
    """What transformers needs after the trainer's own forward pass."""
    set_attention(vlm.model, "sdpa")
    vlm.model.model.rope_deltas = None


@torch.no_grad()
def greedy_here(vlm: VisionLanguageModel, prompt: Sample) -> list[int]:
    """The policy's own, by transformers."""
    ready(vlm)
    ends = list(vlm.end_ids)
    out = vlm.model.generate(
        **inputs_of(prompt), do_sample=False, max_new_tokens=LENGTH, eos_token_id=ends, pad_token_id=ends[0]
    )
    return out[0, len(prompt) :].tolist()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_are_the_policys(
    temperature: float, vlm: VisionLanguageModel, prompts: list[Sample], base_url: str, tmp_path: Path
) -> None:
    sampler = make(vlm, base_url, tmp_path, temperature=temperature)
    sampler.sync()
    answers = sampler.sample(prompts, 8, seed=1)
    assert largest_difference(vlm, prompts, answers, temperature) < TOLERANCE_NATS


def test_tokens_are_drawn_as_often_as_the_policy_says(
    vlm: VisionLanguageModel, prompts: list[Sample], base_url: str, tmp_path: Path
) -> None:
    settings = RolloutSettings(max_new_tokens=1)
    server = make(vlm, base_url, tmp_path, max_new_tokens=1)
    server.sync()
    theirs = [answer.ids[0] for seed in range(40) for answer in server.sample([prompts[1]], 50, seed)[0]]
    ours = [answer.ids[0] for answer in TransformersSampler(vlm, settings).sample([prompts[1]], 2000, 0)[0]]
    size = len(vlm.tokenizer)
    shares = [np.bincount(ids, minlength=size) / len(ids) for ids in (theirs, ours)]
    policy = next_token(vlm, prompts[1]).numpy()
    # Of 2000 draws a token's share has a standard error of at most 0.011: four of them.
    assert np.abs(shares[0] - policy).max() < 0.045
    assert np.abs(shares[1] - policy).max() < 0.045


def test_answers_differ_within_a_group_and_come_again_with_the_seed(
    sampler: VllmSampler, prompts: list[Sample]
) -> None:
    sampler.sync()
    first = sampler.sample(prompts, 8, seed=5)
    assert all(len({answer.ids for answer in group}) == 8 for group in first)
    assert sampler.sample(prompts, 8, seed=5) == first
    assert sampler.sample(prompts, 8, seed=6) != first


def test_truncated_answers_and_ends(sampler: VllmSampler, vlm: VisionLanguageModel, prompts: list[Sample]) -> None:
    sampler.sync()
    answers = [answer for group in sampler.sample(prompts, 16, seed=2) for answer in group]
    assert {answer.is_truncated for answer in answers} == {True, False}
    for answer in answers:
        assert answer.is_truncated == (answer.ids[-1] not in vlm.end_ids)
        assert not answer.is_truncated or len(answer.ids) == LENGTH
        assert not set(answer.ids[:-1]) & set(vlm.end_ids)


def test_every_end_ends_an_answer(sampler: VllmSampler, vlm: VisionLanguageModel, prompts: list[Sample]) -> None:
    for end in vlm.end_ids:
        with torch.no_grad():
            vlm.model.lm_head.weight[end, 0] = 50.0
        sampler.sync()
        assert [answer.ids for group in sampler.sample(prompts, 2, seed=0) for answer in group] == [(end,)] * 6
        with torch.no_grad():
            vlm.model.lm_head.weight[end, 0] = -10.0


def test_banned_tokens_never_appear(sampler: VllmSampler, vlm: VisionLanguageModel, prompts: list[Sample]) -> None:
    tilt_banned(vlm, 400.0)
    sampler.sync()
    drawn = {token for group in sampler.sample(prompts, 16, seed=0) for answer in group for token in answer.ids}
    assert len(drawn) > 100
    assert not drawn & set(vlm.banned_ids)


@pytest.mark.parametrize("part", ["visual", "language_model"])
def test_after_a_sync_the_server_has_the_new_weights(
    part: str, sampler: VllmSampler, vlm: VisionLanguageModel, prompts: list[Sample], base_url: str
) -> None:
    """The same pictures are asked about before, so that the server has kept what the old tower made of them."""
    shown = prompts[1:]

    def served() -> list[list[int]]:
        return [asyncio.run(greedy(sampler, base_url, prompt)) for prompt in shown]

    sampler.sync()
    before = served()
    assert before == [greedy_here(vlm, prompt) for prompt in shown]
    perturb(getattr(vlm.model.model, part))
    assert largest_difference(vlm, shown, sampler.sample(shown, 4, seed=0)) > 0.1
    sampler.sync()
    after = served()
    assert after == [greedy_here(vlm, prompt) for prompt in shown]
    assert after != before
    assert largest_difference(vlm, shown, sampler.sample(shown, 4, seed=0)) < TOLERANCE_NATS


def test_what_the_server_refuses_is_said_in_its_words(
    vlm: VisionLanguageModel, prompts: list[Sample], base_url: str, tmp_path: Path
) -> None:
    with pytest.raises(SamplerError, match=r"status 404: .*other-model"):
        make(vlm, base_url, tmp_path, served_name="other-model").sample(prompts, 1, 0)
