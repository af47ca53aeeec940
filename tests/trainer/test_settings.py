"""The settings that an evaluation takes over from training, and those of its own."""

from pathlib import Path

import pytest

from groundtrace.config.errors import ConfigError
from groundtrace.config.settings import build, load_config
from groundtrace.trainer.settings import TrainerSettings

TRAINING = {
    "model": {"path": "M"},
    "rollout": {"temperature": 1.0, "max_new_tokens": 100},
    "environment": {"max_turns": 6},
}


@pytest.mark.parametrize(
    ("own", "temperature", "max_new_tokens", "max_turns"),
    [
        ({}, 1.0, 100, 6),
        ({"temperature": 0.6}, 0.6, 100, 6),
        ({"max_new_tokens": 200}, 1.0, 200, 6),
        ({"max_turns": 10}, 1.0, 100, 10),
    ],
)
def test_an_evaluation_has_its_own_values(own, temperature, max_new_tokens, max_turns) -> None:
    settings = build(TrainerSettings, TRAINING | {"eval": own})
    found = settings.at_evaluation()
    assert (found.rollout.temperature, found.rollout.max_new_tokens) == (temperature, max_new_tokens)
    assert found.environment.max_turns == max_turns
    assert (settings.rollout.temperature, settings.environment.max_turns) == (1.0, 6), "training keeps its own"
    assert found.at_evaluation() == found


def test_another_reward_does_not_inherit_the_options_of_the_extended_config(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('model.path = "M"\n[reward.options]\ntau = 0.5\n', "utf-8")
    file = tmp_path / "mine.toml"
    for recipe, expected in (("sail_rl", {}), ("argos", {"tau": 0.5})):
        file.write_text(f'extends = "base.toml"\n[reward]\nrecipe = "{recipe}"\n', "utf-8")
        assert load_config(TrainerSettings, str(file)).reward.options == expected


def test_the_default_optimisers() -> None:
    """Four of the five papers train at 1e-6 in RL."""
    settings = build(TrainerSettings, {"model": {"path": "M"}, "grpo": {"optimiser": {"warmup_steps": 3}}})
    assert (settings.sft.optimiser.lr, settings.grpo.optimiser.lr) == (1e-5, 1e-6)
    assert (settings.sft.optimiser.warmup_steps, settings.grpo.optimiser.warmup_steps) == (0, 3)


@pytest.mark.parametrize(
    ("own", "ks"),
    [
        ({}, (1, 4)),
        ({"samples": 2}, (1, 2)),
        ({"samples": 1}, (1,)),
        ({"samples": 8, "k": [2, 3]}, (2, 3)),
        ({"k": []}, ()),
    ],
)
def test_the_default_of_k_follows_the_samples(own, ks) -> None:
    assert build(TrainerSettings, TRAINING | {"eval": own}).eval.ks == ks


def test_k_above_the_samples() -> None:
    with pytest.raises(ConfigError, match=r"^eval\.k must be at most eval\.samples = 2, got 3$"):
        build(TrainerSettings, TRAINING | {"eval": {"samples": 2, "k": [1, 3]}})


@pytest.mark.parametrize("section", ["eval", "grpo"])
def test_an_unknown_stream(section: str) -> None:
    assert build(TrainerSettings, TRAINING | {section: {"streams": ["textual", "grounded"]}})
    with pytest.raises(ConfigError, match=rf"^{section}\.streams\[0\] must be 'grounded' or 'textual', got 'nosuch'$"):
        build(TrainerSettings, TRAINING | {section: {"streams": ["nosuch"]}})


@pytest.mark.parametrize("seed", [-1, 2**32, 10**30])
def test_a_seed_that_no_generator_takes(seed: int) -> None:
    with pytest.raises(ConfigError, match=r"^seed must be"):
        build(TrainerSettings, TRAINING | {"seed": seed})
