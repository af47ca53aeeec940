"""Defines the trainer's config, which the commands ``sft``, ``grpo`` and ``eval`` share.

Each command reads only the sections of the config that concern it.
"""

import math
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import OneOf, PartName, Plugins, settings
from groundtrace.grading.question_text import INSTRUCTIONS, POINTS
from groundtrace.inference.settings import FrameName
from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.rewards.streams import Stream
from groundtrace.rewards.trajectory import TRAJECTORY
from groundtrace.schemas.text import counted
from groundtrace.trainer.environments.registry import ENVIRONMENTS, make_environment
from groundtrace.trainer.machine_settings import MachineSettings
from groundtrace.trainer.optimiser_settings import OptimiserSettings
from groundtrace.trainer.validation_settings import ValidationSettings
from groundtrace.vision.crops import CropSettings

if TYPE_CHECKING:
    from groundtrace.trainer.environments.base import Environment


@settings
class ModelSettings:
    """Holds the settings of the model to train.

    The optimiser's copy of the weights is always float32, even if ``dtype`` is ``bfloat16``.
    """

    path: Annotated[str, "a local folder or a Hub id"]
    revision: Annotated[str, "the revision of the Hub repository"] = "main"
    frame: Annotated[FrameName | None, "the coordinate frame of the model; left out: the frame of its family"] = None
    decimals: Annotated[int | None, "the number of decimals of a coordinate; left out: as fits the frame"] = None
    max_pixels: Annotated[
        PositiveInt | None,
        "larger images are shrunk to this number of pixels in training, in rollouts and by the saved model; left out: "
        "the maximum of the model's processor",
    ] = None
    dtype: Annotated[Literal["bfloat16", "float32"], "the type of the computation"] = "bfloat16"
    freeze_vision: Annotated[bool, "do not train the vision tower; its projector is trained all the same"] = False
    freeze_projector: Annotated[
        bool, "do not train the projector, which maps the features of the vision tower into the language model"
    ] = False
    lora_rank: Annotated[
        NonNegativeInt, "above 0: train adapters of this rank on the language model's linear layers, not the weights"
    ] = 0
    lora_alpha: Annotated[PositiveFloat, "the adapters' output is scaled by lora_alpha / lora_rank"] = 32.0
    gradient_checkpointing: Annotated[bool, "recompute activations in the backward pass instead of storing them"] = (
        False
    )


@settings
class ForwardBatchSettings:
    """Holds the maximum sizes of a training row and of a forward pass.

    A row with more than ``max_tokens`` tokens is left out and reported. It is never truncated.
    """

    max_tokens: Annotated[int, Field(ge=2), "the maximum tokens of one row, image tokens included"] = 8192
    tokens: Annotated[
        int, Field(ge=2), "the maximum tokens of a forward pass, which is filled with as many rows as fit"
    ] = 16384

    def __post_init__(self) -> None:
        if self.max_tokens > self.tokens:
            raise ValueError(f"max_tokens must be at most batch.tokens = {self.tokens}, got {self.max_tokens}")


@settings
class SftSettings:
    """Holds the settings of supervised fine-tuning. The rows are shuffled again for each epoch.

    Set ``steps`` or ``epochs``. If both are set, ``epochs`` is converted to a number of steps, and the training ends
    after the lower of the two numbers of steps.
    """

    steps: Annotated[PositiveInt | None, "the number of optimiser steps"] = None
    epochs: Annotated[PositiveFloat | None, "the number of passes over the rows, rounded up to whole steps"] = None
    samples_per_step: Annotated[PositiveInt, "the number of rows in a step"] = 32
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)

    def steps_for(self, rows: int) -> int:
        """Return the number of optimiser steps, from the settings ``steps`` and ``epochs``.

        ``rows`` is the number of rows in the training data, i.e. in one epoch. Raises ConfigError if neither ``steps``
        nor ``epochs`` is set.
        """
        return _steps(self, "sft", rows, self.samples_per_step)

    def cut_text(self, rows: int) -> str | None:
        """Return a sentence for the user if ``epochs`` ends the training before ``steps`` steps are done; else None.

        The sentence states the reason and the remedy. ``rows`` is the number of rows in the training data.
        """
        return _cut_text(self, "sft", rows, "row", "samples_per_step", self.samples_per_step)


