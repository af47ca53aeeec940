"""Lists the settings of GRPO that were tried with one seed before the experiment."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tried:
    """Names a trial, with the settings that differ from ``grpo.toml``."""

    name: str
    settings: tuple[str, ...] = ()


TRIED = (
    Tried("1e-4"),
    Tried("1e-4, shuffled", ("grpo.shuffle_advantages=true",)),
    Tried("1e-4, scaled by the deviation", ("grpo.advantage_scale=std",)),
    Tried("2e-4", ("grpo.optimiser.lr=2e-4",)),
    Tried("2e-4, pointing twice", ("grpo.optimiser.lr=2e-4", "reward.options.weights.spatial=2.0")),
    Tried("5e-4", ("grpo.optimiser.lr=5e-4",)),
    Tried("1e-4, KL term", ("grpo.kl_beta=0.02",)),
    Tried("1e-4, groups of 16", ("grpo.group_size=16", "grpo.prompts_per_step=16")),
)
