"""What ``--estimate`` shows, and that each bundled config fits the machine that it names."""

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from groundtrace.config.settings import load_config
from groundtrace.rewards.rows.settings import CONFIGS, config_file
from groundtrace.trainer.machine_estimate import estimate_on, head_line, reward_line, server_line, table
from groundtrace.trainer.memory import GIB, Estimate, cached_bytes, size_of
from groundtrace.trainer.outline import outline_of
from groundtrace.trainer.settings import ModelSettings, TrainerSettings

from .runs import Command

NAMES = sorted(path.stem for path in CONFIGS.glob("*.toml") if path.stem not in ("embedded", "tiny"))
PAPERS = ("argos", "codedance", "ivgr", "rucl", "sail_rl")
SIZES_GIB = {78: "80 GB", 139: "141 GB"}
"""The memory that a GPU of each size has for a training."""

model_of = cache(outline_of)


def settings_of(name: str) -> TrainerSettings:
    return load_config(TrainerSettings, config_file(name), [], CONFIGS)


@pytest.mark.parametrize("is_grpo", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_config_fits_the_machine_that_it_names(name: str, is_grpo: bool) -> None:
    settings = settings_of(name)
    machine = settings.machine
    assert settings.rollout.kind == "vllm"
    assert machine.gpu_gib in SIZES_GIB
    header = (CONFIGS / f"{name}.toml").read_text("utf-8").partition("\n\n")[0]
    assert f"of {SIZES_GIB[int(machine.gpu_gib)]}" in header
    found = estimate_on(model_of(settings.model), settings, is_grpo, machine.gpus)
    assert found.total / GIB < machine.gpu_gib


@pytest.mark.parametrize("name", NAMES)
def test_a_server_on_the_same_gpus_has_room(name: str) -> None:
    """For the weights, which its GPUs share, and for at least eight of the longest responses."""
    settings = settings_of(name)
    machine, model = settings.machine, model_of(settings.model)
    if not machine.server_gib:
        assert (machine.gpus, machine.gpu_gib) == (4, 78), "half of a node; the other half serves"
        return
    needed = size_of(model.parameters()) + 8 * cached_bytes(model, settings, settings.batch.max_tokens)
    assert needed / GIB < machine.gpus * machine.server_gib


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("variant", ["lora", "small"])
def test_each_paper_has_variants_for_one_gpu(paper: str, variant: str) -> None:
    settings = settings_of(f"{paper}-{variant}")
    assert (settings.machine.gpus, settings.machine.gpu_gib) == (1, 78)
    weights = sum(weight.numel() for weight in model_of(ModelSettings(settings.model.path)).parameters())
    assert settings.model.lora_rank > 0 if variant == "lora" else weights < 4e9


def test_the_table() -> None:
    found = {1: Estimate((("weights", 4 * GIB), ("none", 0), ("step", GIB))), 2: Estimate((("weights", 2 * GIB),))}
    assert table(found).splitlines() == [
        "GiB                  1 GPU   2 GPUs",
        "weights                4.0      2.0",
        "step                   1.0        -",
        "total on each GPU      5.0      2.0",
    ]


@pytest.mark.parametrize(("given", "where"), [(0.0, "on GPUs of its own"), (9.0, "in 9 GiB of each training GPU")])
def test_the_line_of_the_server(folders: Any, given: float, where: str) -> None:
    sets = [f"model.path={folders['qwen3']}", f"machine.server_gib={given}"]
    settings = load_config(TrainerSettings, config_file("argos"), sets, CONFIGS)
    line = server_line(outline_of(settings.model), settings)
    assert f"0.0 GiB for weights {where}" in line
    assert "of each response of 16384 tokens" in line


def test_the_models_of_the_reward_are_listed() -> None:
    assert reward_line(settings_of("ivgr").reward) == (
        "not part of the estimate: the models of the reward (judge Qwen/Qwen2.5-72B-Instruct)"
    )
    embedded = load_config(TrainerSettings, config_file("embedded"), ["model.path=tiny"], CONFIGS)
    assert reward_line(embedded.reward) is None, "image-processing code needs no GPU"


def test_the_command(run: Command, tmp_path: Path) -> None:
    words = ["--config", "argos", "--estimate", "--set", f"model.path={run.model}"]
    for command in ("sft", "grpo"):
        ran = run.words([command, *words], tmp_path)
        assert (ran.code, ran.err) == (0, "")
        head, columns = ran.out.splitlines()[:2]
        assert head == (
            f"memory of a step of {command.upper()} with {run.model} (sizes from its config.json) on 1, 2, 4 or 8 "
            "GPUs; no data are read: each row has 16384 tokens (batch.max_tokens), as many of images as possible"
        )
        assert columns.split() == ["GiB", *["1", "GPU", "2", "GPUs", "4", "GPUs", "8", "GPUs"]]
        assert ("the vLLM server needs" in ran.out) == (command == "grpo")
        assert ("not part of the estimate: the models of the reward (detector IDEA" in ran.out) == (command == "grpo")
        fits = ran.out.splitlines()[-1]
        assert fits.startswith("fits 4 GPUs of 78 GiB: ")
        assert ("the training loads models of its reward on the same GPU: IDEA" in fits) == (command == "grpo")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("Qwen/Qwen3-VL-2B-Instruct", "architectures.toml"),
        ("Qwen/Qwen3-VL-4B-Instruct", "architectures.toml"),
        ("Qwen/Qwen3-VL-4B-Thinking", "its config.json in the Hub"),
    ],
)
def test_the_head_names_the_source_of_the_sizes(path: str, said: str) -> None:
    head = head_line(TrainerSettings(ModelSettings(path)), False, (1, 2))
    assert head.startswith(f"memory of a step of SFT with {path} (sizes from {said}) on 1 or 2 GPUs; ")


