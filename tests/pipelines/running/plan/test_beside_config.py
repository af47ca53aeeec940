"""Plug-ins in the folder of the config that names them, while the command runs elsewhere."""

from pathlib import Path
from typing import Any

import pytest

import groundtrace as gt
from groundtrace.config.settings import given_values, load_config
from groundtrace.pipelines.commands import cli
from groundtrace.schemas import registry
from groundtrace.schemas.registry import RegistryError, load
from groundtrace.schemas.user_modules import StaleModule
from groundtrace.trainer.settings import TrainerSettings

ROOT = Path(__file__).parents[4]
SAMPLE = str(ROOT / "data/sample")
SCORER = """
from groundtrace.rewards.scorer import Scorer
from groundtrace.schemas.records import Verdict
async def score(case):
    return Verdict("beside", {value}, "")
BESIDE = Scorer("beside", "everything", score)
"""
CONFIG = '[plugins]\nscorers.beside = "beside_scorer:BESIDE"\n[verify.scorers]\nbeside = {}\n'


@pytest.fixture(autouse=True)
def _elsewhere(own_modules: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_configured", {})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")


def config_in(folder: Path, value: float = 0.5, config: str = CONFIG) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "beside_scorer.py").write_text(SCORER.format(value=value))
    (folder / "few.toml").write_text(config)
    return str(folder / "few.toml")


def value_of(config: str) -> float | None:
    point = '<points x1="12" y1="41" alt="blue square">one</points>'
    response = f"<think>It has {point}.</think><answer>1</answer>"
    image = f"{SAMPLE}/images/dev-1226-1-0.png"
    found = gt.verify("How many blue squares are there?", response, [image], "1", config=config)
    return next(verdict.value for verdict in found.verdicts if verdict.name == "beside")


def test_the_module_beside_a_config_and_beside_the_one_that_it_extends(tmp_path: Path) -> None:
    base = config_in(tmp_path / "a")
    assert value_of(base) == 0.5
    (tmp_path / "b").mkdir()
    (tmp_path / "b/more.toml").write_text('extends = "../a/few.toml"\n[verify]\nmin_score = 0.5\n')
    gt.reload()
    assert value_of(str(tmp_path / "b/more.toml")) == 0.5


@pytest.mark.slow
def test_a_run_with_workers(tmp_path: Path) -> None:
    """The name in place is not among the plug-ins that the workers are told of."""
    config = config_in(tmp_path / "a", config='[verify.scorers]\n"beside_scorer:BESIDE" = {}\n')
    run, workers = str(tmp_path / "run"), ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    words = ["run", "grounded_cot", "--input", SAMPLE, "--output", run, "--config", config, "--limit", "4", "--"]
    assert cli.main([*words, *workers]) == 0
    verdicts = [each for row in gt.open_run(run).sft for each in row["verdicts"] if each["name"] == "beside"]
    assert verdicts and {each["value"] for each in verdicts} == {0.5}


def test_the_trainer(tmp_path: Path) -> None:
    named = '[model]\npath = "x"\n[plugins]\nscorers.beside = "beside_scorer:BESIDE"\n'
    config = config_in(tmp_path / "a", config=named)
    assert load_config(TrainerSettings, config).seed == 0


def test_the_current_folder_comes_first(tmp_path: Path) -> None:
    config_in(tmp_path / "elsewhere", 1.0)
    assert value_of(config_in(tmp_path / "a", 0.5)) == 1.0


def test_two_configs_with_different_modules_of_one_name(tmp_path: Path) -> None:
    configs = {value: config_in(tmp_path / name, value) for name, value in (("a", 0.25), ("b", 0.75))}
    assert value_of(configs[0.25]) == 0.25
    with pytest.raises(StaleModule, match=r"beside_scorer in .*/b cannot be imported, because .*/a/.*gt\.reload\(\)"):
        value_of(configs[0.75])
    for value in (0.75, 0.25):
        gt.reload()
        assert value_of(configs[value]) == value


def test_only_the_folder_of_the_present_config_is_searched(tmp_path: Path) -> None:
    given_values(config_in(tmp_path / "a"))
    given_values(None)
    with pytest.raises(RegistryError, match="put this module beside the config"):
        load("beside_scorer:BESIDE")


def test_the_folder_of_a_run_is_not_searched(tmp_path: Path) -> None:
    """It may be from somebody else."""
    config: Any = config_in(tmp_path / "a")
    (tmp_path / "a/run.json").write_text('{"config_sha256": "0f"}')
    with pytest.raises(gt.UserError, match="No module named 'beside_scorer'"):
        value_of(config)