@settings
class GrpoSettings:
    """Holds the settings of GRPO, with the options of DAPO.

    Set ``steps`` or ``epochs``. If both are set, ``epochs`` is converted to a number of steps, and the training ends
    after the lower of the two numbers of steps.
    """

    steps: Annotated[
        PositiveInt | None, "the number of training steps; each step samples rollouts and trains on them"
    ] = None
    epochs: Annotated[
        PositiveFloat | None,
        "the number of passes over the rows' prompts, rounded up to whole steps of prompts_per_step prompts; the "
        "questions that dynamic_sampling adds are not counted",
    ] = None
    prompts_per_step: Annotated[
        PositiveInt, "the number of questions in a step; a question counts once for each stream in which it is asked"
    ] = 16
    group_size: Annotated[int, Field(ge=2), "the number of rollouts for each question"] = 8
    clip_low: Annotated[float, Field(ge=0, lt=1), "the importance ratio is clipped below 1 minus this"] = 0.2
    clip_high: Annotated[NonNegativeFloat, "the importance ratio is clipped above 1 plus this"] = 0.28
    clip_high_end: Annotated[
        float | None, "clip_high moves linearly to this value over the run; left out: it stays the same"
    ] = None
    advantage_scale: Annotated[
        Literal["std", "none", "fixed"],
        "what divides the reward minus the group's mean: the group's standard deviation (GRPO), nothing, or "
        "advantage_unit",
    ] = "std"
    advantage_unit: Annotated[PositiveFloat, "the divisor if advantage_scale is fixed"] = 0.4
    advantage_epsilon: Annotated[
        NonNegativeFloat, "added to the standard deviation, for groups whose rewards hardly differ"
    ] = 1e-4
    kl_beta: Annotated[NonNegativeFloat, "the weight of the KL term (0: no reference model is needed)"] = 0.0
    dynamic_sampling: Annotated[bool, "replace groups without a learning signal by other questions"] = True
    max_draws: Annotated[PositiveInt, "the maximum number of draws in a step with dynamic_sampling"] = 3
    overlong: Annotated[
        Literal["mask", "keep", "soft"],
        "what happens to rollouts that were cut off: left out of the loss, kept, or kept with a lower reward",
    ] = "mask"
    overlong_buffer: Annotated[
        PositiveInt, "soft: over this number of last tokens, the reward falls linearly by up to 1"
    ] = 256
    updates_per_rollout: Annotated[PositiveInt, "the number of optimiser steps on the rollouts of one step"] = 1
    importance_cap: Annotated[
        PositiveFloat,
        "the upper bound of the importance weight that corrects for a sampler whose log-probabilities differ from the "
        "trainer's",
    ] = 2.0
    streams: Annotated[
        tuple[Stream, ...],
        "train in these streams only, such as textual (iVGR Table 5, variants 3 and 4; empty: in all of the row's)",
    ] = ()
    shuffle_advantages: Annotated[bool, "a control experiment: assign the advantages to the rollouts at random"] = False
    optimiser: OptimiserSettings = field(default_factory=lambda: OptimiserSettings(lr=1e-6))

    def steps_for(self, prompts: int) -> int:
        """Return the number of training steps, from the settings ``steps`` and ``epochs``.

        ``prompts`` is the number of prompts in the training data, i.e. in one epoch. Raises ConfigError if neither
        ``steps`` nor ``epochs`` is set.
        """
        return _steps(self, "grpo", prompts, self.prompts_per_step)

    def cut_text(self, prompts: int) -> str | None:
        """Return a sentence for the user if ``epochs`` ends the training before ``steps`` steps are done; else None.

        The sentence states the reason and the remedy. ``prompts`` is the number of prompts in the training data.
        """
        return _cut_text(self, "grpo", prompts, "prompt", "prompts_per_step", self.prompts_per_step)


def _steps(section: SftSettings | GrpoSettings, name: str, rows: int, rows_per_step: int) -> int:
    if section.epochs is None:
        if section.steps is None:
            raise ConfigError(f"neither {name}.steps nor {name}.epochs is set: set one of them")
        return section.steps
    whole = math.ceil(section.epochs * rows / rows_per_step)
    return whole if section.steps is None else min(section.steps, whole)


def _cut_text(
    section: SftSettings | GrpoSettings, name: str, rows: int, thing: str, key: str, rows_per_step: int
) -> str | None:
    steps = _steps(section, name, rows, rows_per_step)
    if section.epochs is None or section.steps is None or section.steps <= steps:
        return None
    enough = (section.steps - 1) * rows_per_step // rows + 1 if rows else None
    rounded = "" if section.epochs * rows == steps * rows_per_step else ", rounded up,"
    passes = "epoch" if section.epochs == 1 else "epochs"
    sum_text = f"{counted(rows, thing)} x {section.epochs:g} {passes} / {rows_per_step} {thing}s per step{rounded}"
    remedy = f"lower {name}.{key}" + ("" if enough is None else f", or set {name}.epochs to at least {enough}")
    return (
        f"{name}.epochs = {section.epochs:g} ends the training after step {steps}, before {name}.steps = "
        f"{section.steps}, because {sum_text} = {counted(steps, 'step')}: {remedy}"
    )


