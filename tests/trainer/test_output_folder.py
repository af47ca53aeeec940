"""Which output folders a command refuses, because it would replace what they hold."""

import json
import os
from pathlib import Path

import pytest

from groundtrace.rewards.rows import shards
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.trainer.monitor import Monitor
from groundtrace.trainer.output_folder import ALSO_WRITTEN, OF_TRACKER, WRITTEN, check_output, refuse_unsafe

from .runs import Command, records, settings_of, write_records

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
    with pytest.raises(
        UserError, match=rf"`trainer sft` would replace .*{name}, which another program made: choose another --output"
    ):
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


BELOW = ("checkpoints/.step-000001.7", "best/step-000001", "rollouts/step-000001/0.png", "model/config.json")
"""Entries of folders through which a training writes or deletes."""


@pytest.mark.parametrize(
    "name", (*WRITTEN, *ALSO_WRITTEN, *BELOW, "checkpoints/step-000001/trainer.pt", "rows/a/b.lock")
)
def test_a_link_in_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    (out / name).parent.mkdir(parents=True)
    (out / "run.json").write_text('{"command": "sft"}', "utf-8")
    (out / name).unlink(missing_ok=True)
    (out / name).symlink_to(elsewhere)
    (tmp_path / "named").symlink_to(out)
    for folder in (out, tmp_path / "named"):
        with pytest.raises(
            UnsafeFile, match=rf"{name} is a link, but Groundtrace writes and deletes nothing in .*, or remove it"
        ):
            check_output("sft", SETTINGS, folder)
    (out / name).unlink()
    check_output("sft", SETTINGS, tmp_path / "named")


@pytest.mark.parametrize("name", (*WRITTEN, *ALSO_WRITTEN, *BELOW))
def test_a_pipe_in_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(UnsafeFile, match=rf"{name} is not a regular file, but a pipe: move it away"):
        check_output("sft", SETTINGS, tmp_path)


@pytest.mark.parametrize(
    "name", ["run.json", "metrics.jsonl", "checkpoints/step-000001/trainer.pt", "model/config.json"]
)
def test_a_training_does_not_wait_for_a_pipe(name: str, run: Command, sft_data: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / name).parent.mkdir(parents=True)
    (tmp_path / "out/run.json").write_text('{"command": "sft"}', "utf-8")
    (tmp_path / "out" / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / "out" / name)
    run("sft", sft_data).check_refused(2, f"{name} is not a regular file, but a pipe: move it away")


@pytest.mark.parametrize("name", ["mine", "mine/link", *(f"{name}/latest-run" for name in OF_TRACKER)])
def test_links_that_no_command_writes_through_are_accepted(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to("elsewhere")
    refuse_unsafe(tmp_path)


@pytest.mark.parametrize("command", ["sft", "grpo", "eval"])
@pytest.mark.parametrize("name", ["checkpoints", "best", "model", "rollouts.jsonl", "eval.json", "cache", "media"])
def test_a_folder_from_someone_else(
    command: str, name: str, run: Command, rl_data: Path, sft_data: Path, tmp_path: Path
) -> None:
    """Its links lead to folders and files of the user, which stay as they are."""
    out, mine = tmp_path / "out", tmp_path / "mine"
    link = out / "rollouts/step-000001" / name if name == "rollouts.jsonl" else out / name
    link.parent.mkdir(parents=True)
    (out / "run.json").write_text(json.dumps({"command": command}), "utf-8")
    (mine / ".step-000001.7").mkdir(parents=True)
    (mine / "config.json").write_text("precious", "utf-8")
    link.symlink_to(mine / "config.json" if "." in name else mine)
    ran = run(command, sft_data if command == "sft" else rl_data, "log.rollouts_every=1")
    ran.check_refused(2, f"{name} is a link, but Groundtrace writes and deletes nothing in")
    assert [path.name for path in sorted(mine.iterdir())] == [".step-000001.7", "config.json"]
    assert (mine / "config.json").read_text("utf-8") == "precious"
    assert not (out / ".lock").exists()


def test_every_file_that_a_command_writes_is_listed(
    run: Command, rl_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "MAX_BYTES_IN_MEMORY", 0)
    folder = write_records(tmp_path / "held", records("3949-1-0-c0"))
    sets = ("grpo.steps=1", "log.rollouts_every=1", "log.tensorboard=true", f"validation.data={folder}")
    trained = run("grpo", rl_data, *sets, output="trained")
    evaluated = run("eval", rl_data, output="evaluated")
    assert (trained.code, evaluated.code) == (0, 0), trained.err + evaluated.err
    found = {path.name for ran in (trained, evaluated) for path in ran.output.iterdir()}
    assert found >= {"rows", "rollouts", "validation", "best", "tensorboard", "media", "train.html", "eval.html"}
    assert found <= {*WRITTEN, *ALSO_WRITTEN}
