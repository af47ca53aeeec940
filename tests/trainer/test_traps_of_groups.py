"""Known traps of group-relative training, each by its name."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import torch

from groundtrace.rewards.rows.reward import Scored
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.schemas.records import Question
from groundtrace.trainer.credit import to_samples
from groundtrace.trainer.encode import encode_prompt
from groundtrace.trainer.group import Group
from groundtrace.trainer.grpo import Trainee, update
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.optimiser import NotFinite, Optimiser
from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.settings import (
    ForwardBatchSettings,
    GrpoSettings,
    ModelSettings,
    OptimiserSettings,
    TrainerSettings,
)

Load = Callable[..., VisionLanguageModel]
Earned = tuple[float | None, float | None]
"""Reward and raw outcome."""
NAN = float("nan")


def _settings(tokens: int = 10**6, **grpo: Any) -> TrainerSettings:
    return TrainerSettings(
        ModelSettings("x"),
        batch=ForwardBatchSettings(2, tokens),
        grpo=GrpoSettings(**{"advantage_epsilon": 0.0, **grpo}),
    )


def _group(
    vlm: VisionLanguageModel, earned: list[Earned], id: str = "q", truncated: tuple[int, ...] = (), seed: int = 0
) -> Group:
    """Answers of 3, 4, … tokens; the prompt's text is the same whatever the id."""
    generator = torch.Generator().manual_seed(seed)
    prompt = encode_prompt(vlm, id, [{"role": "user", "content": "How many?"}], [])
    ids = [torch.randint(20, 400, (3 + n,), generator=generator).tolist() for n in range(len(earned))]
    rollouts = tuple(Rollout(tuple(row), n in truncated) for n, row in enumerate(ids))
    question = Question(id, "drawn", "CC0-1.0", (), "How many?", "3", "numeric")
    scored = tuple(Scored(reward, outcome, "", ()) for reward, outcome in earned)
    return Group(TrainingRow(id, "drawn", (), (), question), prompt, rollouts, scored)


def _gains(samples: list[Sample]) -> list[float]:
    found = [sample.advantages for sample in samples]
    assert all(gain is not None and len(set(gain.tolist())) == 1 for gain in found)
    return [float(gain[0]) for gain in found if gain is not None]


def _trainee(vlm: VisionLanguageModel, settings: TrainerSettings, **optimiser: Any) -> Trainee:
    stepping = Optimiser(vlm.model, OptimiserSettings(**optimiser), 10)
    return Trainee(vlm, stepping, cast(Any, None), cast(Any, None), cast(Any, None), None, settings)


def _weights(vlm: VisionLanguageModel) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in vlm.model.named_parameters()}


MIXED: list[Earned] = [(1.0, 1.0), (0.0, 0.0), (0.5, 0.0), (1.0, 1.0)]


def test_trap_one_loss_denominator_per_step(load: Load) -> None:
    once, often = load("qwen3"), load("qwen3")
    found = []
    for vlm, tokens in ((once, 10**6), (often, 2)):
        settings = _settings(tokens)
        samples = to_samples([_group(vlm, MIXED)], settings, 0)
        found.append(update(_trainee(vlm, settings, lr=1e-3), samples, 0))
    for name in ("loss", "grad_norm", "entropy"):
        assert found[1][name] == pytest.approx(found[0][name], rel=1e-4, abs=1e-6)
    assert cast(float, found[0]["grad_norm"]) > 1e-3


def test_trap_truncated_rollouts_leave_numerator_and_denominator(load: Load, qwen3: VisionLanguageModel) -> None:
    """But not the mean that the others are compared with."""
    group = _group(qwen3, MIXED, truncated=(0, 2))
    kept = to_samples([group], _settings(advantage_scale="none"), 0)
    assert [sample.targets for sample in kept] == [4, 6]
    assert _gains(kept) == pytest.approx([-0.625, 0.375])
    assert not any(sample.is_truncated for sample in kept)
    # The step's loss: with the ratio 1 it is minus the advantages' sum over the 10 tokens that are left.
    vlm = load("qwen3")
    loss = update(_trainee(vlm, _settings(advantage_scale="none"), lr=1e-3), kept, 0)["loss"]
    assert loss == pytest.approx(-(4 * -0.625 + 6 * 0.375) / 10, abs=1e-6)


@pytest.mark.parametrize(
    ("overlong", "expected"), [("mask", [0, 2, 3]), ("keep", [0, 1, 2, 3]), ("soft", [0, 1, 2, 3])]
)
def test_trap_overlong_rollouts(qwen3: VisionLanguageModel, overlong: str, expected: list[int]) -> None:
    samples = to_samples([_group(qwen3, MIXED, truncated=(1,))], _settings(overlong=overlong), 0)
    assert [sample.targets - 3 for sample in samples] == expected


