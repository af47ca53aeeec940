"""Which output folders a command refuses, because it would replace what they hold."""

import json
from pathlib import Path

import pytest

from groundtrace.schemas.errors import UserError
from groundtrace.trainer.monitor import Monitor
from groundtrace.trainer.output_folder import WRITTEN, check_output

from .runs import Command, settings_of

SETTINGS = settings_of(Path("base"))


def test_a_folder_that_is_missing_empty_or_of_the_same_command(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for command in ("sft", "grpo", "eval"):
        check_output(command, SETTINGS, out)
    out.mkdir()
    (out / ".lock").touch()
    check_output("sft", SETTINGS, out)
    Monitor(out, "sft", SETTINGS, "data", 2)
    (out / "model").mkdir()
    check_output("sft", SETTINGS, out)
    (out / "run.json").write_text('{"comm', "utf-8")  # a kill while it was written, by earlier code
    check_output("sft", SETTINGS, out)


@pytest.mark.parametrize(
    ("command", "run", "said"),
    [
        (
            "eval",
            {"command": "sft"},
            "already holds the output of a training by SFT, which would be replaced: choose another --output",
        ),
        ("sft", {"command": "grpo"}, "holds the output of a training by GRPO"),
        ("grpo", {"command": "eval"}, "holds the output of an evaluation"),
        ("sft", {"counts": {"input": 3}}, "holds the output of a run of `beam`"),
        ("sft", {"jobs": 3}, "holds the output of something else"),
        ("sft", [], "holds the output of something else"),
    ],
)
def test_the_output_of_another_command(command: str, run: object, said: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(run), "utf-8")
    with pytest.raises(UserError, match=said):
        check_output(command, SETTINGS, tmp_path)


@pytest.mark.parametrize("name", WRITTEN)
def test_files_of_others_under_a_name_that_a_training_writes(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine", "utf-8")
    with pytest.raises(UserError, match=rf"{name} exists, but .* is not the output of `trainer sft`"):
        check_output("sft", SETTINGS, tmp_path)


def test_the_model_that_the_training_starts_from(run: Command, sft_data: Path, tmp_path: Path) -> None:
    base = tmp_path / "runs" / "model"
    base.parent.mkdir()
    base.symlink_to(run.model)
    before = (run.model / "config.json").read_bytes()
    ran = run("sft", sft_data, f"model.path={base}", output="runs")
    ran.check_refused(2, "is the model that the training starts from, and the trained model would replace it")
    assert (run.model / "config.json").read_bytes() == before
    assert not (tmp_path / "runs" / "run.json").exists()


def test_the_run_itself_as_output(run: Command, sft_data: Path) -> None:
    """Nothing in the folder changes."""
    (sft_data / "run.json").write_text('{"counts": {}}', "utf-8")
    before = {path: path.read_bytes() for path in sft_data.rglob("*") if path.is_file()}
    words = ["--data", str(sft_data), "--output", str(sft_data)]
    for command in ("sft", "eval"):
        ran = run.words([command, "--config", "tiny", "--set", f"model.path={run.model}", *words], sft_data)
        ran.check_refused(2, "holds the output of a run of `beam`")
    assert {path: path.read_bytes() for path in sft_data.rglob("*") if path.is_file()} == before
