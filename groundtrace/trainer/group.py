"""Defines a group (the responses to one prompt), and computes the metrics of the groups of a training step.

GRPO compares the responses of a group with each other.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from groundtrace.rewards.rows.reward import Scored
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.trainer import ranks
from groundtrace.trainer.loss import is_flat, is_mixed
from groundtrace.trainer.sample import Limit, Rollout, Sample


@dataclass(frozen=True)
class Group:
    """Holds a prompt, the sampled responses to it, and their scores.

    ``row`` is the row of the question, and ``prompt`` is its prompt as tokens. ``rollouts`` are the responses, and
    ``scored`` holds the scores of each response, in the same order.
    """

    row: TrainingRow
    prompt: Sample
    rollouts: tuple[Rollout, ...]
    scored: tuple[Scored, ...]

    @property
    def is_mixed(self) -> bool:
        """Return whether some responses of the group are right, and some are wrong.

        Only the outcomes (whether the answer is right) count, not the rewards. Unscored responses are ignored.
        """
        return is_mixed([scored.outcome for scored in self.scored])

    def teaches(self, by_reward: bool) -> bool:
        """Return whether the group (the responses to one prompt) gives a gradient, so that a step can learn from it.

        If ``by_reward`` is True, the group gives a gradient if the rewards of its responses differ. If ``by_reward`` is
        False, the group gives a gradient if some of its responses are right, and some are wrong.
        """
        return not is_flat([scored.reward for scored in self.scored]) if by_reward else self.is_mixed

    def without_images(self) -> "Group":
        """Return a copy of the group (a prompt with the responses to it) without images.

        In a training on several GPUs, this smaller copy is sent to the other ranks (the processes of the other GPUs).
        The other ranks need no images, because they only compute metrics from the copy.
        """
        rollouts = tuple(rollout.without_images() for rollout in self.rollouts)
        return Group(replace(self.row, images=()), replace(self.prompt, images=()), rollouts, self.scored)


def of_all_ranks(groups: Sequence[Group]) -> list[Group]:
    """Return the groups (responses to one prompt, with their scores) of all ranks, in the order of the ranks.

    A rank is the process of one GPU. ``groups`` are the groups of this rank; they keep their images, and the groups of
    other ranks have none. All ranks must call this function.
    """
    shares = ranks.gathered([group.without_images() for group in groups] if ranks.count() > 1 else [])
    shares[ranks.index()] = list(groups)
    return [group for share in shares for group in share]


def summary(sampled: Sequence[Group], kept: Sequence[Group], shown: Sequence[str]) -> dict[str, float | None]:
    """Return the metrics of a training step by name: means over all sampled responses, and counts.

    ``sampled`` are all groups (responses to one prompt) of the step. ``kept`` are the groups on which the step trains;
    they are only counted. ``shown`` holds the names of the verdicts (scores of one aspect of a response, such as
    ``outcome``) whose means are included. If the rows have streams (forms of response), the result also has the metrics
    of each stream, such as ``reward_grounded``. Unscored values are left out of the means. A metric without values is
    None.
    """
    scored = [each for group in sampled for each in group.scored]
    rollouts = [rollout for group in sampled for rollout in group.rollouts]
    found = {
        **_means(scored, shown),
        "unscored": float(sum(each.reward is None for each in scored)),
        "truncated": mean([float(rollout.is_truncated) for rollout in rollouts]),
        "response_tokens": mean([float(rollout.own_tokens) for rollout in rollouts]),
        "turns": mean([float(len(rollout.turns)) for rollout in rollouts]),
        **_calls(rollouts),
        "groups_sampled": float(len(sampled)),
        "groups_kept": float(len(kept)),
    }
    for stream in sorted({group.row.context.stream or "" for group in sampled} - {""}):
        groups = [group for group in sampled if group.row.context.stream == stream]
        means = _means([each for group in groups for each in group.scored], shown) | {
            "groups_sampled": float(len(groups)),
            "groups_kept": float(sum(group.row.context.stream == stream for group in kept)),
        }
        found |= {f"{name}_{stream}": value for name, value in means.items()}
    return found


UNSCORED = "no rollout was scored"
"""The reason for a step without a gradient in which no response has a reward."""
SHOWN_LIMITS = {Limit.TURNS: "out_of_turns", Limit.IMAGES: "out_of_images", Limit.TIME: "out_of_time"}
"""Maps each limit of a response to the name of a metric: the share of responses that reached this limit.

The limit of tokens is not included; the metric ``truncated`` is the share of responses that reached it.
"""


def _calls(rollouts: Sequence[Rollout]) -> dict[str, float | None]:
    """Return the metrics of tool calls by name.

    The result is empty if no response has a trajectory (the results of its tool calls), and no response is lost. The
    metrics are

    - the mean number of calls of a response with a trajectory;
    - the share of calls that succeeded;
    - the number of lost responses, which are unscored, because the environment failed or took too long;
    - for each limit of :data:`SHOWN_LIMITS`, such as the maximum number of turns: the share of responses that reached
      this limit.
    """
    executed = [rollout.trajectory for rollout in rollouts if rollout.trajectory is not None]
    lost = sum(bool(rollout.lost) for rollout in rollouts)
    if not executed and not lost:
        return {}
    calls = sum(trajectory.calls for trajectory in executed)
    succeeded = sum(trajectory.succeeded for trajectory in executed)
    return {
        "calls": mean([float(trajectory.calls) for trajectory in executed]),
        "calls_succeeded": succeeded / calls if calls else None,
        "lost": float(lost),
        **{name: mean([float(limit in each.limits) for each in rollouts]) for limit, name in SHOWN_LIMITS.items()},
    }


def idle_because(metrics: Mapping[str, float | None]) -> str:
    """Return the reason why a training step had no gradient, as a text for the user.

    ``metrics`` are the metrics of this step by name; ``reward``, ``groups_kept`` and ``loss`` are used. Call this
    function only for a step without a gradient.
    """
    if metrics["reward"] is None:
        return UNSCORED
    if not metrics["groups_kept"]:
        return "no group has answers with different rewards"
    if metrics["loss"] is None:
        return "every rollout of the groups kept was cut off at rollout.max_new_tokens or not scored"
    return "the rewards within each group are nearly equal"


def note_idle(lines: Sequence[Mapping[str, float | None]], weight_decay: float) -> str | None:
    """Return a note for the end of a training in which no step had a gradient.

    The result is None if a step had a gradient, or if there were no steps. ``lines`` holds the metrics of each step, as
    in metrics.jsonl. ``weight_decay`` is the weight decay of the optimiser. If it is 0, the note states that no weight
    has changed. Otherwise, the weight decay may have shrunk weights, so the note states only that the model has learnt
    nothing.
    """
    if not lines or any(line.get("grad_norm") for line in lines):
        return None
    used = dict.fromkeys(("reward", "groups_kept", "loss"))
    [(reason, count)] = Counter(idle_because({**used, **line}) for line in lines).most_common(1)
    effect = "the model has learnt nothing" if weight_decay else "no weight has changed"
    remedy = (
        "look with gt.reward for verdicts without a value, and change the section [reward] of the config or the reward"
        if reason == UNSCORED
        else "train the model longer with SFT first, change the section [reward] or [rollout] of the config, or use "
        "other data"
    )
    return f"no step had a gradient, so {effect}: in {count} of {len(lines)} steps, {reason}; {remedy}"


def _means(scored: Sequence[Scored], shown: Sequence[str]) -> dict[str, float | None]:
    names = {name: mean([each.value(name) for each in scored]) for name in shown}
    return {"reward": mean([each.reward for each in scored]), **names}


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if all values are None."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
