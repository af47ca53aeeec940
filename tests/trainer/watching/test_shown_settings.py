"""The settings on the page of a training: changed ones are first, and no address or key is shown."""

from typing import Any

import pytest

from groundtrace.config.flat import flat_values
from groundtrace.config.settings import build, given_values, load_config
from groundtrace.rewards.rows.settings import CONFIGS, RewardSettings
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.watching.shown_settings import SECTIONS, shown_reward, shown_training

JUDGE = {"kind": "openai", "model": "big/judge", "base_url": "http://10.1.2.3:8000/v1", "api_key_env": "JUDGE_KEY"}
JUDGED = {"endpoints": {"j": JUDGE}, "roles": {"judge": "j"}}
WEIGHTS = {"outcome": 2.0, "spatial": 1.0, "reasoning": 1.0}
RUCL = {"recipe": "rucl", "options": {"ramp_steps": 7}}


@pytest.mark.parametrize(
    ("values", "changed"),
    [
        ({}, {}),
        ({"options": {"weights": WEIGHTS, "tau": 0.5}}, {"options.weights.outcome": "2", "options.tau": "0.5"}),
        ({"options": {"pointing": {"wrong_cost": 0.25}}}, {"options.pointing.wrong_cost": "0.25"}),
        ({"options": {"skip": ["spatial", "format"]}}, {"options.skip": "spatial, format"}),
        ({"synthetic_sources": ["charts"], "wait_s": 5.0}, {"synthetic_sources": "charts", "wait_s": "5"}),
        (JUDGED, {"roles.judge": "big/judge (openai)"}),
        ({"roles": {"segmenter": ""}}, {"roles.segmenter": "none"}),
        (RUCL | JUDGED, {"options.ramp_steps": "7", "roles.judge": "big/judge (openai)"}),
        ({"recipe": "ivgr", "options": {"labels": False}} | JUDGED, {"options.labels": "false"}),
    ],
)
def test_what_differs_from_the_defaults_is_first(values: dict[str, Any], changed: dict[str, str]) -> None:
    reward = shown_reward(build(RewardSettings, values))
    names = [each.name for each in reward.settings]
    assert len(set(names)) == len(names)
    found = {each.name: each.value for each in reward.settings if each.is_changed}
    assert {name: found.pop(name) for name in changed} == changed
    assert set(found) <= {"roles.judge"}
    count = sum(each.is_changed for each in reward.settings)
    assert all(each.is_changed for each in reward.settings[:count])
    assert "10.1.2.3" not in repr(reward) and "JUDGE_KEY" not in repr(reward)


def test_a_setting_has_its_default_and_its_meaning() -> None:
    reward = shown_reward(build(RewardSettings, {"options": {"tau": 0.5, "skip": ["reasoning"]}}))
    assert (reward.recipe, reward.scorers) == ("argos", ("outcome", "format", "spatial", "temporal"))
    settings = {each.name: each for each in reward.settings}
    assert settings["options.tau"].default == "1"
    assert settings["options.tau"].meaning == "below this outcome, the score is the outcome alone"
    assert settings["options.weights.spatial"].meaning.startswith("The weight of each scorer")
    assert settings["roles.detector"].meaning == "the model and the kind of its endpoint"


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("*.toml")))
def test_bundled_configs(name: str) -> None:
    """Only keys that the config sets differ from the defaults."""
    path = str(CONFIGS / f"{name}.toml")
    reward = load_config(TrainerSettings, path, ["model.path=m"], CONFIGS).reward
    options = [each.name for each in shown_reward(reward).settings if each.is_changed and each.name[:8] == "options."]
    assert {each.split(".")[1] for each in options} <= set(reward.options)


@pytest.mark.parametrize("command", ["sft", "grpo"])
@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("*.toml")))
def test_the_settings_of_a_training_with_a_bundled_config(name: str, command: str) -> None:
    """Only keys that the config sets differ from the defaults, and each setting has its meaning."""
    path = str(CONFIGS / f"{name}.toml")
    hidden = "http://10.1.2.3:8000/v1"
    settings = load_config(TrainerSettings, path, ["model.path=m", f"rollout.base_url={hidden}", "seed=7"], CONFIGS)
    shown = shown_training(settings, command)
    changed = {each.name: each for each in shown if each.is_changed}
    assert [each.is_changed for each in shown] == [True] * len(changed) + [False] * (len(shown) - len(changed))
    assert (changed["seed"].value, changed["seed"].default) == ("7", "0")
    assert changed["seed"].meaning == "the seed of sampling and shuffling"
    given = dict(flat_values(given_values(path, (), CONFIGS)))
    assert {*changed} <= {*given, "model.path", "seed"}
    own = {each.name for each in shown_training(settings, command, name) if each.is_changed}
    assert own == {"model.path", "seed"}
    assert not [each for each in shown if each.name.startswith("environment.options")]
    assert {each.name.partition(".")[0] for each in shown} == {*SECTIONS[command]}
    assert hidden not in repr(shown)
