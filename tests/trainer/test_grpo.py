"""The update of GRPO on groups made by hand: what counts, what does not, and what a step changes."""

import copy
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from groundtrace.trainer import grpo
from groundtrace.trainer.collate import collate
from groundtrace.trainer.credit import to_samples
from groundtrace.trainer.grpo import update, with_gradient
from groundtrace.trainer.loss import policy_loss
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.optimiser import NotFinite
from groundtrace.trainer.policy import score
from groundtrace.trainer.reference import reference_of
from groundtrace.trainer.sample import Rollout

from .runs import changed, group_of, rollout_of, settings_of, trainee_of, weights_of

Load = Callable[..., VisionLanguageModel]


def made(
    load: Load, folders: Any, tmp_path: Path, with_reference: bool = False, **grpo: Any
) -> grpo.Trainee:  # fmt: skip
    settings = settings_of(folders["qwen3"], grpo={"steps": 4} | grpo)
    vlm = load("qwen3")
    reference = copy.deepcopy(vlm.model).requires_grad_(False).eval() if with_reference else None
    return trainee_of(vlm, settings, None, tmp_path, reference=reference)  # type: ignore[arg-type]


def earned_by(samples: Sequence[Any]) -> list[float]:
    """The advantage of each sample, which all its tokens share."""
    for sample in samples:
        assert len(set(sample.advantages.tolist())) == 1
    return [round(float(sample.advantages[0]), 4) for sample in samples]


def test_advantages_of_a_group(qwen3: VisionLanguageModel, folders: Any) -> None:
    """Rewards 1, 0, 0, 1: the mean is 0.5, the sample deviation sqrt(1/3)."""
    group = group_of(qwen3, [(1.0, 1.0), (0.0, 0.0), (0.0, 0.0), (1.0, 1.0)])
    samples = to_samples([group], settings_of(folders["qwen3"]), 0)
    assert earned_by(samples) == [0.866, -0.866, -0.866, 0.866]
    assert [sample.targets for sample in samples] == [len(rollout.ids) for rollout in group.rollouts]
    assert all(not sample.loss_mask[: len(group.prompt)].any() for sample in samples)


def test_flat_groups_give_exactly_zero_gradient(load: Load, folders: Any, tmp_path: Path) -> None:
    """Rewards whose mean is not exact in binary: R - mean would be 1e-17 and its deviation too, their quotient 1."""
    trainee = made(load, folders, tmp_path)
    groups = [group_of(trainee.vlm, [(0.1, 0.0)] * 3), group_of(trainee.vlm, [(0.7, 1.0)] * 6)]
    samples = to_samples(groups, trainee.settings, 0)
    assert earned_by(samples) == [0.0] * 9
    before = weights_of(trainee.vlm)
    metrics = update(trainee, samples, 0)
    assert metrics["grad_norm"] == 0.0
    assert metrics["loss"] == 0.0
    assert changed(before, trainee.vlm) == []


def test_a_flat_group_stays_in_the_denominator(load: Load, folders: Any, tmp_path: Path) -> None:
    """Beside four flat rollouts of the same length the other group's gradient is halved."""
    trainee = made(load, folders, tmp_path)
    mixed, flat = [(1.0, 1.0), (0.0, 0.0)] * 2, [(0.0, 0.0)] * 4
    one = update(trainee, to_samples([group_of(trainee.vlm, mixed)], trainee.settings, 0), 0)
    trainee = made(load, folders, tmp_path)
    groups = [group_of(trainee.vlm, mixed), group_of(trainee.vlm, flat)]
    both = update(trainee, to_samples(groups, trainee.settings, 0), 0)
    assert one["grad_norm"] and both["grad_norm"]
    assert both["grad_norm"] == pytest.approx(one["grad_norm"] / 2, rel=1e-4)


def test_a_flat_group_is_not_computed(load: Load, folders: Any, tmp_path: Path) -> None:
    """The metrics are means over the samples that have a gradient, as without the flat group."""
    trainee = made(load, folders, tmp_path)
    mixed, flat = (group_of(trainee.vlm, [(1.0, 1.0), (share, 0.0)] * 2) for share in (0.0, 1.0))
    samples = to_samples([flat, mixed], trainee.settings, 0)
    assert with_gradient(samples) == samples[4:] and with_gradient(samples[:4]) == samples[:1]
    both, one = (update(made(load, folders, tmp_path), each, 0) for each in (samples, samples[4:]))
    assert both["entropy"] == pytest.approx(one["entropy"], rel=1e-5)


