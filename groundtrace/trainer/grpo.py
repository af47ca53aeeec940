"""Trains a model by GRPO, with the options of DAPO.

The questions are the rows of the RL shards (Parquet files) of a run (a pipeline's execution).

In each step, the training draws questions, samples a group of responses to each question, and scores the responses.
Groups that give no gradient are replaced by groups of other questions. Then it computes advantages from the rewards,
and makes one or more optimiser steps.

In a training on several GPUs, each rank (the process of one GPU) samples and scores the groups of its own rows. A group
is never divided among ranks.
"""

import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from groundtrace.rewards.recipes.base import Memory
from groundtrace.rewards.rows.checks import (
    blind_reward,
    check_judge,
    check_recipe,
    note_detected,
    note_start,
    note_strata,
    row_check,
)
from groundtrace.rewards.rows.reward import Reward
from groundtrace.rewards.rows.row import TrainingRow, UnusableRow
from groundtrace.rewards.rows.shards import Shards
from groundtrace.rewards.streams import streams_asked
from groundtrace.trainer import ranks
from groundtrace.trainer.collate import Batch, collate, micro_batches
from groundtrace.trainer.credit import to_samples
from groundtrace.trainer.encode import prompt_samples
from groundtrace.trainer.episodes import opened
from groundtrace.trainer.filler import evened
from groundtrace.trainer.group import Group, idle_because, note_idle, of_all_ranks, summary
from groundtrace.trainer.loss import Clipping, clip_high_at, policy_loss
from groundtrace.trainer.memory import available_bytes, rows_like
from groundtrace.trainer.memory_advice import Step, refuse_if_too_large
from groundtrace.trainer.model import VisionLanguageModel, load_model
from groundtrace.trainer.monitor import save_rollouts
from groundtrace.trainer.optimiser import NotFinite, Optimiser
from groundtrace.trainer.plan import plan_text, planned
from groundtrace.trainer.policy import Scores, score
from groundtrace.trainer.reference import reference_of, without_adapters
from groundtrace.trainer.rollouts import make_sampler
from groundtrace.trainer.row_sampler import Drawn, LengthLimit, RowSampler, first_samples
from groundtrace.trainer.sample import Sample
from groundtrace.trainer.sampler import Sampler
from groundtrace.trainer.scoring import sample_and_score
from groundtrace.trainer.settings import TRAJECTORY, TrainerSettings
from groundtrace.trainer.sharding import shard
from groundtrace.trainer.training import Training
from groundtrace.trainer.validation.held_out import HeldOut, hold_out, text_of
from groundtrace.trainer.validation.validator import validating
from groundtrace.trainer.watching.records import read_metrics
from groundtrace.trainer.watching.sampled import Show, counting

SEEDS_PER_STEP = 1000
"""The number of seeds that are reserved for each training step. Each sampling call of a run has its own seed."""


@dataclass
class Trainee:
    """Holds the objects that a GRPO step uses.

    Attributes:
        vlm: the model in training.
        optimiser: the optimiser of the model's weights.
        sampler: the sampler that draws responses from the model.
        reward: the reward that scores the responses.
        draws: the object that draws the rows of each step.
        reference: the reference model of the KL term (:mod:`groundtrace.trainer.reference`); None without a KL term.
        settings: the config of the training.
        show_sampled: the function that shows how many responses a step has sampled until now. If it is None, this
            number is not shown.
    """

    vlm: VisionLanguageModel
    optimiser: Optimiser
    sampler: Sampler
    reward: Reward
    draws: RowSampler
    reference: Any
    settings: TrainerSettings
    show_sampled: Show | None = None

    @property
    def steps(self) -> int:
        """Return the total number of training steps."""
        return self.optimiser.steps // self.settings.grpo.updates_per_rollout


