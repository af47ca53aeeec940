"""Converts the scored responses (rollouts) of a step to training samples in which each token has an advantage."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from groundtrace.rewards.rows.reward import Scored
from groundtrace.rewards.trajectory import Trajectory
from groundtrace.trainer import ranks
from groundtrace.trainer.encode import with_response
from groundtrace.trainer.group import Group
from groundtrace.trainer.loss import advantages, overlong_penalty
from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.settings import TrainerSettings


def to_samples(groups: Sequence[Group], settings: TrainerSettings, step: int) -> list[Sample]:
    """Return the sampled responses of a training step as samples, in which each token has the advantage of its turn.

    A sample is a tokenised conversation, and a turn is one answer of the model in it. ``groups`` are the groups (scored
    responses to one prompt) on which this step trains. ``step`` is the number of the training step. In a training on
    several GPUs, each rank (the process of one GPU) passes its own groups, and all ranks must call this function.

    Unscored and empty responses are left out. If ``grpo.overlong`` is ``mask``, truncated responses are also left out.
    The reward of a truncated response still counts in the mean reward of its group. The tokens of a response that is
    left out are not part of the loss: neither its numerator nor its denominator includes them. The tokens of a response
    with advantage 0 are part of the denominator.
    """
    grpo = settings.grpo
    samples, rollouts, sequence = list[Sample](), list[Rollout](), list[float]()
    for place, group in enumerate(groups):
        rewards = [shaped(*pair, settings) for pair in zip(group.scored, group.rollouts, strict=True)]
        earned = advantages(rewards, grpo.advantage_scale, grpo.advantage_unit, grpo.advantage_epsilon)
        for rollout, advantage in zip(group.rollouts, earned, strict=True):
            if advantage is None or (rollout.is_truncated and grpo.overlong == "mask") or not rollout.ids:
                continue
            samples.append(as_sample(group.prompt, rollout, f"{step}/{place}/{group.row.id}"))
            rollouts.append(rollout)
            sequence.append(advantage)
    values = _over_all_ranks(rollouts, sequence, settings, step)
    return [_with_advantages(*each) for each in zip(samples, rollouts, values, strict=True)]


def _over_all_ranks(
    rollouts: Sequence[Rollout], sequence: Sequence[float], settings: TrainerSettings, step: int
) -> list[tuple[float, ...]]:
    """Return the advantage of each turn of this rank's responses. A rank is the process of one GPU.

    ``rollouts`` are this rank's responses, and ``sequence`` holds the advantage of each whole response. Some reward
    recipes (the code that computes the rewards of one paper) subtract the mean over all turns of the step. So the
    responses of all ranks are gathered first (:func:`turn_advantages`). All ranks must call this function.
    """
    own = [(rollout.without_images(), value) for rollout, value in zip(rollouts, sequence, strict=True)]
    shares = ranks.gathered(own)
    everyone = [pair for share in shares for pair in share]
    values = turn_advantages([rollout for rollout, _ in everyone], [value for _, value in everyone], settings, step)
    start = sum(map(len, shares[: ranks.index()]))
    return values[start : start + len(rollouts)]


def turn_advantages(
    rollouts: Sequence[Rollout], sequence: Sequence[float], settings: TrainerSettings, step: int
) -> list[tuple[float, ...]]:
    """Return the advantage of each turn of each response, as the reward recipe computes it.

    A recipe is the code that computes the rewards of one paper. ``rollouts`` are the responses. ``sequence`` holds the
    advantage of each whole response. The recipe computes the advantages of a response's turns from this number. If
    ``grpo.shuffle_advantages`` is True, the advantages of all turns of all responses are shuffled. ``step`` is the
    number of the training step, which is part of the seed of this shuffle.
    """
    executed = [rollout.trajectory or Trajectory((None,) * len(rollout.turns)) for rollout in rollouts]
    found = [tuple(each) for each in settings.reward.make_recipe().advantages(sequence, executed)]
    if not settings.grpo.shuffle_advantages:
        return found
    values = [value for each in found for value in each]
    generator = torch.Generator().manual_seed(settings.seed + step)
    mixed = iter([values[index] for index in torch.randperm(len(values), generator=generator).tolist()])
    return [tuple(next(mixed) for _ in each) for each in found]


def _with_advantages(sample: Sample, rollout: Rollout, values: Sequence[float]) -> Sample:
    """Return a copy of the sample in which each token has the advantage of its turn.

    ``sample`` is a prompt with the response ``rollout``, and ``values`` holds the advantages of the turns of this
    response. The tokens between two turns also get an advantage, but the loss does not use it.
    """
    before = len(sample) - len(rollout.ids)
    filled = torch.full((len(sample),), values[0])
    for (start, _), value in zip(rollout.turns, values, strict=True):
        filled[before + start :] = value
    filled[:before] = values[0]
    return replace(sample, advantages=filled)


def shaped(scored: Scored, rollout: Rollout, settings: TrainerSettings) -> float | None:
    """Return the reward that the training uses for a response; None if the response is unscored.

    ``scored`` holds the scores of the response ``rollout``, including its reward. If ``grpo.overlong`` is ``soft``, a
    penalty for a long response (a number from -1 to 0) is added to this reward. Otherwise, the reward is returned
    unchanged.
    """
    if scored.reward is None or settings.grpo.overlong != "soft":
        return scored.reward
    longest = settings.rollout.max_new_tokens
    return scored.reward + overlong_penalty(len(rollout.ids), longest, settings.grpo.overlong_buffer)


def as_sample(prompt: Sample, rollout: Rollout, group: str) -> Sample:
    """Return a prompt and the sampled response to it as one sample (a tokenised conversation).

    ``rollout`` is the response. ``group`` is the name of its group (the responses to one prompt). If the sampler
    reported the log-probabilities of the response's tokens, the sample contains them.
    """
    sample = with_response(prompt, rollout.ids, group, rollout.is_truncated, rollout.observed)
    if rollout.logprobs is None:
        return sample
    before = torch.zeros(len(prompt))
    return replace(sample, sampler_logprobs=torch.cat([before, torch.tensor(rollout.logprobs)]))
