"""The trainer's config. ``sft``, ``grpo`` and ``eval`` share one file; each command reads the sections it needs."""

import math
from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from groundtrace.config.settings import ConfigError, OneOf, Plugins, Share, settings
from groundtrace.grading.question_text import INSTRUCTIONS, POINTS
from groundtrace.inference.settings import FrameName
from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.vision.crops import CropSettings


@settings
class ModelSettings:
    """The model to train. Its master weights are float32 whatever it computes in."""

    path: Annotated[str, "a local folder or a Hub id"]
    revision: Annotated[str, "of the Hub's repository"] = "main"
    frame: Annotated[FrameName | None, "how the model writes coordinates; left out: as its family does"] = None
    decimals: Annotated[int | None, "the decimals of a coordinate; left out: as its family has them"] = None
    max_pixels: Annotated[
        PositiveInt | None,
        "a larger image is shrunk to so many, in training, in rollouts and by the saved model; left out: as the "
        "model's processor has it",
    ] = None
    dtype: Annotated[Literal["bfloat16", "float32"], "what it computes in"] = "bfloat16"
    freeze_vision: Annotated[bool, "leave the vision tower as it is"] = False
    lora_rank: Annotated[
        NonNegativeInt, "above 0: train adapters of this rank on the language model's linear layers, not the weights"
    ] = 0
    lora_alpha: Annotated[PositiveFloat, "scales the adapters, over their rank"] = 32.0
    gradient_checkpointing: Annotated[bool, "compute activations again instead of keeping them"] = False


@settings
class BatchSettings:
    """The size of one forward pass. A row that is too long is left out and counted, never cut."""

    max_tokens: Annotated[int, Field(ge=2), "tokens of one row, image tokens included"] = 8192
    tokens: Annotated[int, Field(ge=2), "tokens of a forward pass, which takes as many rows as fit"] = 16384

    def __post_init__(self) -> None:
        if self.max_tokens > self.tokens:
            raise ValueError(f"max_tokens must be at most tokens = {self.tokens}, got {self.max_tokens}")


@settings
class OptimiserSettings:
    """AdamW on all trained weights, or Muon on the matrices of the hidden layers and AdamW on the others."""

    lr: Annotated[PositiveFloat, "the learning rate of AdamW"] = 1e-5
    muon_lr: Annotated[NonNegativeFloat, "the learning rate of Muon (0: AdamW alone)"] = 0.0
    beta1: Annotated[float, "AdamW's decay of the mean of gradients"] = 0.9
    beta2: Annotated[float, "AdamW's decay of the mean of their squares"] = 0.999
    weight_decay: Annotated[float, "of both optimisers"] = 0.0
    warmup_steps: Annotated[NonNegativeInt, "steps over which the learning rate rises"] = 0
    schedule: Annotated[
        Literal["constant", "cosine", "linear"],
        "what the learning rate does then: it stays, or falls along a half cosine or a line",
    ] = "constant"
    final_share: Annotated[Share, "the share of the learning rate that is left at the last step"] = 0.0
    max_grad_norm: Annotated[PositiveFloat, "longer gradients are scaled down to this norm"] = 1.0


@settings
class SftSettings:
    """Supervised fine-tuning; the rows are shuffled anew each epoch. ``steps`` or ``epochs`` is set; of both, what
    ends first."""

    steps: Annotated[PositiveInt | None, "optimiser steps"] = None
    epochs: Annotated[PositiveFloat | None, "passes over the rows, rounded up to whole steps"] = None
    samples_per_step: Annotated[PositiveInt, "rows of a step"] = 32

    def steps_for(self, rows: int) -> int:
        """The number of optimiser steps for ``rows`` rows. Raises ConfigError if neither ``steps`` nor ``epochs`` is
        set.
        """
        return _steps(self, "sft", rows, self.samples_per_step)


