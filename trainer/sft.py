"""Supervised fine-tuning on a run's SFT shards: the log-likelihood of the assistants' turns, images and all."""

import time
from pathlib import Path

from trainer.checkpoint import Progress, checkpoints, load_checkpoint, save_checkpoint
from trainer.collate import collate, micro_batches
from trainer.drawing import Draws, Room
from trainer.loss import sft_loss
from trainer.memory import available_bytes, estimate, refuse_if_too_large
from trainer.model import VisionLanguageModel, load_model
from trainer.monitor import Monitor, run_sha256
from trainer.optimiser import NotFinite, Optimiser
from trainer.policy import score
from trainer.sample import Sample
from trainer.settings import TrainerSettings
from trainer.shards import Shards, sft_sample

SHOWN = ("loss", "grad_norm", "tokens_per_s")


def train_sft(settings: TrainerSettings, data: Path, output: Path) -> Path:
    """Trains, and returns the folder of the trained model. Resumes from the last checkpoint where there is one.

    Raises ShardError, ModelError, CheckpointError and DoesNotFit before the first step; NotFinite when the loss or a
    gradient is not a number, after which the last checkpoint stands.
    """
    vlm = load_model(settings.model)
    refuse_if_too_large(estimate(vlm.model, settings), available_bytes())
    shards = Shards(data, "sft", output / "rows")
    optimiser = Optimiser(vlm.model, settings.optimiser, settings.sft.steps)
    digest, folder = run_sha256("sft", settings, shards.sha256), output / "checkpoints"
    found = checkpoints(folder)
    progress = load_checkpoint(found[-1], optimiser, digest) if found else Progress()
    with Monitor(output, "sft", settings, str(data), settings.sft.steps) as monitor:
        monitor.resume_at(progress.step)
        draws = Draws(
            shards, lambda row: sft_sample(vlm, row), settings.seed, Room(settings.batch.max_tokens), monitor.leave_out
        )
        draws.position = progress.position
        while progress.step < settings.sft.steps:
            samples = [sample for _, sample in draws.take(settings.sft.samples_per_step)]
            metrics = sft_step(vlm, optimiser, samples, progress.step, settings.batch.tokens)
            monitor.log(progress.step, metrics, SHOWN)
            progress = Progress(progress.step + 1, draws.position)
            is_last = progress.step == settings.sft.steps
            if is_last or (settings.log.save_every and progress.step % settings.log.save_every == 0):
                save_checkpoint(folder, progress, optimiser, digest, settings.log.keep)
        vlm.save(output / "model")
    return output / "model"


def sft_step(
    vlm: VisionLanguageModel, optimiser: Optimiser, samples: list[Sample], step: int, tokens: int
) -> dict[str, float | None]:
    """One optimiser step over the samples in as many forward passes as they need; returns its metrics.

    Raises NotFinite, naming the samples, before anything is changed.
    """
    started = time.perf_counter()
    denominator = sum(sample.targets for sample in samples)
    total = 0.0
    for part in micro_batches(samples, tokens):
        batch = collate(vlm, part).to(vlm.device)
        loss = sft_loss(score(vlm, batch).logprobs, denominator)
        if not loss.isfinite():
            raise NotFinite(f"step {step}: the loss is {loss.item()} on {', '.join(sample.id for sample in part[:8])}")
        loss.backward()
        total += loss.item()
    norm = optimiser.step(step)
    wall_s = time.perf_counter() - started
    all_tokens = sum(map(len, samples))
    return {
        "loss": total,
        "grad_norm": norm,
        "lr_share": optimiser.rate(step),
        "samples": len(samples),
        "targets": denominator,
        "tokens": all_tokens,
        "tokens_per_s": all_tokens / wall_s,
        "wall_s": wall_s,
    }
