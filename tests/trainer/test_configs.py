"""The bundled configs: each builds settings and names its reward; test_paper_values.py holds their numbers."""

from pathlib import Path

import pytest

from groundtrace.config.settings import load_config
from groundtrace.inference.endpoint import is_embedded
from groundtrace.rewards.rows.settings import CONFIGS, config_file
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.tiny import SPEECH

from .runs import Command

EMBEDDED, TINY = "embedded", "tiny"
NAMES = sorted(path.stem for path in CONFIGS.glob("*.toml") if path.stem not in (EMBEDDED, TINY))
RECIPES = {name: name.partition("-")[0] for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_config_has_its_reward_and_an_endpoint_for_each_role(name: str) -> None:
    settings = load_config(TrainerSettings, config_file(name), [], CONFIGS)
    recipe = settings.reward.make_recipe()
    assert recipe.name == RECIPES[name]
    assert set(recipe.roles) <= settings.reward.played.keys()


def test_the_embedded_one_needs_nobody() -> None:
    settings = load_config(TrainerSettings, config_file(EMBEDDED), ["model.path=M"]).reward
    assert set(settings.played) == {"detector", "segmenter", "judge"}
    assert all(is_embedded(settings.endpoints[name]) for name in settings.played.values())


def test_the_tiny_one_needs_nobody() -> None:
    settings = load_config(TrainerSettings, config_file(TINY), [])
    assert settings.model.path == "runs/tiny/model"
    assert (settings.model.frame, settings.model.decimals) == (SPEECH.frame, SPEECH.decimals)
    assert all(is_embedded(settings.reward.endpoints[name]) for name in settings.reward.played.values())


def test_a_file_of_that_name_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert config_file("ivgr") == str(CONFIGS / "ivgr.toml")
    (tmp_path / "ivgr").write_text("", "utf-8")
    assert config_file("ivgr") == "ivgr"
    assert config_file("none.toml") == "none.toml"
    (tmp_path / "argos").mkdir()
    assert config_file("argos") == str(CONFIGS / "argos.toml"), "a folder is no config"


def test_a_bundled_config_serves_the_command(run: Command, rl_data: Path, tmp_path: Path) -> None:
    words = ["grpo", "--config", "ivgr", "--data", str(rl_data), "--output", str(tmp_path / "out")]
    ran = run.words([*words, "--set", f"model.path={run.model}"], tmp_path / "out")
    ran.check_refused(2, "none of them has this: the stream that each response was asked for in")