def train_grpo(settings: TrainerSettings, data: Path, output: Path, bundled: str = "") -> Path:
    """Train a model by GRPO, and return the folder of the trained model.

    ``data`` is the output folder of a run (a pipeline's execution), or its folder with the Parquet files for
    reinforcement learning. ``output`` is the folder of the training; if it has a checkpoint, the training continues
    from the latest one. ``bundled`` is the name of the bundled config (one that Groundtrace contains) that the user
    named; "" if there is none. The page train.html shows it.

    Before the first step, the function may raise:

    - NotServed if a model that the reward uses cannot answer, e.g. because a server is down or lacks the model;
    - ShardError if the data cannot be used;
    - ConfigError if a setting does not fit the data or the other settings;
    - ModelError if the model cannot be loaded or trained;
    - SamplerError if answers for the validation cannot be sampled;
    - CheckpointError if the latest checkpoint cannot be used, or belongs to another training;
    - DoesNotFit if a training step needs more memory than is available.

    During training, it raises:

    - JudgesDown if the model servers that the reward calls do not answer;
    - SamplerError if responses cannot be sampled;
    - NotFinite if a loss or gradient is not finite;
    - NothingLearnt if too many steps in succession have no gradient;
    - Overfitted if the validation finds that the reward rises while the accuracy falls;
    - Stopped if the process gets a signal.

    If one of these errors is raised during training, the last complete step is saved as a checkpoint. There are three
    exceptions, in which no checkpoint is saved: the weights have changed since that step, the weights are not finite,
    or the ranks (the processes of the GPUs) did not all fail at the same point.
    """
    shards, held = hold_out(ranks.first_before_others(lambda: Shards(data, "rl", output / "rows")), settings, output)
    check_recipe(settings.reward, lambda name: name == TRAJECTORY or shards.gives(name))
    settings.check_environment()
    with contextlib.closing(Reward(settings.reward, output)) as reward:
        ranks.together(reward.check_endpoints)
        return _train(settings, data, output, shards, held, reward, bundled)


def _train(
    settings: TrainerSettings,
    data: Path,
    output: Path,
    shards: Shards,
    held: HeldOut | None,
    reward: Reward,
    bundled: str,
) -> Path:
    grpo = settings.grpo
    vlm, room = load_model(settings.model), LengthLimit(settings.batch.max_tokens, settings.rollout.max_new_tokens)
    parts, notes = planned(data, shards, grpo.prompts_per_step, grpo.streams)
    checked = check_judge(settings.reward, shards), note_strata(settings.reward, shards)
    _print_notes(*checked, *notes, note_detected(shards))
    check = row_check(settings.reward)

    def encode(row: TrainingRow) -> list[Drawn]:
        check(row)
        if drawn := prompt_samples(vlm, opened(row, settings.environment), grpo.streams):
            return drawn
        raise UnusableRow(
            f"{row.id}: the row has no prompt in any stream of grpo.streams: add a stream of this row to grpo.streams"
        )

    rows = rows_like(first_samples(shards, encode, room))
    refuse_if_too_large(Step(vlm.model, settings, rows, is_grpo=True, gpus=ranks.count()), available_bytes())
    reference = reference_of(vlm) if grpo.kl_beta > 0 else None
    shard(vlm.model)
    if reference is not None and reference is not vlm.model:
        shard(reference)
    prompts = shards.count_prompts(grpo.streams)
    steps = grpo.steps_for(prompts)
    _print_notes(grpo.cut_text(prompts))
    optimiser = Optimiser(vlm.model, grpo.optimiser, steps * grpo.updates_per_rollout)
    stops = settings.environment.make().stops
    sampler = make_sampler(vlm, settings.rollout, str(output / "served"), stops, settings.batch.max_tokens)
    with (
        Training(
            "grpo", settings, data, output, shards, optimiser, steps, plan_text(parts), text_of(held), bundled
        ) as training,
        validating(vlm, settings, held, training, output, reward) as validate,
    ):
        reward.memory = Memory.of_plain(training.progress.memory)
        draws = RowSampler(
            shards,
            encode,
            settings.seed,
            room,
            training.monitor.leave_out,
            parts,
            lambda index: len(streams_asked(shards.streams[index], grpo.streams)) or 1,
        )
        draws.position = training.progress.position
        show_sampled = training.monitor.show_sampled
        trainee = Trainee(vlm, optimiser, sampler, reward, draws, reference, settings, show_sampled)
        blind, how = blind_reward(shards, reward.recipe, grpo.streams)
        _print_notes(how)
        shown = ("reward", "blind_reward", *reward.recipe.shown, "entropy", "logprob_gap", "lr", "tokens_per_s")
        validate()
        while training.goes_on:
            step = training.progress.step
            groups, metrics = grpo_step(trainee, step)
            metrics["blind_reward"] = blind
            if step == 0:
                _print_notes(note_start(metrics["reward"], blind))
            every = settings.log.rollouts_every
            if every and step % every == 0 and ranks.is_first():
                save_rollouts(output / "rollouts" / f"step-{step + 1:06d}", groups, settings.log.rollouts)
            memory = reward.memory.as_plain()
            training.commit(metrics, shown, draws.position, memory, idle_because(metrics))
            validate()
        vlm.save(output / "model")
        _print_notes(note_idle(read_metrics(output / "metrics.jsonl"), grpo.optimiser.weight_decay))
    return output / "model"


