"""What a trainer's config may hold. One file serves ``sft``, ``grpo`` and ``eval``: each reads what it needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inference.embedded import embedded_endpoints, embedded_roles
from inference.settings import EndpointSettings
from rewards.aggregate import GateSettings
from schemas.coordinates import CoordinateFrame


@dataclass(frozen=True)
class ModelSettings:
    """The model to train: a local folder or a hub id.

    ``frame`` and ``decimals`` are how the model writes coordinates; left out, they are those of its family
    (:mod:`inference.families`). ``dtype`` is what it computes in; master weights are float32 either way.
    ``freeze_vision`` leaves the vision tower as it is. ``lora_rank`` above 0 trains low-rank adapters on the linear
    layers of the language model instead of the weights themselves.
    """

    path: str
    revision: str = "main"
    frame: str | None = None
    decimals: int | None = None
    dtype: str = "bfloat16"
    freeze_vision: bool = False
    lora_rank: int = 0
    lora_alpha: float = 32.0
    gradient_checkpointing: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in ("bfloat16", "float32"):
            raise ValueError(f"model.dtype must be bfloat16 or float32, got {self.dtype!r}")
        if self.frame is not None:
            CoordinateFrame(self.frame)
        if self.lora_rank < 0 or self.lora_alpha <= 0:
            raise ValueError("model.lora_rank must not be negative, lora_alpha must be positive")


@dataclass(frozen=True)
class BatchSettings:
    """``max_tokens`` bounds one row, image tokens included: a longer row is left out and counted, never cut.
    ``tokens`` is how many tokens one forward pass takes, of as many samples as fit.
    """

    max_tokens: int = 8192
    tokens: int = 16384

    def __post_init__(self) -> None:
        if not 2 <= self.max_tokens <= self.tokens:
            raise ValueError("batch needs 2 <= max_tokens <= tokens")


@dataclass(frozen=True)
class OptimiserSettings:
    """AdamW on all trained weights, or with ``muon_lr`` above 0 Muon on the matrices of the hidden layers.

    The learning rate rises over ``warmup_steps`` and then stays (``constant``), or falls along a half cosine or a line
    to ``final_share`` of its height at the last step (``cosine``, ``linear``).
    """

    lr: float = 1e-5
    muon_lr: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    weight_decay: float = 0.0
    warmup_steps: int = 0
    schedule: str = "constant"
    final_share: float = 0.0
    max_grad_norm: float = 1.0

    def __post_init__(self) -> None:
        if self.schedule not in ("constant", "cosine", "linear"):
            raise ValueError(f"optimiser.schedule must be constant, cosine or linear, got {self.schedule!r}")
        if self.lr <= 0 or self.muon_lr < 0 or self.max_grad_norm <= 0 or self.warmup_steps < 0:
            raise ValueError("optimiser.lr and max_grad_norm must be positive, muon_lr and warmup_steps not negative")
        if not 0 <= self.final_share <= 1:
            raise ValueError("optimiser.final_share must be in [0, 1]")


@dataclass(frozen=True)
class SftSettings:
    """``steps`` optimiser steps of ``samples_per_step`` rows each; the rows are shuffled anew each epoch."""

    steps: int = 1000
    samples_per_step: int = 32

    def __post_init__(self) -> None:
        if self.steps < 1 or self.samples_per_step < 1:
            raise ValueError("sft.steps and samples_per_step must be at least 1")


@dataclass(frozen=True)
class GrpoSettings:
    """GRPO with the options of DAPO.

    Each step takes ``prompts_per_step`` questions and ``group_size`` rollouts of each. ``clip_low`` and ``clip_high``
    bound the ratio; with ``clip_high_end`` the upper bound moves there over the run. ``advantage_scale`` is ``std``
    (the group's own deviation, as GRPO has it), ``none``, or ``fixed``: R minus the mean, over ``advantage_unit``.
    ``kl_beta`` 0 needs no reference model. ``dynamic_sampling`` drops groups whose raw outcomes are all alike, and
    draws others in their place, at most ``max_draws`` times a step. ``overlong`` says what a rollout that was cut off
    is: ``mask`` (it leaves the loss, numerator and denominator), ``keep``, or ``soft`` (kept; its reward falls linearly
    by up to 1 over the last ``overlong_buffer`` tokens). ``updates_per_rollout`` splits each step's rollouts over so
    many optimiser steps. ``importance_cap`` bounds the correction for a sampler whose log-probabilities are not the
    trainer's own. ``shuffle_advantages`` is the control: it breaks the tie between rollouts and rewards.
    """

    steps: int = 200
    prompts_per_step: int = 16
    group_size: int = 8
    clip_low: float = 0.2
    clip_high: float = 0.28
    clip_high_end: float | None = None
    advantage_scale: str = "std"
    advantage_unit: float = 0.4
    kl_beta: float = 0.0
    dynamic_sampling: bool = True
    max_draws: int = 3
    overlong: str = "mask"
    overlong_buffer: int = 256
    updates_per_rollout: int = 1
    importance_cap: float = 2.0
    shuffle_advantages: bool = False

    def __post_init__(self) -> None:
        counts = (self.steps, self.prompts_per_step, self.max_draws, self.updates_per_rollout, self.overlong_buffer)
        if min(counts) < 1 or self.group_size < 2:
            raise ValueError("grpo counts must be at least 1 and group_size at least 2")
        if not (0 <= self.clip_low < 1 and self.clip_high >= 0 and self.kl_beta >= 0 and self.importance_cap > 0):
            raise ValueError("grpo needs 0 <= clip_low < 1, clip_high >= 0, kl_beta >= 0 and importance_cap > 0")
        if self.advantage_scale not in ("std", "none", "fixed") or self.advantage_unit <= 0:
            raise ValueError("grpo.advantage_scale must be std, none or fixed, and advantage_unit positive")
        if self.overlong not in ("mask", "keep", "soft"):
            raise ValueError(f"grpo.overlong must be mask, keep or soft, got {self.overlong!r}")


@dataclass(frozen=True)
class RolloutSettings:
    """How answers are sampled: ``kind`` is ``transformers`` or ``vllm``.

    ``prompts_at_once`` bounds one ``generate`` call, or the requests that a vLLM server has at once. The server is
    reached at ``base_url``, its model under ``served_name`` where it serves several; how it must be started stands in
    :mod:`trainer.vllm_rollouts`.
    """

    kind: str = "transformers"
    temperature: float = 1.0
    max_new_tokens: int = 1024
    prompts_at_once: int = 64
    base_url: str = "http://127.0.0.1:8000/v1"
    served_name: str = ""
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        if self.kind not in ("transformers", "vllm"):
            raise ValueError(f"rollout.kind must be transformers or vllm, got {self.kind!r}")
        if self.temperature <= 0 or self.max_new_tokens < 1 or self.prompts_at_once < 1 or self.timeout_s <= 0:
            raise ValueError("rollout.temperature, max_new_tokens, prompts_at_once and timeout_s must be positive")


@dataclass(frozen=True)
class RewardSettings:
    """The ``argos`` reward: the verifier's gated score (Argos Eq. 9), by the endpoints named here.

    Without roles for detector and segmenter points are not scored, without a judge free text is not. ``wait_s`` is how
    long the trainer waits, asking again, for judges that do not answer before it stops cleanly.
    """

    gate: GateSettings = field(default_factory=GateSettings)
    endpoints: Mapping[str, EndpointSettings] = field(default_factory=embedded_endpoints)
    roles: Mapping[str, str] = field(
        default_factory=lambda: {role: embedded_roles()[role] for role in ("detector", "segmenter")}
    )
    synthetic_sources: tuple[str, ...] = ()
    wait_s: float = 600.0

    def __post_init__(self) -> None:
        for role, endpoint in self.roles.items():
            if endpoint not in self.endpoints:
                raise ValueError(
                    f"reward.roles.{role} = {endpoint!r}: endpoints are {', '.join(sorted(self.endpoints))}"
                )


@dataclass(frozen=True)
class EvalSettings:
    """``samples`` answers to each of the first ``questions`` questions (0: all), sampled as ``rollout`` says."""

    samples: int = 4
    questions: int = 0
    k: tuple[int, ...] = (1, 4)

    def __post_init__(self) -> None:
        if self.samples < 1 or self.questions < 0 or not all(1 <= k <= self.samples for k in self.k):
            raise ValueError("eval needs samples >= 1, questions >= 0, and each k in 1 … samples")


@dataclass(frozen=True)
class LogSettings:
    """``save_every`` steps a checkpoint (0: at the end only), of which ``keep`` stay; ``rollouts_every`` steps a sample
    of rollouts with overlays (0: never).
    """

    save_every: int = 0
    keep: int = 2
    rollouts_every: int = 20
    tensorboard: bool = False

    def __post_init__(self) -> None:
        if self.keep < 1 or min(self.save_every, self.rollouts_every) < 0:
            raise ValueError("log.keep must be at least 1, log.save_every and log.rollouts_every not negative")


@dataclass(frozen=True)
class TrainerSettings:
    """A whole config. ``threads`` is for torch on a processor (0: as torch chooses)."""

    model: ModelSettings
    seed: int = 0
    threads: int = 0
    batch: BatchSettings = field(default_factory=BatchSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    sft: SftSettings = field(default_factory=SftSettings)
    grpo: GrpoSettings = field(default_factory=GrpoSettings)
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
    reward: RewardSettings = field(default_factory=RewardSettings)
    eval: EvalSettings = field(default_factory=EvalSettings)
    log: LogSettings = field(default_factory=LogSettings)

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise ValueError(f"threads must not be negative, got {self.threads}")
