"""The config of a reward elsewhere: a file, a trainer's config, a bundled name, and how a model writes."""

from dataclasses import fields
from pathlib import Path

import pytest

from groundtrace.config.errors import ConfigError
from groundtrace.inference.families.registry import FAMILIES
from groundtrace.publishing.rewards.settings import (
    OTHER_SECTIONS,
    VARIABLE,
    RemoteRewardSettings,
    SpeechSettings,
    load_reward_settings,
)
from groundtrace.schemas.coordinates import QWEN25_IMAGE, CoordinateFrame, ResizeRule
from groundtrace.trainer.settings import TrainerSettings


@pytest.mark.parametrize("name", ["argos", "sail_rl", "ivgr", "rucl"])
def test_a_bundled_config_by_its_name(name: str) -> None:
    assert load_reward_settings(name).reward.recipe == name


def test_a_trainers_config_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model's bounds hold for the reward too, unless `speech` says otherwise."""
    path = tmp_path / "c.toml"
    text = '[model]\npath = "p"\nmax_pixels = 90000\nframe = "px"\n[grpo]\nsteps = 3\n[reward]\nrecipe = "argos"\n'
    path.write_text(text, "utf-8")
    monkeypatch.setenv(VARIABLE, str(path))
    assert load_reward_settings().speech == SpeechSettings(frame=CoordinateFrame.PX, max_pixels=90000)
    path.write_text(text + "[speech]\nmax_pixels = 80000\n", "utf-8")
    assert load_reward_settings().speech == SpeechSettings(frame=CoordinateFrame.PX, max_pixels=80000)


def test_the_other_sections_of_a_trainers_config_are_listed() -> None:
    assert {each.name for each in fields(TrainerSettings)} == OTHER_SECTIONS | {"reward", "plugins"}


def test_without_a_config_it_says_what_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert load_reward_settings() == RemoteRewardSettings()
    assert "argos" in capsys.readouterr().err


BAD = [
    ("unscored = nan\n", "unscored must be a finite number"),
    ("step_responses = -1\n", "step_responses must be at least 0"),
    ("step_response = 1\n", "unknown key step_response; did you mean step_responses?"),
    ('[speech]\nfamily = "qwen9"\n', "speech.family must be one of"),
    ("[speech]\nmax_pixels = 0\n", "speech.max_pixels must be greater than 0"),
    ('[reward]\nrecipe = "argus"\n', "reward.recipe must be one of argos"),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_a_config_that_will_not_do(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(text, "utf-8")
    with pytest.raises(ConfigError) as refusal:
        load_reward_settings(str(tmp_path / "c.toml"))
    assert said in str(refusal.value)


def test_a_missing_config_whose_name_is_nearly_a_bundled_one() -> None:
    with pytest.raises(ConfigError, match=r"cannot read the config argus: .* one of argos, .*: did you mean argos\?$"):
        load_reward_settings("argus")


SPEECHES = [
    (SpeechSettings(), "qwen2.5-vl", CoordinateFrame.QWEN25_RESIZED_PX, QWEN25_IMAGE),
    (SpeechSettings(), "plain", CoordinateFrame.PX, QWEN25_IMAGE),
    (SpeechSettings(family="qwen2.5-vl"), "plain", CoordinateFrame.QWEN25_RESIZED_PX, QWEN25_IMAGE),
    (SpeechSettings(frame=CoordinateFrame.UNIT), "qwen3-vl", CoordinateFrame.UNIT, FAMILIES.named("qwen3-vl").resize),
    (SpeechSettings(min_pixels=9000, max_pixels=90000), "qwen2.5-vl", CoordinateFrame.QWEN25_RESIZED_PX,
     ResizeRule(28, 9000, 90000)),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "family", "frame", "rule"), SPEECHES)
def test_how_a_model_writes(settings: SpeechSettings, family: str, frame: CoordinateFrame, rule: ResizeRule) -> None:
    speech = settings.speech_of(family)
    assert (speech.frame, speech.rule) == (frame, rule)


@pytest.mark.parametrize(
    ("settings", "family", "said"),
    [
        (
            SpeechSettings(max_pixels=10),
            "qwen2.5-vl",
            "speech.min_pixels is 3136, but speech.max_pixels is only ",
        ),
        (
            SpeechSettings(max_pixels=10),
            "claude",
            "speech.max_pixels is set, but the model family claude does not use it",
        ),
        (SpeechSettings(), "os:system", "unknown model family 'os:system'"),
        (SpeechSettings(), "", "unknown model family ''"),
    ],
)
def test_what_no_model_writes(settings: SpeechSettings, family: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        settings.speech_of(family)