def _print_notes(*notes: str | None) -> None:
    for note in filter(None, notes if ranks.is_first() else ()):
        print(f"trainer: {note}", file=sys.stderr)


def grpo_step(trainee: Trainee, step: int) -> tuple[list[Group], dict[str, float | None]]:
    """Run one training step: sample and score responses, and update the weights. Return the groups and the metrics.

    ``trainee`` holds the model and the other objects of the training. The returned groups (each with the responses to
    one prompt) are those that this rank sampled; a rank is the process of one GPU. The metrics are over the groups of
    all ranks. ``step`` is the number of the step, counted from 0.

    Raises JudgesDown if a model server does not answer a request of the reward, SamplerError if responses cannot be
    sampled, and NotFinite if a loss or gradient is not finite.
    """
    started = time.perf_counter()
    trainee.sampler.sync()
    with counting(trainee.sampler, trainee.show_sampled, step + 1, trainee.steps) as sampler:
        sampled, kept = collect_groups(replace(trainee, sampler=sampler), step)
    trainee.sampler.release()
    sampled_s = time.perf_counter() - started
    samples = to_samples(kept, trainee.settings, step)
    metrics: dict[str, float | None] = dict.fromkeys(("loss", "grad_norm", "logprob_gap", "weights_capped"))
    metrics |= update(trainee, samples, step) if ranks.total(len(samples)) else {}
    everyone = of_all_ranks(sampled)
    metrics |= summary(everyone, of_all_ranks(kept), trainee.reward.recipe.shown)
    metrics |= trainee.optimiser.rates(step * trainee.settings.grpo.updates_per_rollout)
    metrics |= trainee.reward.learn((group.row, group.scored) for group in everyone)
    wall_s = time.perf_counter() - started
    tokens = sum(rollout.own_tokens for group in everyone for rollout in group.rollouts)
    metrics |= {"rollout_s": sampled_s, "wall_s": wall_s, "tokens_per_s": tokens / wall_s}
    return sampled, metrics


