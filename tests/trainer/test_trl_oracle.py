"""GRPO's loss and gradients against TRL 1.16's ``dapo`` loss, on the same tiny model, pictures, answers and rewards.

TRL's own code makes everything from the prompts on: template, pictures, padding, advantages, importance weights, old
and reference log-probabilities, loss. Only what would sample is replaced, by answers that stand fixed here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from groundtrace.trainer.collate import collate, micro_batches
from groundtrace.trainer.encode import encode_prompt, with_response
from groundtrace.trainer.loss import Clipping, advantages, policy_loss
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.policy import score
from groundtrace.trainer.sample import Sample

pytestmark = pytest.mark.trl

GROUP = 3
QUESTIONS = (("Compare them. Which is red?", (96, 64)), ("How many are blue?", (64, 128)))
REWARDS = (1.0, 0.0, 0.25, 0.0, 1.0, 1.0)
LENGTHS = (5, 9, 3, 12, 7, 4)
NOT_GIVEN = (1, 2)
"""The answer and the token whose log-probability the sampler did not give."""


@dataclass(frozen=True)
class Answers:
    """Six fixed answers to two questions; ``ours`` says of each token whether the model wrote it."""

    ids: tuple[tuple[int, ...], ...]
    ours: tuple[tuple[bool, ...], ...]
    sampler: tuple[tuple[float, ...], ...] | None = None


def _answers(vlm: VisionLanguageModel, with_tool: bool) -> Answers:
    generator = torch.Generator().manual_seed(5)
    end = vlm.tokenizer.eos_token_id
    drawn = [torch.randint(20, 400, (length - 1,), generator=generator).tolist() for length in LENGTHS]
    ids = tuple((*tokens, end) for tokens in drawn)
    return Answers(ids, tuple(tuple(not (with_tool and 2 <= at <= 3) for at in range(len(row))) for row in ids))


def _perturb(model: Any) -> None:
    """Move every weight a little, alike in both models: the update between sampling and this loss."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for _, weight in sorted(model.named_parameters()):
            weight += 0.02 * torch.randn(weight.shape, generator=generator)


def _trl_trainer(folder: Path, pictures: list[Image.Image], output: Path, **options: Any) -> Any:
    from trl import GRPOConfig, GRPOTrainer

    auto: Any = AutoModelForImageTextToText
    model = auto.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    config = GRPOConfig(
        output_dir=str(output),
        loss_type="dapo",
        epsilon=0.2,
        epsilon_high=0.28,
        scale_rewards="none",
        num_generations=GROUP,
        per_device_train_batch_size=len(REWARDS),
        num_iterations=2,  # makes TRL compute and keep the old log-probabilities
        max_completion_length=max(LENGTHS),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
        use_bias_correction_kl=False,  # DeepSeek-V3.2's; GRPO's own estimate has no ratio before it
        vllm_importance_sampling_mode="token_truncate",
        vllm_importance_sampling_clip_max=2.0,
        **options,
    )
    rows = [
        {"prompt": [{"role": "user", "content": text}], "image": picture}
        for (text, _), picture in zip(QUESTIONS, pictures, strict=True)
    ]
    return GRPOTrainer(
        model,
        reward_funcs=lambda completions, **_: list(REWARDS),
        args=config,
        train_dataset=Dataset.from_list([{"prompt": row["prompt"]} for row in rows]),
        processing_class=AutoProcessor.from_pretrained(folder, padding_side="left"),
    ), [row for row in rows for _ in range(GROUP)]


def _trl_step(trainer: Any, rows: list[dict[str, Any]], answers: Answers, with_tool: bool) -> tuple[float, Any]:
    """TRL's loss of the fixed answers after the update, and the model with its gradients."""

    def generate(prompts: list[Any]) -> tuple[Any, ...]:
        prompt_ids = [
            trainer.processing_class.apply_chat_template(
                prompt, add_generation_prompt=True, tokenize=True, return_dict=True
            )["input_ids"]
            for prompt in prompts
        ]
        flat = [ids[0] if isinstance(ids[0], list) else ids for ids in prompt_ids]
        tool = [[int(ours) for ours in row] for row in answers.ours] if with_tool else None
        sampler = None
        if answers.sampler is not None:
            sampler = [[None if value != value else value for value in row] for row in answers.sampler]
        texts = [[{"role": "assistant", "content": "fixed"}] for _ in answers.ids]
        return flat, [list(ids) for ids in answers.ids], tool, texts, sampler, {}, None, None

    trainer._generate = generate
    trainer.use_vllm = answers.sampler is not None
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows)
    _perturb(trainer.model)
    loss = trainer._compute_loss(trainer.model, batch)
    loss.backward()
    return loss.item(), trainer.model


