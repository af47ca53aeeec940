"""Trains a model by supervised fine-tuning (SFT).

The training data are the rows of the SFT shards (Parquet files) of a run (a pipeline's execution).

The training maximises the log-likelihood of the assistant turns.
"""

import sys
import time
from pathlib import Path

import torch

from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.rewards.rows.shards import Shards
from groundtrace.trainer import ranks
from groundtrace.trainer.collate import collate, micro_batches
from groundtrace.trainer.encode import sft_sample
from groundtrace.trainer.filler import evened
from groundtrace.trainer.loss import sft_loss
from groundtrace.trainer.memory import available_bytes, rows_like
from groundtrace.trainer.memory_advice import Step, refuse_if_too_large
from groundtrace.trainer.model import VisionLanguageModel, load_model
from groundtrace.trainer.optimiser import NotFinite, Optimiser
from groundtrace.trainer.policy import score
from groundtrace.trainer.row_sampler import Drawn, LengthLimit, RowSampler, first_samples
from groundtrace.trainer.sample import Sample
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.sharding import shard
from groundtrace.trainer.training import Training
from groundtrace.trainer.validation.held_out import hold_out, text_of
from groundtrace.trainer.validation.validator import validating

SHOWN = ("loss", "grad_norm", "lr", "tokens_per_s")


def train_sft(settings: TrainerSettings, data: Path, output: Path, bundled: str = "") -> Path:
    """Train a model by supervised fine-tuning, and return the folder of the trained model.

    ``data`` is the output folder of a run (a pipeline's execution), or its folder with the Parquet files for SFT.
    ``output`` is the folder of the training; if it has a checkpoint, the training continues from the latest one.
    ``bundled`` is the name of the bundled config (one that Groundtrace contains) that the user named; "" if there is
    none. The page train.html shows it.

    Before the first step, the function may raise:

    - ShardError if the data cannot be used;
    - ConfigError if a setting does not fit the data or the other settings;
    - ModelError if the model cannot be loaded or trained;
    - CheckpointError if the latest checkpoint cannot be used, or belongs to another training;
    - DoesNotFit if a training step needs more memory than is available.

    During training, it raises:

    - NotFinite if the loss or a gradient is not finite;
    - NothingLearnt if too many steps in succession have no gradient;
    - Overfitted if the validation finds that the reward rises while the accuracy falls;
    - Stopped if the process gets a signal.

    In these cases, the last complete step is saved, unless the weights have changed since this step or are not finite.
    """
    vlm = load_model(settings.model)
    shards, held = hold_out(ranks.first_before_others(lambda: Shards(data, "sft", output / "rows")), settings, output)
    room = LengthLimit(settings.batch.max_tokens)

    def encode(row: TrainingRow) -> list[Drawn]:
        return [(row, sft_sample(vlm, row))]

    rows = rows_like(first_samples(shards, encode, room))
    refuse_if_too_large(Step(vlm.model, settings, rows, gpus=ranks.count()), available_bytes())
    shard(vlm.model)
    steps = settings.sft.steps_for(len(shards))
    if ranks.is_first() and (cut := settings.sft.cut_text(len(shards))):
        print(f"trainer: {cut}", file=sys.stderr)
    optimiser = Optimiser(vlm.model, settings.sft.optimiser, steps)
    with (
        Training("sft", settings, data, output, shards, optimiser, steps, "", text_of(held), bundled) as training,
        validating(vlm, settings, held, training, output) as validate,
    ):
        draws = RowSampler(shards, encode, settings.seed, room, training.monitor.leave_out)
        draws.position = training.progress.position
        validate()
        while training.goes_on:
            samples = [sample for _, sample in draws.take(settings.sft.samples_per_step)]
            metrics = sft_step(vlm, optimiser, samples, training.progress.step, settings.batch.tokens)
            training.commit(metrics, SHOWN, draws.position)
            validate()
        vlm.save(output / "model")
    return output / "model"


def sft_step(
    vlm: VisionLanguageModel, optimiser: Optimiser, samples: list[Sample], step: int, tokens: int
) -> dict[str, float | None]:
    """Make one optimiser step over the samples, and return the metrics of the step by name.

    ``step`` is the number of the step, counted from 0. ``tokens`` is the maximum number of tokens of a forward pass. A
    sample is a tokenised conversation with a loss mask. In a training on several GPUs, ``samples`` are the samples of
    this process. The step and its metrics are over the samples of all processes. Raises NotFinite if the loss or the
    gradient is not finite; no weight is then changed. If the loss is not finite, the message names the samples.
    """
    started = time.perf_counter()
    targets, all_tokens = sum(sample.targets for sample in samples), sum(map(len, samples))
    counts = ranks.totals({"samples": len(samples), "targets": targets, "tokens": all_tokens})
    total = 0.0
    for part in evened(vlm, micro_batches(samples, tokens)):
        batch = collate(vlm, part).to(vlm.device)
        loss = sft_loss(score(vlm, batch).logprobs, counts["targets"])
        ranks.together(lambda loss=loss, part=part: _check(loss, part, step))
        loss.backward()
        total += loss.item()
    norm = optimiser.step(step)
    wall_s = time.perf_counter() - started
    return {
        **ranks.totals({"loss": total}),
        "grad_norm": norm,
        **optimiser.rates(step),
        **counts,
        "tokens_per_s": counts["tokens"] / wall_s,
        "wall_s": wall_s,
    }


def _check(loss: torch.Tensor, samples: list[Sample], step: int) -> None:
    if not loss.isfinite():
        raise NotFinite(
            f"step {step + 1}: the loss is {loss.item()} on the rows {', '.join(sample.id for sample in samples[:8])}: "
            "check these "
            "rows, or lower sft.optimiser.lr"
        )