def test_a_folder_with_nothing_but_the_config(run: Command, tmp_path: Path) -> None:
    shutil.copy(run.model / "config.json", tmp_path / "config.json")
    words = ["sft", "--config", "argos", "--estimate", "--set"]
    ran, expected = (run.words([*words, f"model.path={path}"], tmp_path) for path in (tmp_path, run.model))
    assert (ran.code, ran.out.splitlines()[1:]) == (0, expected.out.splitlines()[1:])


def test_a_machine_that_is_too_small(run: Command, tmp_path: Path) -> None:
    words = ["grpo", "--config", "argos", "--estimate", "--set", f"model.path={run.model}"]
    ran = run.words([*words, "--set", "machine.gpu_gib=0.1"], tmp_path)
    assert ran.code == 2
    assert "total on each GPU" in ran.out
    assert "but 0.1 GiB are available" in ran.err


def test_a_config_without_a_machine(run: Command, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'[model]\npath = "{run.model}"\n[machine]\ngpus = 3\n', "utf-8")
    ran = run.words(["sft", "--config", str(config), "--estimate"], tmp_path)
    assert ran.code == 0
    assert "on 1, 2, 3, 4 or 8 GPUs; " in ran.out.splitlines()[0]
    assert "3 GPUs" in ran.out.splitlines()[1]
    assert "machine.gpu_gib is not set" in ran.out.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--estimate", "--data", "d"], "--estimate reads only the config: leave --data out"),
        (["--estimate", "--data", "d", "--output", "o"], "leave --data and --output out"),
        (["--estimate", "--gpus", "4"], "the number in machine.gpus: leave --gpus out"),
        (["--estimate", "--set", "machine.gpu_gib=inf"], "machine.gpu_gib must be a finite number"),
        (["--data", "d"], "the following arguments are required: --output"),
        ([], "the following arguments are required: --data, --output"),
    ],
)
def test_folders_that_are_missing_or_too_many(run: Command, tmp_path: Path, words: list[str], said: str) -> None:
    ran = run.words(["grpo", "--config", "argos", *words], tmp_path)
    assert ran.code == 2
    assert said in ran.err
