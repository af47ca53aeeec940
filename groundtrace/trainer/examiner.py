"""How an evaluation asks a question: one prompt, or one for each stream, each answered ``eval.samples`` times."""

from collections.abc import Sequence
from dataclasses import dataclass

from groundtrace.rewards.rows.reward import Reward
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.trainer.drawing import Drawn
from groundtrace.trainer.encode_rows import prompt_samples
from groundtrace.trainer.eval_figures import Answered
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.sampling import Sampler
from groundtrace.trainer.settings import TrainerSettings


@dataclass(frozen=True)
class Examiner:
    """Samples the model's answers to prompts and scores them."""

    vlm: VisionLanguageModel
    sampler: Sampler
    reward: Reward
    settings: TrainerSettings

    def prompts(self, row: TrainingRow) -> list[Drawn]:
        """The row's prompts. Raises BadRow."""
        return prompt_samples(self.vlm, row, self.settings.eval.streams)

    def answer(self, chunk: Sequence[Drawn], seed: int) -> list[Answered]:
        """The answers to these prompts, scored. Raises JudgesDown and SamplerError."""
        return self.answers(chunk, chunk, seed)

    def answers(self, asked: Sequence[Drawn], scored_as: Sequence[Drawn], seed: int) -> list[Answered]:
        """The answers to ``asked``, scored as answers to the rows of ``scored_as``, which may have other images."""
        samples = self.settings.eval.samples
        rollouts = self.sampler.sample([prompt for _, prompt in asked], samples, seed)
        texts = [[self.vlm.text_of(rollout.ids) for rollout in group] for group in rollouts]
        rows = [row for row, _ in scored_as]
        scored = self.reward.score(self.vlm.speech, rows, texts)
        return [Answered(row, tuple(r), tuple(s)) for row, r, s in zip(rows, rollouts, scored, strict=True)]
