"""The attempts at one question that a step compares with each other."""

from dataclasses import dataclass

from trainer.loss import is_mixed
from trainer.reward import Scored
from trainer.sample import Sample
from trainer.sampling import Rollout
from trainer.shards import TrainingRow


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