def _our_samples(vlm: VisionLanguageModel, pictures: list[Image.Image], answers: Answers) -> list[Sample]:
    found = []
    for index, ids in enumerate(answers.ids):
        question = index // GROUP
        turn = {"role": "user", "content": f"<image>{QUESTIONS[question][0]}"}
        prompt = encode_prompt(vlm, str(question), [turn], [vlm.encode_image(pictures[question], str(question))])
        sample = with_response(prompt, ids, str(question))
        start = question * GROUP
        gain = advantages(REWARDS[start : start + GROUP], scale="none")[index - start]
        mask = torch.cat([prompt.loss_mask, torch.tensor(answers.ours[index])])
        known = None
        if answers.sampler is not None:
            known = torch.cat([torch.zeros(len(prompt)), torch.tensor(answers.sampler[index])])
        found.append(
            replace(
                sample,
                loss_mask=mask,
                advantages=torch.full((len(sample),), float(gain or 0)),
                sampler_logprobs=known,
            )
        )
    return found


def _our_step(
    vlm: VisionLanguageModel, start: VisionLanguageModel, samples: list[Sample], kl_beta: float, tokens: int
) -> float:
    """Our loss of the samples under ``vlm``, the updated model, in several forward passes; leaves its gradients.

    ``start`` is the model before the update: the one that sampled, and the reference.
    """
    denominator = sum(sample.targets for sample in samples)
    total = 0.0
    for part in micro_batches(samples, tokens):
        batch = collate(vlm, part)
        with torch.no_grad():
            before = score(start, batch).logprobs
        made = policy_loss(
            score(vlm, batch).logprobs,
            before,
            batch.sampler_logprobs,
            batch.advantages,
            denominator,
            Clipping(0.2, 0.28, 2.0),
            before if kl_beta else None,
            kl_beta,
        )
        made.loss.backward()
        total += made.loss.item()
    return total


def _with_sampler(vlm: VisionLanguageModel, samples: list[Sample], answers: Answers) -> Answers:
    """The answers with log-probabilities of a sampler that is off by up to a factor of e, and one that it left out."""
    generator = torch.Generator().manual_seed(3)
    rows = []
    for index, sample in enumerate(samples):
        with torch.no_grad():
            own = score(vlm, collate(vlm, [sample])).logprobs
        values = (own + 2 * torch.rand(own.shape, generator=generator) - 1).tolist()
        if index == NOT_GIVEN[0]:
            values[NOT_GIVEN[1]] = float("nan")
        rows.append(tuple(values))
    return replace(answers, sampler=tuple(rows))


def _same_grads(ours: Any, theirs: Any) -> None:
    expected = {name: weight.grad for name, weight in theirs.named_parameters()}
    actual = {name: weight.grad for name, weight in ours.named_parameters()}
    assert set(actual) == set(expected)
    largest = 0.0
    for name, grad in expected.items():
        assert (grad is None) == (actual[name] is None), name
        if grad is not None:
            torch.testing.assert_close(actual[name], grad, rtol=1e-5, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
            largest = max(largest, float(grad.abs().max()))
    assert largest > 1e-2, "the gradients compared are not all near zero"


@pytest.mark.parametrize("tokens", [8192, 60], ids=["one-batch", "accumulated"])
@pytest.mark.parametrize(
    ("kl_beta", "with_sampler", "with_tool"),
    [(0.0, False, False), (0.04, False, False), (0.0, True, False), (0.0, False, True)],
    ids=["plain", "kl", "importance-corrected", "tool-tokens-masked"],
)
def test_loss_and_gradients_equal_trl(
    load: Callable[..., VisionLanguageModel],
    folders: Mapping[str, Path],
    image: Callable[..., Image.Image],
    tmp_path: Path,
    kl_beta: float,
    with_sampler: bool,
    with_tool: bool,
    tokens: int,
) -> None:
    start, updated = load("qwen3"), load("qwen3")
    pictures = [image(*size) for _, size in QUESTIONS]
    answers = _answers(start, with_tool)
    if with_sampler:
        answers = _with_sampler(start, _our_samples(start, pictures, answers), answers)
    trainer, rows = _trl_trainer(folders["qwen3"], pictures, tmp_path, beta=kl_beta)
    expected, theirs = _trl_step(trainer, rows, answers, with_tool)
    assert trainer._metrics["train"]["clip_ratio/low_mean"][-1] > 0, "some ratios are clipped from below"
    assert trainer._metrics["train"]["clip_ratio/high_mean"][-1] > 0, "some ratios are clipped from above"

    _perturb(updated.model)
    loss = _our_step(updated, start, _our_samples(updated, pictures, answers), kl_beta, tokens)

    assert loss == pytest.approx(expected, abs=1e-5)
    _same_grads(updated.model, theirs)
