"""The group of responses to one question that a step compares with each other, with what they earned."""

from dataclasses import dataclass

from groundtrace.trainer.loss import is_flat, is_mixed
from groundtrace.trainer.reward import Scored
from groundtrace.trainer.sample import Sample
from groundtrace.trainer.sampling import Rollout
from groundtrace.trainer.shards import TrainingRow


@dataclass(frozen=True)
class Group:
    """A question with its rollouts and what they earned."""

    row: TrainingRow
    prompt: Sample
    rollouts: tuple[Rollout, ...]
    scored: tuple[Scored, ...]

    @property
    def is_mixed(self) -> bool:
        """Whether its raw outcomes differ."""
        return is_mixed([scored.outcome for scored in self.scored])

    def teaches(self, by_reward: bool) -> bool:
        """Whether a step can learn from it: its rewards differ, or else its raw outcomes do."""
        return not is_flat([scored.reward for scored in self.scored]) if by_reward else self.is_mixed