def test_unscored_rollouts_leave_the_group(qwen3: VisionLanguageModel, folders: Any) -> None:
    """Rewards 1, none, 0: the mean is 0.5 and not 1/3, and two samples are left."""
    group = group_of(qwen3, [(1.0, 1.0), (None, None), (0.0, 0.0)])
    samples = to_samples([group], settings_of(folders["qwen3"]), 0)
    assert earned_by(samples) == [0.7071, -0.7071]
    assert [tuple(s.ids[len(group.prompt) :].tolist()) for s in samples] == [
        group.rollouts[0].ids,
        group.rollouts[2].ids,
    ]


def test_a_group_that_nobody_scored_is_no_sample(qwen3: VisionLanguageModel, folders: Any) -> None:
    assert to_samples([group_of(qwen3, [(None, None)] * 3)], settings_of(folders["qwen3"]), 0) == []


OVERLONG = [
    # 12 tokens are the longest, the punishment begins above 6. Rewards 1 and 0 of 3 tokens, and 1 of 12, cut off.
    ("mask", 2, [0.5774, -1.1547]),
    ("keep", 3, [0.5774, -1.1547, 0.5774]),
    ("soft", 3, [1.1547, -0.5774, -0.5774]),
]


@pytest.mark.parametrize(("overlong", "left", "expected"), OVERLONG)
def test_truncated_rollouts(
    overlong: str, left: int, expected: list[float], load: Load, folders: Any, tmp_path: Path
) -> None:
    """Masked, the rollout leaves the loss's numerator and denominator but not the group's mean."""
    trainee = made(load, folders, tmp_path, overlong=overlong, overlong_buffer=6)
    text = [trainee.vlm.tokenizer("red")["input_ids"][0]]
    end = trainee.vlm.tokenizer.eos_token_id
    short, cut = Rollout((*text * 2, end), False), Rollout((*text * 12,), True)
    group = group_of(trainee.vlm, [(1.0, 1.0), (0.0, 0.0), (1.0, 1.0)], rollouts=[short, short, cut])
    samples = to_samples([group], trainee.settings, 0)
    assert earned_by(samples) == expected
    assert len(samples) == left
    # The ratio is 1 at the first update, so the loss is minus the mean advantage over all tokens that count.
    lengths = [3, 3, 12][:left]
    mean = sum(a * n for a, n in zip(expected, lengths, strict=True)) / sum(lengths)
    assert update(trainee, samples, 0)["loss"] == pytest.approx(-mean, abs=1e-3)


def test_one_question_in_two_groups(qwen3: VisionLanguageModel, folders: Any) -> None:
    """The same id with two prompts: each group has its own mean, and its own name."""
    groups = [
        group_of(qwen3, [(1.0, 1.0), (0.0, 0.0)], prompt="How many are red? Point."),
        group_of(qwen3, [(3.0, 1.0), (2.0, 1.0)], prompt="How many are red? Only say."),
    ]
    samples = to_samples(groups, settings_of(folders["qwen3"]), 7)
    assert earned_by(samples) == [0.7071, -0.7071] * 2
    names = [sample.group for sample in samples]
    assert (names[0], names[2]) == (names[1], names[3])
    assert names[0] != names[2]
    assert {sample.id for sample in samples} == {"q"}


def test_one_prompt_of_two_questions(qwen3: VisionLanguageModel, folders: Any) -> None:
    """The same words are asked of two pictures: they are no group."""
    groups = [group_of(qwen3, [(1.0, 1.0), (0.0, 0.0)], id=id) for id in ("a", "b")]
    assert len({sample.group for sample in to_samples(groups, settings_of(folders["qwen3"]), 0)}) == 2


SCALES = [
    # Rewards 1, 0, 0: the mean is 1/3, the sample deviation 0.5774.
    ("std", [1.1547, -0.5774, -0.5774]),
    ("none", [0.6667, -0.3333, -0.3333]),
    ("fixed", [1.6667, -0.8333, -0.8333]),
]


