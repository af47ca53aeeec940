"""The configs of docs/endpoints.md and docs/training.md load, with the values that the pages describe."""

from pathlib import Path

from groundtrace.config.settings import load_config
from groundtrace.pipelines.grounded_cot import Settings
from groundtrace.trainer.settings import TrainerSettings

from .pages import ROOT, blocks

ENDPOINTS, TRAINING = ROOT / "docs/endpoints.md", ROOT / "docs/training.md"


def configured(folder: Path, number: int) -> Settings:
    (folder / "my.toml").write_text(blocks(ENDPOINTS, "toml")[number], "utf-8")
    return load_config(Settings, str(folder / "my.toml"))


def test_config(tmp_path: Path) -> None:
    settings = configured(tmp_path, 0)
    assert settings.roles["teacher"] == "strong"
    assert settings.roles["segmenter"] == ""
    assert settings.difficulty.low == 0.2


def test_config_of_a_detector(tmp_path: Path) -> None:
    settings = configured(tmp_path, 1)
    kinds = [settings.endpoints[settings.roles[role]].kind for role in ("detector", "segmenter", "teacher")]
    assert kinds == ["transformers", "transformers", "classical"]
    assert settings.endpoints["boxes"].threshold == 0.3


def test_config_of_a_small_model(tmp_path: Path) -> None:
    settings = configured(tmp_path, 2)
    assert settings.endpoints[settings.roles["policy"]].kind == "transformers_chat"


def test_config_of_the_trainer(tmp_path: Path) -> None:
    whole, environment = blocks(TRAINING, "toml")
    (tmp_path / "my.toml").write_text(whole + environment, "utf-8")
    settings = load_config(TrainerSettings, str(tmp_path / "my.toml"))
    assert (settings.grpo.clip_high, settings.reward.roles["detector"]) == (0.28, "edges")
    assert (settings.environment.kind, settings.environment.options["verify"]) == ("sandbox", True)


def test_every_config_is_loaded() -> None:
    assert len(blocks(ENDPOINTS, "toml")) == 3


def test_every_role_and_every_kind_has_its_row() -> None:
    text = ENDPOINTS.read_text("utf-8")
    for kind in ("openai", "gemini", "vllm", "transformers", "classical"):
        assert f'"{kind}"` |' in text
    for role in (*Settings().roles, "second_judge"):
        assert f"| `{role}` |" in text
