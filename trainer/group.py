"""What a response earned, and the group of responses to one question that a step compares with each other."""

from dataclasses import dataclass

from schemas.records import Verdict
from trainer.loss import is_flat, is_mixed
from trainer.sample import Sample
from trainer.sampling import Rollout
from trainer.shards import TrainingRow


@dataclass(frozen=True)
class Scored:
    """What a response earned: the recipe's ``reward``, and the raw ``outcome``; None is unscored.

    ``text`` is the response in original pixels.
    """

    reward: float | None
    outcome: float | None
    text: str
    verdicts: tuple[Verdict, ...]

    def value(self, name: str) -> float | None:
        """The value of one verdict, None where it is unscored or was not given."""
        return next((verdict.value for verdict in self.verdicts if verdict.name == name), None)


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