@settings
class GrpoSettings:
    """GRPO with the options of DAPO. ``steps`` or ``epochs`` is set; of both, what ends first."""

    steps: Annotated[PositiveInt | None, "rounds of rollouts"] = None
    epochs: Annotated[
        PositiveFloat | None,
        "passes over the rows' prompts at prompts_per_step a round, rounded up to whole rounds; what dynamic_sampling "
        "draws besides is not counted",
    ] = None
    prompts_per_step: Annotated[
        PositiveInt, "questions of a step; one that is asked in several streams counts once for each"
    ] = 16
    group_size: Annotated[int, Field(ge=2), "rollouts of each question"] = 8
    clip_low: Annotated[float, Field(ge=0, lt=1), "the ratio is clipped below 1 minus this"] = 0.2
    clip_high: Annotated[NonNegativeFloat, "the ratio is clipped above 1 plus this"] = 0.28
    clip_high_end: Annotated[float | None, "clip_high moves to this over the run; left out: it stays"] = None
    advantage_scale: Annotated[
        Literal["std", "none", "fixed"],
        "what divides the reward minus the group's mean: the group's deviation (GRPO), nothing, or advantage_unit",
    ] = "std"
    advantage_unit: Annotated[PositiveFloat, "the divisor of advantage_scale fixed"] = 0.4
    advantage_epsilon: Annotated[NonNegativeFloat, "added to the deviation, for groups whose rewards hardly differ"] = (
        1e-4
    )
    kl_beta: Annotated[NonNegativeFloat, "the weight of the KL term (0: no reference model is needed)"] = 0.0
    dynamic_sampling: Annotated[bool, "replace groups that teach nothing by other questions"] = True
    max_draws: Annotated[PositiveInt, "how often a step may draw questions for dynamic_sampling"] = 3
    overlong: Annotated[
        Literal["mask", "keep", "soft"],
        "rollouts that were cut off: left out of the loss, kept, or kept with a lower reward",
    ] = "mask"
    overlong_buffer: Annotated[
        PositiveInt, "soft: the reward falls linearly by up to 1 over the last so many tokens"
    ] = 256
    updates_per_rollout: Annotated[PositiveInt, "optimiser steps that share the rollouts of a step"] = 1
    importance_cap: Annotated[
        PositiveFloat, "bounds the correction for a sampler whose log-probabilities differ from the trainer's"
    ] = 2.0
    shuffle_advantages: Annotated[bool, "the control: breaks the tie between rollouts and rewards"] = False

    def steps_for(self, prompts: int) -> int:
        """The number of rounds for ``prompts`` prompts. Raises ConfigError if neither ``steps`` nor ``epochs`` is
        set.
        """
        return _steps(self, "grpo", prompts, self.prompts_per_step)


def _steps(section: SftSettings | GrpoSettings, name: str, rows: int, rows_per_step: int) -> int:
    if section.epochs is None:
        if section.steps is None:
            raise ConfigError(f"neither {name}.steps nor {name}.epochs is set: set one of them")
        return section.steps
    whole = math.ceil(section.epochs * rows / rows_per_step)
    return whole if section.steps is None else min(section.steps, whole)


@settings
class RolloutSettings:
    """How answers are sampled; :mod:`groundtrace.trainer.vllm_rollouts` says how a vLLM server must be started for
    it.
    """

    kind: Annotated[Literal["transformers", "vllm"], "what samples"] = "transformers"
    temperature: Annotated[PositiveFloat, "of the sampling"] = 1.0
    max_new_tokens: Annotated[PositiveInt, "tokens of an answer"] = 1024
    prompts_at_once: Annotated[PositiveInt, "prompts of one generate call, or requests at once to a server"] = 64
    base_url: Annotated[str, "vllm: where the server answers, up to /v1"] = "http://127.0.0.1:8000/v1"
    served_name: Annotated[str, "vllm: the model's name, where the server has several"] = ""
    timeout_s: Annotated[PositiveFloat, "vllm: for a request as a whole"] = 600.0


@settings
class EvalSettings:
    """Answers that are sampled, as ``rollout`` says, and scored."""

    samples: Annotated[PositiveInt, "answers to each question"] = 4
    questions: Annotated[NonNegativeInt, "how many of the first questions (0: all)"] = 0
    k: Annotated[tuple[PositiveInt, ...], "each k of pass@k, at most samples"] = (1, 4)
    form: Annotated[str, OneOf(tuple(INSTRUCTIONS)), "in which form the questions of a folder of records are asked"] = (
        POINTS
    )
    streams: Annotated[
        tuple[str, ...], "in which streams to ask rows that have some, such as textual (empty: in each of theirs)"
    ] = ()
    crops: Annotated[
        bool,
        "answer in words with crops of what the model boxes in a first pass, and without; the same as --crops",
    ] = False
    crop: CropSettings = field(default_factory=CropSettings)

    def __post_init__(self) -> None:
        if max(self.k, default=0) > self.samples:
            raise ValueError(f"k must be at most samples = {self.samples}, got {max(self.k)}")


@settings
class LogSettings:
    """What a run writes while it trains."""

    save_every_s: Annotated[
        NonNegativeFloat,
        "time from checkpoint to checkpoint; there is one at the end whatever ends the run (0: only then)",
    ] = 900.0
    save_every: Annotated[NonNegativeInt, "also one every so many steps (0: by time alone)"] = 0
    keep: Annotated[PositiveInt, "checkpoints that stay, the latest"] = 2
    rollouts_every: Annotated[
        NonNegativeInt, "steps from one sample of rollouts with overlays to the next (0: none)"
    ] = 20
    tensorboard: Annotated[bool, "also write the metrics for TensorBoard"] = False


@settings
class TrainerSettings:
    """A whole config."""

    model: ModelSettings
    seed: Annotated[int, "of sampling and shuffling"] = 0
    threads: Annotated[NonNegativeInt, "threads of torch on a processor (0: as torch chooses)"] = 0
    max_idle_steps: Annotated[
        NonNegativeInt, "so many steps in a row without a gradient end the training with an error (0: never)"
    ] = 10
    batch: BatchSettings = field(default_factory=BatchSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    sft: SftSettings = field(default_factory=SftSettings)
    grpo: GrpoSettings = field(default_factory=GrpoSettings)
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
    reward: RewardSettings = field(default_factory=RewardSettings)
    eval: EvalSettings = field(default_factory=EvalSettings)
    log: LogSettings = field(default_factory=LogSettings)
    plugins: Plugins = field(default_factory=dict)
