"""One process in a folder, one rank, and how long a run is."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.schemas.errors import UserError
from groundtrace.storage.files import locked
from groundtrace.trainer import cli
from groundtrace.trainer.settings import GrpoSettings, SftSettings
from groundtrace.trainer.sft import train_sft

from .runs import Command, metrics_of, settings_of


def test_a_folder_that_another_process_writes(run: Command, sft_data: Path) -> None:
    (run.home / "out").mkdir()
    with locked(run.home / "out"):
        run("sft", sft_data).check_refused(2, f"another process is writing {run.home / 'out'}")
    assert run("sft", sft_data).code == 0, "the file of a lock that nobody holds any more does not matter"


def test_a_lock_is_refused_as_the_caller_says(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"), locked(tmp_path / "file"):
        pass


@pytest.mark.parametrize("command", ["sft", "grpo", "eval"])
def test_several_ranks(command: str, run: Command, sft_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    ran = run(command, sft_data)
    ran.check_refused(2, "WORLD_SIZE is 2, but the trainer starts its processes itself")
    assert not ran.output.exists()
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert cli.main(["sft", "--config", "gone.toml", "--data", "d", "--output", str(ran.output)]) == 2
    assert "gone.toml" in run.capture.readouterr().err


LENGTHS = [
    ({"steps": 7}, 100, 7),
    ({"epochs": 1.0}, 100, 25),
    ({"epochs": 2.5}, 10, 7),
    ({"epochs": 0.01}, 10, 1),
    ({"epochs": 1.0, "steps": 3}, 100, 3),
    ({"epochs": 1.0, "steps": 300}, 100, 25),
]


@pytest.mark.parametrize(("length", "rows", "steps"), LENGTHS)
def test_steps_and_epochs(length: dict[str, Any], rows: int, steps: int) -> None:
    settings = settings_of(Path("tiny"), sft=length | {"samples_per_step": 4})
    assert settings.sft.steps_for(rows) == steps
    rounds = replace(settings.grpo, steps=None, epochs=None, prompts_per_step=4)
    assert replace(rounds, **length).steps_for(rows) == steps


@pytest.mark.parametrize(
    ("settings", "rows", "said"),
    [
        (
            GrpoSettings(steps=3, epochs=3.0, prompts_per_step=16),
            5,
            "grpo.epochs = 3 ends the training after step 1, before grpo.steps = 3, because 5 prompts x 3 epochs / 16 "
            "prompts per step, rounded up, = 1 step: lower grpo.prompts_per_step, or set grpo.epochs to at least 7",
        ),
        (
            SftSettings(steps=9, epochs=1.0, samples_per_step=4),
            8,
            "sft.epochs = 1 ends the training after step 2, before sft.steps = 9, because 8 rows x 1 epoch / 4 "
            "rows per step = 2 steps: lower sft.samples_per_step, or set sft.epochs to at least 5",
        ),
        (GrpoSettings(steps=1, epochs=3.0, prompts_per_step=16), 5, None),
        (GrpoSettings(steps=3), 5, None),
    ],
)
def test_epochs_that_end_a_training_early(settings: Any, rows: int, said: str | None) -> None:
    assert settings.cut_text(rows) == said
    if said is not None:
        enough = float(said.rpartition(" ")[2])
        assert replace(settings, epochs=enough).steps_for(rows) == settings.steps
        assert replace(settings, epochs=enough - 1).steps_for(rows) < settings.steps


def test_neither_steps_nor_epochs(folders: Any, sft_data: Path, tmp_path: Path) -> None:
    settings = settings_of(folders["qwen3"])
    with pytest.raises(UserError, match=r"neither sft\.steps nor sft\.epochs is set"):
        train_sft(settings, sft_data, tmp_path / "out")


def test_a_run_of_two_epochs(folders: Any, sft_data: Path, tmp_path: Path) -> None:
    train_sft(settings_of(folders["qwen3"], sft={"epochs": 2.0, "samples_per_step": 2}), sft_data, tmp_path / "out")
    assert len(metrics_of(tmp_path / "out")) == 3


def test_a_training_names_its_bundled_config(run: Command, sft_data: Path) -> None:
    output = run.home / "named"
    words = ["--data", str(sft_data), "--output", str(output), "--set", f"model.path={run.model}"]
    ran = run.words(["sft", "--config", "tiny", *words, "--set", "sft.steps=1"], output)
    assert ran.code == 0, ran.err
    assert json.loads((output / "run.json").read_text("utf-8"))["bundled_config"] == "tiny"
    assert "differ from the bundled config" in (output / "train.html").read_text("utf-8")
    assert "bundled_config" not in (run("sft", sft_data).output / "run.json").read_text("utf-8")