@settings
class RolloutSettings:
    """Holds the settings with which answers are sampled.

    The docstring of :mod:`groundtrace.trainer.vllm_rollouts` has the command that starts a vLLM server.
    """

    kind: Annotated[Literal["transformers", "vllm"], "the engine that samples"] = "transformers"
    temperature: Annotated[PositiveFloat, "the sampling temperature"] = 1.0
    max_new_tokens: Annotated[PositiveInt, "the maximum tokens of a response, over all its turns and observations"] = (
        1024
    )
    prompts_at_once: Annotated[
        PositiveInt, "the number of prompts whose responses are sampled together, or of requests in flight to a server"
    ] = 64
    base_url: Annotated[str, "vllm: the URL of the server, up to /v1"] = "http://127.0.0.1:8000/v1"
    served_name: Annotated[str, "vllm: the model's name, if the server has several models"] = ""
    timeout_s: Annotated[PositiveFloat, "vllm: timeout for a whole request"] = 600.0


@settings
class EnvironmentSettings:
    """Holds the settings and limits of the environment, which answers the turns of the policy (the model in training).

    The environment ``sandbox`` executes the code of each turn. Its options are the fields of
    :class:`groundtrace.rewards.executed_turns.SandboxEnvironmentSettings`.
    """

    OPTIONS_OF: ClassVar[Mapping[str, str]] = {"options": "kind"}

    kind: Annotated[str, PartName(ENVIRONMENTS), "the environment; single_turn: a response is one turn"] = "single_turn"
    options: Annotated[Mapping[str, Any], "the environment's own settings"] = field(default_factory=dict)
    max_turns: Annotated[PositiveInt, "the maximum turns of the policy in a response"] = 6
    max_images: Annotated[NonNegativeInt, "the images that a response may be shown; further ones are left out"] = 16
    max_wait_s: Annotated[
        PositiveFloat, "the wall-clock time for all steps of a response; a response that takes longer is unscored"
    ] = 300.0
    steps_at_once: Annotated[PositiveInt, "the number of environments that work at the same time"] = 8

    def __post_init__(self) -> None:
        self.make()

    def make(self) -> "Environment":
        """Return a new environment of the kind ``kind``, which answers the turns of one response.

        Raises ConfigError if the environment cannot be used, or if an option is invalid.
        """
        return make_environment(self.kind, self.options, "environment.options")


@settings
class EvalSettings:
    """Holds the settings of the evaluation, which samples answers and scores them.

    Answers are sampled with the settings of ``rollout`` and ``environment``. A value in this section, such as
    ``temperature``, replaces the value in those sections.
    """

    samples: Annotated[PositiveInt, "the number of answers to each question"] = 4
    questions: Annotated[NonNegativeInt, "use only this number of first questions (0: all)"] = 0
    k: Annotated[
        tuple[PositiveInt, ...] | None, "the values of k for pass@k, each at most samples; left out: 1 and samples"
    ] = None
    form: Annotated[
        str,
        OneOf(tuple(INSTRUCTIONS)),
        "the response form that questions from a folder of records ask for",
    ] = POINTS
    streams: Annotated[
        tuple[Stream, ...],
        "the prompts (streams) to ask of rows that have several, such as textual (empty: all prompts of the row)",
    ] = ()
    max_turns: Annotated[
        PositiveInt | None, "the maximum turns of the policy in a response; left out: environment.max_turns"
    ] = None
    temperature: Annotated[
        PositiveFloat | None, "the sampling temperature (1e-4: greedy); left out: rollout.temperature"
    ] = None
    max_new_tokens: Annotated[
        PositiveInt | None, "the maximum tokens of a response; left out: rollout.max_new_tokens"
    ] = None
    crops: Annotated[
        bool,
        "ask for boxes, then for two answers in words: with crops of these boxes, and without; the same as --crops",
    ] = False
    crop: CropSettings = field(default_factory=CropSettings)

    def __post_init__(self) -> None:
        if max(self.ks, default=0) > self.samples:
            raise ValueError(f"k must be at most eval.samples = {self.samples}, got {max(self.ks)}")

    @property
    def ks(self) -> tuple[int, ...]:
        """Return the values of k for which the metric pass@k is computed.

        If the setting ``k`` is set, it holds these values. Otherwise, they are 1 and the value of ``samples``.
        """
        return tuple(sorted({1, self.samples})) if self.k is None else self.k