@pytest.mark.parametrize(("scale", "expected"), SCALES)
def test_scales(scale: str, expected: list[float], qwen3: VisionLanguageModel, folders: Any) -> None:
    settings = settings_of(folders["qwen3"], grpo={"advantage_scale": scale, "advantage_unit": 0.4})
    assert earned_by(to_samples([group_of(qwen3, [(1.0, 1.0), (0.0, 0.0), (0.0, 0.0)])], settings, 0)) == expected


def test_shuffled_advantages_are_the_same_ones(qwen3: VisionLanguageModel, folders: Any) -> None:
    groups = [group_of(qwen3, [(reward / 10, float(reward > 4)) for reward in range(8)], id=id) for id in "ab"]
    plain = earned_by(to_samples(groups, settings_of(folders["qwen3"]), 3))
    control = settings_of(folders["qwen3"], grpo={"shuffle_advantages": True})
    shuffled = [earned_by(to_samples(groups, control, step)) for step in (3, 3, 4)]
    assert Counter(shuffled[0]) == Counter(plain)
    assert shuffled[0] != plain
    assert shuffled[0] == shuffled[1], "the same step is shuffled the same way"
    assert shuffled[0] != shuffled[2]


def test_sampler_logprobs_stand_at_their_tokens(qwen3: VisionLanguageModel, folders: Any) -> None:
    rollout = rollout_of(qwen3, "three")
    given = tuple(-0.5 - index for index in range(len(rollout.ids)))
    group = group_of(qwen3, [(1.0, 1.0), (0.0, 0.0)], rollouts=[Rollout(rollout.ids, False, given), rollout])
    first, second = to_samples([group], settings_of(folders["qwen3"]), 0)
    batch = collate(qwen3, [first, second])
    assert tuple(batch.sampler_logprobs[: len(given)].tolist()) == given
    assert batch.sampler_logprobs[len(given) :].isnan().all()


