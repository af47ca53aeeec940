"""The settings of the examples are settings that the trainers know."""

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from tests.publishing.exports.made_runs import ROOT

pytestmark = pytest.mark.loaders

EXAMPLES = ROOT / "examples"


def test_verl_composes_its_config() -> None:
    import verl.trainer
    from hydra import compose, initialize_config_dir

    text = (EXAMPLES / "verl/grpo.sh").read_text("utf-8").replace("$PWD", "/work").replace('"', "")
    given = re.findall(r"^    ([a-z_]+[.][^\s]+=[^\s]+) \\$", text, re.MULTILINE)
    assert len(given) > 20
    elsewhere = re.findall(r"`([+]reward\S+=http\S+)`", (EXAMPLES / "verl/README.md").read_text("utf-8"))
    folder = Path(inspect.getfile(verl.trainer)).parent / "config"
    with initialize_config_dir(str(folder), version_base=None):
        config = compose("ppo_trainer", [*given, *elsewhere])
    assert config.reward.custom_reward_function.path == "/work/exports/verl/groundtrace_client.py"
    assert config.reward.custom_reward_function.reward_kwargs.url == "http://HOST:8500"
    assert config.data.train_files.endswith("exports/verl/rl.parquet")


def test_the_settings_of_rollouts_with_code() -> None:
    """Those of docs/exports.md, "Tool turns"."""
    import verl.trainer
    from hydra import compose, initialize_config_dir
    from swift.arguments import RLHFArguments

    page = (ROOT / "docs/exports.md").read_text("utf-8")
    given = re.findall(r"`(actor_rollout_ref[.]\S+=\S+?)`", page)
    folder = Path(inspect.getfile(verl.trainer)).parent / "config"
    with initialize_config_dir(str(folder), version_base=None):
        turns = compose("ppo_trainer", given).actor_rollout_ref.rollout.multi_turn
    assert (turns.enable, turns.format) == (True, "hermes")
    assert (ROOT / turns.tool_config_path).is_file()
    [row] = [line for line in page.splitlines() if line.startswith("| ms-swift | `--external_plugins ")]
    assert set(re.findall(r"--(\w+)", row)) <= {field.name for field in fields(RLHFArguments)}
    assert (ROOT / row.split()[4]).is_file()


@pytest.mark.parametrize("script", ["sft", "grpo"])
def test_swift_knows_its_options(script: str) -> None:
    from swift.arguments import RLHFArguments, SftArguments

    known = {field.name for field in fields(SftArguments if script == "sft" else RLHFArguments)}
    given = re.findall(r"^    --(\w+)", (EXAMPLES / f"swift/{script}.sh").read_text("utf-8"), re.MULTILINE)
    assert len(given) > 10
    assert set(given) <= known


def test_llamafactory_knows_its_keys() -> None:
    from llamafactory.hparams import DataArguments, FinetuningArguments, ModelArguments, TrainingArguments

    kinds = (DataArguments, FinetuningArguments, ModelArguments, TrainingArguments)
    known = {field.name for kind in kinds for field in fields(kind)}
    given = yaml.safe_load((EXAMPLES / "llamafactory/sft.yaml").read_text("utf-8"))
    assert set(given) <= known


def test_openrlhf_knows_its_options() -> None:
    from importlib.util import find_spec

    spec = find_spec("openrlhf.cli.train_ppo_ray")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text("utf-8")
    given = re.findall(r"^    (--[\w.]+)", (EXAMPLES / "openrlhf/grpo.sh").read_text("utf-8"), re.MULTILINE)
    assert len(given) > 15
    assert [option for option in given if f'"{option}"' not in source] == []
    assert '"group_norm"' in source