def collect_groups(trainee: Trainee, step: int) -> tuple[list[Group], list[Group]]:
    """Sample the groups (responses to one prompt, with scores) of a training step, and select those to train on.

    Returns two lists for this rank (the process of one GPU): all sampled groups, and the groups that the step trains
    on. With ``grpo.dynamic_sampling``, groups that give no gradient are replaced by groups of other questions, in at
    most ``grpo.max_draws`` draws. A group gives no gradient if its answers are all right or all wrong. If the recipe
    (the code that computes the reward) has ``samples_by_reward`` True, another rule applies instead: a group gives no
    gradient if all its rewards are equal.

    After the last draw, a step may have fewer groups than configured, or no group. ``grpo.prompts_per_step`` is the
    number of groups over all ranks. ``step`` is the number of the training step, counted from 0.
    """
    grpo = trainee.settings.grpo
    sampled: list[Group] = []
    kept: list[Group] = []
    for draw in range(grpo.max_draws if grpo.dynamic_sampling else 1):
        wanted = grpo.prompts_per_step - ranks.total(len(kept))
        if not wanted:
            break
        groups = sample_groups(trainee, wanted, trainee.settings.seed + step * SEEDS_PER_STEP + draw)
        if not ranks.total(len(groups)):  # the next row has more prompts than the step still needs
            break
        sampled += groups
        by_reward = trainee.reward.recipe.samples_by_reward
        kept += [group for group in groups if not grpo.dynamic_sampling or group.teaches(by_reward)]
    return sampled, kept


def sample_groups(trainee: Trainee, count: int, seed: int) -> list[Group]:
    """Draw the next prompts, sample and score a group of responses to each, and return the groups of this rank.

    A group holds a prompt, the responses to it and their scores. A rank is the process of one GPU. ``trainee`` holds
    the model, the sampler and the reward. ``count`` is the number of prompts that all ranks draw together. ``seed`` is
    the seed of the sampling. Raises JudgesDown if the model servers that the reward calls do not answer, and
    SamplerError if responses cannot be sampled.

    A row with two streams (forms of response) has two prompts, and so two groups. The prompts of a row are drawn
    together or not at all. So all ranks together may draw fewer than ``count`` prompts, e.g. if only one more prompt
    is needed and the next row has two. The result of this rank may be empty.
    """
    drawn = trainee.draws.take(count)
    return ranks.together(lambda: _groups_of(trainee, drawn, ranks.own_seed(seed)))


def _groups_of(trainee: Trainee, drawn: Sequence[Drawn], seed: int) -> list[Group]:
    if not drawn:
        return []
    vlm, settings = trainee.vlm, trainee.settings
    size = settings.grpo.group_size
    found = sample_and_score(vlm, trainee.sampler, trainee.reward, settings, drawn, drawn, size, seed)
    return [
        Group(row, prompt, tuple(rollouts), tuple(scored))
        for (row, prompt), (rollouts, scored) in zip(drawn, found, strict=True)
    ]


def update(trainee: Trainee, samples: Sequence[Sample], step: int) -> dict[str, float | None]:
    """Make the optimiser steps of a training step; return the mean of each metric over these optimiser steps.

    ``trainee`` holds the model and the optimiser. ``samples`` are the samples (prompts with responses as tokens, with
    advantages) of this rank (the process of one GPU). An optimiser step uses the samples of all ranks. ``step`` is the
    number of the training step. If a training step has several optimiser steps, the log-probabilities of all samples
    are computed before the first optimiser step, with the unchanged weights.

    Without a KL term, samples without a gradient are not computed (:func:`with_gradient`). Their targets (tokens whose
    prediction is part of the loss) still count in the loss's denominator. Raises NotFinite if a loss or gradient is not
    finite.
    """
    grpo, vlm = trainee.settings.grpo, trainee.vlm
    tokens = trainee.settings.batch.tokens
    parts = [list(samples[index :: grpo.updates_per_rollout]) for index in range(grpo.updates_per_rollout)]
    used = [part for part in parts if ranks.total(len(part))]
    denominators = [ranks.total(sum(sample.targets for sample in part)) for part in used]
    if trainee.reference is None:
        used = [with_gradient(part) for part in used]
    batches = [[collate(vlm, batch) for batch in evened(vlm, micro_batches(part, tokens))] for part in used]
    olds: list[list[torch.Tensor | None]] = [[None] * len(part) for part in batches]
    if len(batches) > 1:
        with torch.no_grad():
            olds = [[_scores(trainee, vlm.model, b.to(vlm.device)).logprobs for b in part] for part in batches]
    totals, norms = dict[str, float](), list[float]()
    for number, (part, old, denominator) in enumerate(zip(batches, olds, denominators, strict=True)):
        computed = ranks.total(sum(len(batch.targets) for batch in part))
        for batch, before in zip(part, old, strict=True):
            for name, value in _backward(trainee, batch.to(vlm.device), before, denominator, step).items():
                share = value if name == "loss" else value / computed
                totals[name] = totals.get(name, 0.0) + share / len(batches)
        norms.append(trainee.optimiser.step(step * grpo.updates_per_rollout + number))
    return {**ranks.totals(totals), "grad_norm": sum(norm / len(batches) for norm in norms)}