def test_two_updates_share_the_old_policy(
    load: Load, folders: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second update's ratio is against the weights before the first, not against those that it starts from."""
    trainee = made(load, folders, tmp_path, updates_per_rollout=2)
    group = group_of(trainee.vlm, [(1.0, 1.0), (0.0, 0.0), (1.0, 1.0), (0.0, 0.0)])
    samples = to_samples([group], trainee.settings, 0)
    with torch.no_grad():
        first = score(trainee.vlm, collate(trainee.vlm, samples), 1.0, trainee.vlm.never_ids).logprobs
    ratios: list[float] = []
    olds: list[torch.Tensor] = []

    def watched(logprobs: torch.Tensor, old: torch.Tensor, *rest: Any) -> Any:
        ratios.append(float((logprobs.detach() - old).exp().sub(1).abs().max()))
        olds.append(old)
        return policy_loss(logprobs, old, *rest)

    monkeypatch.setattr(grpo, "policy_loss", watched)
    update(trainee, samples, 0)
    assert len(ratios) == 2
    assert ratios[0] < 1e-5
    assert ratios[1] > 1e-3
    found, expected = torch.cat(olds).sort().values, first.sort().values
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_divergence_from_the_reference(load: Load, folders: Any, tmp_path: Path) -> None:
    """At the first step the policy is the reference; after it the divergence is positive and in the loss."""
    trainee = made(load, folders, tmp_path, with_reference=True, kl_beta=0.5)
    before = {name: weight.clone() for name, weight in trainee.reference.named_parameters()}
    group = group_of(trainee.vlm, [(1.0, 1.0), (0.0, 0.0)])
    samples = to_samples([group], trainee.settings, 0)
    first, second = update(trainee, samples, 0), update(trainee, samples, 1)
    assert first["kl"] == pytest.approx(0, abs=1e-9)
    assert second["kl"] is not None and second["kl"] > 1e-4
    targets = [sample.targets for sample in samples]
    advantage = sum(float(s.advantages[0]) * n for s, n in zip(samples, targets, strict=True)) / sum(targets)
    assert second["loss"] == pytest.approx(-advantage + 0.5 * second["kl"], abs=1e-4)
    assert all(torch.equal(weight, before[name]) for name, weight in trainee.reference.named_parameters())


def test_divergence_of_adapters_from_the_model_without_them(load: Load, folders: Any, tmp_path: Path) -> None:
    """The reference of a LoRA training is the policy with its adapters off: no second model, and the same KL term."""
    vlm = load("qwen3", lora_rank=2)
    settings = settings_of(folders["qwen3"], grpo={"steps": 4, "kl_beta": 0.5}, optimiser={"lr": 1e-2})
    other = replace(vlm, model=copy.deepcopy(vlm.model))
    copied = copy.deepcopy(vlm.model).requires_grad_(False).eval()
    found = []
    for own, reference in ((vlm, reference_of(vlm)), (other, copied)):
        trainee = trainee_of(own, settings, None, tmp_path, reference=reference)  # type: ignore[arg-type]
        samples = to_samples([group_of(own, [(1.0, 1.0), (0.0, 0.0)])], settings, 0)
        found.append([update(trainee, samples, step) for step in range(2)])
    for switched, second_model in zip(*found, strict=True):
        for name in ("kl", "loss", "grad_norm"):
            assert switched[name] == pytest.approx(second_model[name], rel=1e-4, abs=1e-7)
    assert found[0][0]["kl"] == pytest.approx(0, abs=1e-9)
    assert found[0][1]["kl"] is not None and found[0][1]["kl"] > 1e-6


def test_micro_batches_make_the_same_step(load: Load, folders: Any, tmp_path: Path) -> None:
    """One denominator for the step: the size of the micro-batches does not matter."""
    found = []
    for tokens in (1024, 16):
        vlm = load("qwen3")
        settings = settings_of(folders["qwen3"], batch={"max_tokens": 16, "tokens": tokens}, grpo={"steps": 4})
        trainee = trainee_of(vlm, settings, None, tmp_path)  # type: ignore[arg-type]
        rollouts = [rollout_of(vlm, "red " * length) for length in (1, 2, 5, 9)]
        group = group_of(vlm, [(1.0, 1.0), (0.0, 0.0), (0.3, 0.0), (0.0, 0.0)], rollouts=rollouts)
        found.append(update(trainee, to_samples([group], settings, 0), 0))
    for name in ("loss", "grad_norm", "entropy"):
        assert found[1][name] == pytest.approx(found[0][name], rel=1e-4, abs=1e-6)


def test_a_loss_that_is_no_number_changes_nothing(load: Load, folders: Any, tmp_path: Path) -> None:
    trainee = made(load, folders, tmp_path)
    group = group_of(trainee.vlm, [(math.nan, 1.0), (0.0, 0.0)])
    before = weights_of(trainee.vlm)
    with pytest.raises(NotFinite, match="step 4: the loss is nan"):
        update(trainee, to_samples([group], trainee.settings, 3), 3)
    assert changed(before, trainee.vlm) == []


def test_the_gap_between_trainer_and_sampler(load: Load, folders: Any, tmp_path: Path) -> None:
    """The mean distance of their log-probabilities, a token; no figure where the sampler gave none."""
    trainee = made(load, folders, tmp_path)
    earned = [(1.0, 1.0), (0.0, 0.0)]
    plain = group_of(trainee.vlm, earned)
    samples = to_samples([plain], trainee.settings, 0)
    batch = collate(trainee.vlm, samples)
    with torch.no_grad():
        ours = score(trainee.vlm, batch, 1.0, trainee.vlm.never_ids).logprobs.split(
            [len(r.ids) for r in plain.rollouts]
        )
    off = [
        replace(r, logprobs=tuple((lp + d).tolist()))
        for r, lp, d in zip(plain.rollouts, ours, (0.5, -0.5), strict=True)
    ]
    assert "logprob_gap" not in update(trainee, samples, 0)
    trainee = made(load, folders, tmp_path)
    found = update(trainee, to_samples([group_of(trainee.vlm, earned, rollouts=off)], trainee.settings, 0), 0)
    assert found["logprob_gap"] == pytest.approx(0.5, abs=1e-4)


def test_what_a_step_logs(load: Load, folders: Any, tmp_path: Path) -> None:
    """Learning rate, gap and speed stand in each step's metrics, learnt or not."""
    trainee = made(load, folders, tmp_path)
    group = group_of(trainee.vlm, [(1.0, 1.0), (0.0, 0.0)])
    for kept in ([group], []):
        trainee.sampler = SimpleNamespace(sync=lambda: None, release=lambda: None)  # type: ignore[assignment]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(grpo, "collect_groups", lambda *_, kept=kept: ([group], kept))
            _, metrics = grpo.grpo_step(trainee, 0)
        assert metrics["lr"] == 1e-3
        assert metrics["logprob_gap"] is None
        assert metrics["tokens_per_s"] and metrics["tokens_per_s"] > 0
