"""Computes the metrics of a validation from the scored answers.

For comparison, it also computes the reward and the accuracy that a model could reach without seeing the images.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from groundtrace.rewards.blindness import blind_figures
from groundtrace.rewards.recipes.base import Recipe
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.trainer.collate import collate, micro_batches
from groundtrace.trainer.evaluation.blind import blind_accuracy, rewarded
from groundtrace.trainer.evaluation.figures import EvaluatedQuestion, accuracy_interval, iou, point_f1
from groundtrace.trainer.group import mean
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.policy import score
from groundtrace.trainer.sample import Sample

Figures = dict[str, float | None]


def blind_lines(rows: Sequence[TrainingRow], recipe: Recipe) -> Figures:
    """Return the highest reward and accuracy that are possible with one fixed answer to all questions of one kind.

    Such answers do not depend on the images. For example, the fixed answer to all yes/no questions may be "yes"
    (:mod:`groundtrace.rewards.blindness`). The result has the keys ``blind_reward`` and ``blind_accuracy``. ``rows``
    are the rows with the questions. ``recipe`` is the code that computes the rewards of one paper. If the answers to
    all questions need a judge (a model that grades texts), because rules cannot grade them, both values are None. The
    reward is also None if the recipe does not define which share of the reward such an answer can earn.
    """
    figures = blind_figures([rewarded(row) for row in rows], type(recipe), recipe.settings)
    return {
        "blind_reward": None if figures is None or figures.share is None else figures.share * recipe.full_reward,
        "blind_accuracy": blind_accuracy(rows),
    }


def answer_figures(answered: Sequence[EvaluatedQuestion], shown: Sequence[str]) -> Figures:
    """Return the metrics of a validation by name, as means over all answers.

    The metrics are the reward, the accuracy, the point F1, the IoU of boxes, the length of the answers, and the share
    of truncated answers. The result also has the verdicts (scores of one aspect of an answer) whose names are in
    ``shown``, the number of unscored answers, and the number of questions. If the rows have streams (forms of
    response), the result also has the reward and the accuracy of each stream, such as ``accuracy_grounded``. The keys
    ``accuracy_low`` and ``accuracy_high`` hold the 95 % interval of the accuracy, as in ``trainer eval``. Unscored
    answers are left out of the means of the reward, the accuracy and the verdicts, but not of the other means. A metric
    without data is None.
    """
    pairs = [pair for each in answered for pair in zip(each.rollouts, each.scored, strict=True)]
    low, high = accuracy_interval(answered) or (None, None)
    found: Figures = {
        **_scores(answered),
        "accuracy_low": low,
        "accuracy_high": high,
        "point_f1": mean([value for a in answered for s in a.scored for value in point_f1(a.row, s)]),
        "iou": mean([value for a in answered for s in a.scored for value in iou(a.row, s)]),
        **{name: mean([scored.value(name) for _, scored in pairs]) for name in shown if name != "outcome"},
        "response_tokens": mean([float(rollout.own_tokens) for rollout, _ in pairs]),
        "truncated": mean([float(rollout.is_truncated) for rollout, _ in pairs]),
        "unscored": float(sum(scored.reward is None for _, scored in pairs)),
        "questions": float(len({each.row.id for each in answered})),
    }
    for stream in sorted({each.row.context.stream or "" for each in answered} - {""}):
        own = _scores([each for each in answered if each.row.context.stream == stream])
        found |= {f"{name}_{stream}": value for name, value in own.items()}
    return found


def _scores(answered: Sequence[EvaluatedQuestion]) -> Figures:
    return {
        "reward": mean([scored.reward for each in answered for scored in each.scored]),
        "accuracy": mean([outcome for each in answered for outcome in each.outcomes]),
    }


@dataclass(frozen=True)
class Likelihood:
    """Computes metrics of sampled answers from their log-probabilities under the model.

    ``vlm`` is the model. ``temperature`` is the sampling temperature. ``tokens`` is the maximum number of tokens of a
    forward pass. ``cap`` is the upper bound to which GRPO truncates importance weights.
    """

    vlm: VisionLanguageModel
    temperature: float
    tokens: int
    cap: float

    @torch.no_grad()
    def figures(self, samples: Sequence[Sample]) -> Figures:
        """Return the metrics ``entropy``, ``logprob_gap`` and ``weights_capped``, as means over all targets.

        ``samples`` are the sampled answers with their prompts; a target is a token of an answer. ``entropy`` is the
        entropy of the distributions from which the model predicts the targets. ``logprob_gap`` is the mean absolute
        difference between the log-probabilities of model and sampler. ``weights_capped`` is the share of targets whose
        importance weight is truncated.

        If the sampler does not report log-probabilities, ``logprob_gap`` and ``weights_capped`` are None. Without
        samples, all three are None.
        """
        targets, sums = 0, torch.zeros(3, dtype=torch.float64)
        for part in micro_batches(samples, self.tokens):
            batch = collate(self.vlm, part).to(self.vlm.device)
            found = score(self.vlm, batch, self.temperature, self.vlm.never_ids)
            apart = found.logprobs - batch.sampler_logprobs
            each = (found.entropy, apart.abs(), (apart.exp() > self.cap).float() + 0 * apart)
            sums += torch.stack([values.double().sum() for values in each]).cpu()
            targets += len(batch.targets)
        values = [None if not targets or value.isnan() else float(value) / targets for value in sums]
        return dict(zip(("entropy", "logprob_gap", "weights_capped"), values, strict=True))

    @torch.no_grad()
    def loss(self, samples: Sequence[Sample]) -> float | None:
        """Return the mean loss of SFT over the tokens of the answers in ``samples``; None without samples.

        A sample is a prompt with its answer, as tokens. The logits are not divided by a sampling temperature.
        """
        targets, total = 0, 0.0
        for part in micro_batches(samples, self.tokens):
            batch = collate(self.vlm, part).to(self.vlm.device)
            total -= float(score(self.vlm, batch).logprobs.sum())
            targets += len(batch.targets)
        return total / targets if targets else None