def test_trap_unscored_rollouts_leave_the_loss(qwen3: VisionLanguageModel) -> None:
    samples = to_samples([_group(qwen3, [(1.0, 1.0), (None, None), (0.0, 0.0)])], _settings(), 0)
    assert [sample.targets for sample in samples] == [3, 5]
    assert _gains(samples) == pytest.approx([0.5**0.5, -(0.5**0.5)])


@pytest.mark.parametrize(
    ("earned", "expected"),
    [
        ([(0.9, 1.0), (0.4, 1.0)], False),  # shaping differs, both are right
        ([(0.3, 0.0), (0.1, 0.0)], False),
        ([(0.5, 1.0), (0.5, 0.0)], True),  # shaping is alike, one is right
        ([(0.5, 1.0), (None, None)], False),
    ],
)
def test_trap_groups_are_filtered_on_the_raw_outcome(
    qwen3: VisionLanguageModel, earned: list[Earned], expected: bool
) -> None:
    assert _group(qwen3, earned).is_mixed is expected


@pytest.mark.parametrize("scale", ["std", "none", "fixed"])
def test_trap_a_flat_group_gives_exactly_zero_gradient(load: Load, scale: str) -> None:
    """Rewards of 0.1, whose mean over three is not 0.1 in floating point."""
    vlm = load("qwen3")
    settings = _settings(advantage_scale=scale)
    samples = to_samples([_group(vlm, [(0.1, 0.0)] * 3)], settings, 0)
    assert _gains(samples) == [0.0] * 3
    before = _weights(vlm)
    metrics = update(_trainee(vlm, settings, lr=0.1), samples, 0)
    assert (metrics["loss"], metrics["grad_norm"]) == (0.0, 0.0)
    assert all(torch.equal(weight, before[name]) for name, weight in vlm.model.named_parameters())


def test_trap_groups_are_told_apart_by_id_and_not_by_text(qwen3: VisionLanguageModel) -> None:
    """Two questions with one text, on other pictures say: each is compared with itself."""
    one, other = _group(qwen3, [(1.0, 1.0), (0.5, 0.0)], "q1"), _group(qwen3, [(0.25, 1.0), (0.0, 0.0)], "q2", seed=1)
    assert torch.equal(one.prompt.ids, other.prompt.ids)
    samples = to_samples([one, other], _settings(advantage_scale="none"), 0)
    assert _gains(samples) == pytest.approx([0.25, -0.25, 0.125, -0.125])
    assert [sample.group == samples[0].group for sample in samples] == [True, True, False, False]


def test_trap_a_question_drawn_twice_makes_two_groups(qwen3: VisionLanguageModel) -> None:
    one, again = _group(qwen3, [(1.0, 1.0), (0.0, 0.0)]), _group(qwen3, [(1.0, 1.0), (0.5, 0.0)], seed=1)
    samples = to_samples([one, again], _settings(advantage_scale="none"), 0)
    assert _gains(samples) == pytest.approx([0.5, -0.5, 0.25, -0.25])
    assert len({sample.group for sample in samples}) == 2


def test_trap_sampler_logprobs_stand_at_their_tokens(qwen3: VisionLanguageModel) -> None:
    group = _group(qwen3, [(1.0, 1.0), (0.0, 0.0)])
    known = tuple(replace(r, logprobs=tuple(-float(t) for t in r.ids)) for r in group.rollouts)
    for sample in to_samples([replace(group, rollouts=known)], _settings(), 0):
        assert sample.sampler_logprobs is not None
        assert sample.sampler_logprobs[sample.loss_mask].tolist() == [-float(t) for t in sample.ids[sample.loss_mask]]


def test_trap_shuffled_advantages_are_the_same_ones(qwen3: VisionLanguageModel) -> None:
    group = [_group(qwen3, MIXED, f"q{n}", seed=n) for n in range(4)]
    plain, shuffled = (to_samples(group, _settings(shuffle_advantages=on), 0) for on in (False, True))
    assert sorted(_gains(shuffled)) == sorted(_gains(plain))
    assert _gains(shuffled) != _gains(plain)
    assert [a.ids.tolist() for a in shuffled] == [b.ids.tolist() for b in plain]


@pytest.mark.parametrize("place", [0, 3])
def test_trap_a_loss_that_is_not_a_number_changes_nothing(load: Load, place: int) -> None:
    vlm = load("qwen3")
    settings = _settings(tokens=2)  # a forward pass for each sample
    samples = to_samples([_group(vlm, MIXED)], settings, 0)
    bad = replace(samples[place], advantages=torch.full((len(samples[place]),), NAN))
    before = _weights(vlm)
    with pytest.raises(NotFinite, match="step 3: the loss is nan"):
        update(_trainee(vlm, settings, lr=0.1), [*samples[:place], bad, *samples[place + 1 :]], 2)
    assert all(torch.equal(weight, before[name]) for name, weight in vlm.model.named_parameters())
