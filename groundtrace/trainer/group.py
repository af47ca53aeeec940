"""The group of responses to one question that a step compares with each other, with their scores."""

from dataclasses import dataclass

from groundtrace.rewards.rows.reward import Scored
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.trainer.loss import is_flat, is_mixed
from groundtrace.trainer.sample import Sample
from groundtrace.trainer.sampling import Rollout


@dataclass(frozen=True)
class Group:
    """A prompt with its rollouts and their scores."""

    row: TrainingRow
    prompt: Sample
    rollouts: tuple[Rollout, ...]
    scored: tuple[Scored, ...]

    @property
    def is_mixed(self) -> bool:
        """Whether the group holds both right and wrong responses, by raw outcome."""
        return is_mixed([scored.outcome for scored in self.scored])

    def teaches(self, by_reward: bool) -> bool:
        """Whether a step can learn from the group: its rewards differ (``by_reward``), or its raw outcomes differ."""
        return not is_flat([scored.reward for scored in self.scored]) if by_reward else self.is_mixed
