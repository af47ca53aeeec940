"""The bundled configs: each builds settings, names its reward, and holds its paper's numbers."""

from pathlib import Path
from typing import Any

import pytest

from groundtrace.config.settings import load_config
from groundtrace.inference.endpoint import is_embedded
from groundtrace.rewards.rows.settings import CONFIGS, config_file
from groundtrace.trainer.settings import TrainerSettings

from .runs import Command

EMBEDDED = "embedded"
NAMES = sorted(path.stem for path in CONFIGS.glob("*.toml") if path.stem != EMBEDDED)
PAPERS: dict[str, dict[str, Any]] = {
    "argos": {
        "optimiser.lr": 1e-5,
        "sft.samples_per_step": 256,
        "grpo.prompts_per_step": 56,
        "grpo.steps": 80,
        "rollout.max_new_tokens": 6144,
    },
    "sail_rl": {
        "optimiser.lr": 1e-6,
        "grpo.group_size": 5,
        "grpo.clip_low": 0.2,
        "grpo.clip_high": 0.28,
        "grpo.kl_beta": 0.0,
        "grpo.prompts_per_step": 256,
        "grpo.epochs": 3.0,
        "sft.samples_per_step": 1024,
        "batch.max_tokens": 20480,
        "rollout.max_new_tokens": 4096,
        "eval.form": "judge",
    },
    "ivgr": {
        "optimiser.lr": 1e-6,
        "optimiser.schedule": "constant",
        "grpo.group_size": 5,
        "grpo.kl_beta": 0.01,
        "grpo.prompts_per_step": 512,
        "grpo.steps": 360,
        "sft.samples_per_step": 64,
        "rollout.temperature": 1.0,
        "rollout.max_new_tokens": 4096,
        "eval.form": "textual",
    },
    "rucl": {
        "optimiser.lr": 1e-6,
        "optimiser.schedule": "constant",
        "grpo.group_size": 8,
        "grpo.kl_beta": 0.01,
        "grpo.prompts_per_step": 256,
        "grpo.updates_per_rollout": 2,
        "rollout.temperature": 1.0,
    },
    "codedance": {
        "optimiser.lr": 1e-6,
        "optimiser.schedule": "constant",
        "sft.samples_per_step": 128,
        "grpo.group_size": 8,
        "grpo.kl_beta": 0.0,
        "grpo.prompts_per_step": 256,
        "grpo.epochs": 1.0,
        "grpo.updates_per_rollout": 1,
        "grpo.dynamic_sampling": False,
        "batch.max_tokens": 2 * 10240,
        "rollout.temperature": 1.0,
        "rollout.max_new_tokens": 10240,
        "environment.kind": "sandbox",
        "environment.max_turns": 6,
        "eval.max_turns": 10,
        "eval.form": "code",
    },
}
OPTIONS: dict[str, dict[str, Any]] = {
    "argos": {"tau": 1.0},
    "sail_rl": {"form": "cascading", "cascading.alpha": 0.9},
    "ivgr": {"min_box_score": 0.3, "judgements": 1, "weights.boxes_weight": 1.0, "boxes": "bidirectional"},
    "rucl": {"alpha": 0.7, "window": 20, "tau": 0.9, "lambda_max": 1.0, "lambda_base": 0.0, "growth": "sigmoid"},
    "codedance": {"gamma": 4.0, "beta": 0.2, "failure_reward": -0.5, "discount": 0.2, "turn_weight": 0.2},
}


def value(settings: Any, key: str) -> Any:
    for part in key.split("."):
        settings = getattr(settings, part)
    return settings


@pytest.mark.parametrize("name", NAMES)
def test_a_config_holds_its_papers_numbers(name: str) -> None:
    settings = load_config(TrainerSettings, config_file(name), [])
    assert settings.reward.recipe == name
    assert {key: value(settings, key) for key in PAPERS[name]} == PAPERS[name]
    options = settings.reward.make_recipe().settings  # type: ignore[attr-defined]
    assert {key: value(options, key) for key in OPTIONS[name]} == OPTIONS[name]
    for role in settings.reward.make_recipe().roles:
        assert role in settings.reward.played


def test_there_is_one_for_each_of_these_papers() -> None:
    assert sorted(PAPERS) == NAMES == sorted(OPTIONS)


def test_the_embedded_one_needs_nobody() -> None:
    settings = load_config(TrainerSettings, config_file(EMBEDDED), ["model.path=M"]).reward
    assert set(settings.played) == {"detector", "segmenter", "judge"}
    assert all(is_embedded(settings.endpoints[name]) for name in settings.played.values())


def test_a_file_of_that_name_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert config_file("ivgr") == str(CONFIGS / "ivgr.toml")
    (tmp_path / "ivgr").write_text("", "utf-8")
    assert config_file("ivgr") == "ivgr"
    assert config_file("none.toml") == "none.toml"


def test_a_bundled_config_serves_the_command(run: Command, rl_data: Path, tmp_path: Path) -> None:
    words = ["grpo", "--config", "ivgr", "--data", str(rl_data), "--output", str(tmp_path / "out")]
    ran = run.words([*words, "--set", f"model.path={run.model}"], tmp_path / "out")
    ran.check_refused(2, "reward.recipe = 'ivgr' needs the stream that each response was asked for in")