def with_gradient(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples that have a gradient in a training without a KL term; only these samples have to be computed.

    A sample is a prompt with a response as tokens. It has a gradient if at least one of its targets (tokens whose
    prediction is part of the loss) has an advantage other than 0. A sample without advantages is also returned. If no
    sample has a gradient, the first sample is returned, so that the optimiser still makes its step.
    """
    found = [each for each in samples if each.advantages is None or bool(each.advantages[each.loss_mask].any())]
    return found or list(samples[:1])


def _backward(
    trainee: Trainee, batch: Batch, old: torch.Tensor | None, denominator: int, step: int
) -> dict[str, float]:
    """Compute the gradient of a micro-batch; return its part of the loss, and sums of other metrics over its targets.

    The gradient is added to the gradients of the weights. A target is a token whose prediction is part of the loss.

    ``old`` holds the targets' log-probabilities before the training step changed the weights. If ``old`` is None, the
    log-probabilities of this forward pass are used instead. ``denominator`` is the number of targets of the optimiser
    step. Raises NotFinite if the loss is not finite.
    """
    grpo = trainee.settings.grpo
    scores = _scores(trainee, trainee.vlm.model, batch)
    old = scores.logprobs.detach() if old is None else old
    reference = None
    if trainee.reference is not None:
        with torch.no_grad(), without_adapters(trainee.reference):
            reference = _scores(trainee, trainee.reference, batch).logprobs
    found = policy_loss(
        scores.logprobs,
        old,
        batch.sampler_logprobs,
        batch.advantages,
        denominator,
        _clipping(trainee, step),
        reference,
        grpo.kl_beta,
    )
    ranks.together(lambda: _check(found.loss, step))
    found.loss.backward()
    shares = {"entropy": scores.entropy.sum(), "clipped": found.clipped, "kl": found.kl}
    if len(batch.targets) and not batch.sampler_logprobs.isnan().any():
        apart = old - batch.sampler_logprobs
        shares |= {"logprob_gap": apart.abs().sum(), "weights_capped": (apart.exp() > grpo.importance_cap).sum()}
    return {"loss": found.loss.item()} | {name: float(value) for name, value in shares.items()}


def _check(loss: torch.Tensor, step: int) -> None:
    if not loss.isfinite():
        raise NotFinite(f"step {step + 1}: the loss is {loss.item()}, which is not finite: lower grpo.optimiser.lr")


def _scores(trainee: Trainee, model: Any, batch: Batch) -> Scores:
    """Return the log-probabilities of the batch's targets under ``model``, and the entropies of their distributions.

    The targets are the tokens whose prediction is part of the loss. The distributions are those from which rollouts are
    sampled: the logits are divided by the temperature, and tokens that must not be drawn have the probability 0.
    """
    vlm = replace(trainee.vlm, model=model)
    return score(vlm, batch, trainee.settings.rollout.temperature, vlm.never_ids)


def _clipping(trainee: Trainee, step: int) -> Clipping:
    grpo = trainee.settings.grpo
    high = clip_high_at(step, trainee.steps, grpo.clip_high, grpo.clip_high_end)
    return Clipping(grpo.clip_low, high, grpo.importance_cap)
