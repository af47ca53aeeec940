"""A training with a reward of the user: what it says of policies that do not look, and if the reward's files change."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from groundtrace.schemas import registry
from groundtrace.schemas.revision import code_revision
from groundtrace.trainer.checkpoint import STATE, checkpoints
from groundtrace.trainer.identity import OWN_CODE

from .runs import Command, metrics_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_modules")]

REWARD = """
from dataclasses import dataclass
from typing import ClassVar

from groundtrace.config.settings import settings
from groundtrace.rewards.recipes.base import Earned, Recipe
from own_factor import FACTOR


@settings
class NoSettings:
    pass


@dataclass(frozen=True)
class Length(Recipe):
    name: ClassVar[str] = "own_length"
    Settings: ClassVar[type] = NoSettings
    samples_by_reward: ClassVar[bool] = True

    settings: NoSettings

    async def score(self, cases, memory):
        return [Earned(FACTOR * len(case.text), ()) for case in cases]
"""
TOML = '[reward]\nrecipe = "own_reward:Length"\n'


@pytest.fixture
def factor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes the module that the reward imports, as before a command in a new process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_configured", {})
    (tmp_path / "own_reward.py").write_text(REWARD)

    def write(value: str) -> None:
        (tmp_path / "own_factor.py").write_text(f"FACTOR = {value}\n")
        for name in ("own_reward", "own_factor"):
            sys.modules.pop(name, None)

    return write


def revision(output: Path) -> str:
    return json.loads((output / "run.json").read_text("utf-8"))["revision"]


def test_changed_code_of_the_reward_is_refused(run: Command, rl_data: Path, factor: Callable[[str], None]) -> None:
    factor("1")
    begun = run("grpo", rl_data, "grpo.steps=1", toml=TOML)
    assert begun.code == 0, begun.err
    assert "trainer: What a policy earns that never looks is not known for this reward: " in begun.err
    assert "the reward at the start" not in begun.err
    assert [line["blind_reward"] for line in metrics_of(begun.output)] == [None]
    first = revision(begun.output)
    assert first.startswith(f"{code_revision()} with own code ")
    factor("100")
    changed = run("grpo", rl_data, toml=TOML)
    said = "step-000001 belongs to a training with other settings, data, weights or code: your code has changed in own_"
    changed.check_refused(2, said, "Restore the earlier settings, data, weights and code, or choose another --output")
    assert revision(begun.output) == first
    other = run("grpo", rl_data, "grpo.steps=1", toml=TOML, output="other")
    assert revision(other.output) != first
    factor("1")
    restored = run("grpo", rl_data, toml=TOML)
    assert restored.code == 0, restored.err
    assert [line["step"] for line in metrics_of(restored.output)] == [1, 2]


def test_an_error_in_the_reward_has_its_file_line_and_record(
    run: Command, rl_data: Path, factor: Callable[[str], None]
) -> None:
    factor("1")
    file = run.home / "own_reward.py"
    file.write_text(REWARD.replace("case.text", "case.txt"))
    line = 1 + REWARD[: REWARD.index("case.text")].count("\n")
    said = "AttributeError: 'Case' object has no attribute 'txt'"
    where = f"(in {file}, line {line}, for the record nlvr-dev-662-1-0-c"
    rest = "; --verbose shows more); no step was completed, so none is saved"
    run("grpo", rl_data, toml=TOML).check_refused(1, f"{said} {where}", rest)


def test_a_checkpoint_of_an_earlier_version_has_no_entry_for_the_code(
    run: Command, rl_data: Path, factor: Callable[[str], None]
) -> None:
    factor("1")
    begun = run("grpo", rl_data, "grpo.steps=1", toml=TOML)
    path = checkpoints(begun.output / "checkpoints")[-1] / STATE
    state = torch.load(path, weights_only=True)
    del state["identity"][OWN_CODE]
    torch.save(state, path)
    continued = run("grpo", rl_data, toml=TOML)
    assert continued.code == 0, continued.err


def test_sft_does_not_depend_on_the_code_of_a_reward(
    run: Command, sft_data: Path, factor: Callable[[str], None]
) -> None:
    plugins = '[plugins]\nreward_recipes.own_length = "own_reward:Length"\n[reward]\nrecipe = "own_length"\n'
    factor("1")
    assert run("sft", sft_data, "sft.steps=1", toml=plugins).code == 0
    factor("100")
    continued = run("sft", sft_data, toml=plugins)
    assert continued.code == 0, continued.err