@settings
class LogSettings:
    """Determines which checkpoints, sampled responses and metrics a training writes, and how often it writes them."""

    save_every_s: Annotated[
        NonNegativeFloat,
        "the time between checkpoints; each run also writes one when it ends, whatever the cause (0: only then)",
    ] = 900.0
    save_every: Annotated[NonNegativeInt, "also write a checkpoint after each so many steps (0: by time alone)"] = 0
    keep: Annotated[PositiveInt, "the number of latest checkpoints to keep"] = 2
    rollouts_every: Annotated[
        NonNegativeInt, "the number of steps between written samples of rollouts with overlays (0: none)"
    ] = 20
    rollouts: Annotated[
        PositiveInt, "the number of responses in such a sample; about half of them are right, if there are right ones"
    ] = 4
    tensorboard: Annotated[bool, "also write the metrics for TensorBoard"] = False
    tracker: Annotated[
        Literal["none", "wandb", "trackio"],
        "also send the metrics to Weights & Biases or trackio; the extra of the same name installs it. Without a "
        "network, set WANDB_MODE=offline; trackio writes to this machine",
    ] = "none"
    project: Annotated[str, "the project of the tracker; the run has the name of the output folder"] = "groundtrace"


@settings
class TrainerSettings:
    """Holds the whole config of the trainer: sections such as ``model``, and a few single settings such as ``seed``."""

    RENAMED: ClassVar[Mapping[str, str]] = {"optimiser": "sft.optimiser and grpo.optimiser"}

    model: ModelSettings
    seed: Annotated[int, Field(ge=0, lt=2**32), "the seed of sampling and shuffling"] = 0
    threads: Annotated[NonNegativeInt, "the number of CPU threads of torch (0: torch's default)"] = 0
    max_idle_steps: Annotated[
        NonNegativeInt, "stop with an error after this number of steps in a row without a gradient (0: never)"
    ] = 10
    batch: ForwardBatchSettings = field(default_factory=ForwardBatchSettings)
    sft: SftSettings = field(default_factory=SftSettings)
    grpo: GrpoSettings = field(default_factory=GrpoSettings)
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
    environment: EnvironmentSettings = field(default_factory=EnvironmentSettings)
    reward: RewardSettings = field(default_factory=RewardSettings)
    eval: EvalSettings = field(default_factory=EvalSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    log: LogSettings = field(default_factory=LogSettings)
    machine: MachineSettings = field(default_factory=MachineSettings)
    plugins: Plugins = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.eval.crops and self.environment.kind != "single_turn":
            raise ConfigError(
                'eval.crops works only with environment.kind = "single_turn": set this kind, or set eval.crops = false'
            )

    def at_evaluation(self) -> "TrainerSettings":
        """Return a copy of the settings with which an evaluation samples answers.

        The section ``eval`` may set values of its own, such as ``temperature``. In the copy, they replace the values in
        the sections ``rollout`` and ``environment``.
        """
        rollout, environment, own = self.rollout, self.environment, self.eval
        if own.temperature is not None:
            rollout = replace(rollout, temperature=own.temperature)
        if own.max_new_tokens is not None:
            rollout = replace(rollout, max_new_tokens=own.max_new_tokens)
        if own.max_turns is not None:
            environment = replace(environment, max_turns=own.max_turns)
        return replace(self, rollout=rollout, environment=environment)

    def at_validation(self) -> "TrainerSettings":
        """Return a copy of the settings with which a validation samples answers.

        A validation samples like an evaluation: values that are set in the section ``eval`` replace those in
        ``rollout`` and ``environment``. Then three values in ``eval`` are changed: ``samples`` is
        ``validation.samples``, ``k`` is empty (pass@k is not computed), and no prompt shows crops (cut-out image
        regions).
        """
        evaluated = self.at_evaluation()
        return replace(evaluated, eval=replace(evaluated.eval, samples=self.validation.samples, k=(), crops=False))

    def check_environment(self) -> None:
        """Check that the environment can run on this machine, and that it returns what the reward needs.

        The environment answers the turns of the model, e.g. by executing code. Raises UserError if the check fails,
        e.g. if the reward needs the results of executed code, but no code is executed.
        """
        environment, recipe = self.environment.make(), self.reward.make_recipe()
        if TRAJECTORY in recipe.needs and not environment.gives_trajectory:
            raise ConfigError(
                f"reward.recipe = {recipe.name!r} needs the results of executed code ({recipe.needs[TRAJECTORY]}), but "
                'the environment does not execute code: set environment.kind = "sandbox"'
            )
        environment.check_ready()
