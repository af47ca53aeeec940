"""Exports in TRL itself: one step of SFT, of GRPO and of DPO on a tiny Qwen3-VL, from the files as they stand."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset, load_dataset
from transformers import AutoModelForImageTextToText, AutoProcessor

from groundtrace.grading.responses.turns import TOOL_SCHEMA
from groundtrace.publishing.rewards.reference import read_reference
from groundtrace.rewards.trl import reward_funcs
from groundtrace.trainer.tiny_model import make_tiny_model
from tests.publishing.exports.chat_template import text_of, with_tools
from tests.publishing.exports.made_runs import CLIP, FRAMES, ROOT, coded_run, exported, make_run, picture, sft
from tests.publishing.exports.reward_server import Server
from tests.publishing.rewards.client_server import free_port

pytestmark = pytest.mark.trl

SHARED = {"max_steps": 1, "use_cpu": True, "bf16": False, "report_to": [], "save_strategy": "no", "seed": 0}
IMAGE_TOKENS = 16


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    make_tiny_model(path, ["I find squares. There are 3 yellow squares."], seed=0)
    return path


def loaded(folder: Path) -> tuple[Any, Any]:
    """The tiny model and its processor."""
    auto: Any = AutoModelForImageTextToText
    return auto.from_pretrained(folder, dtype=torch.float32), AutoProcessor.from_pretrained(folder)


def rows(run: Path, form: str, name: str, output: Path, **options: str) -> Dataset:
    """The rows of an exported file."""
    exported(run, form, output / "export", **options)
    file = str(output / f"export/{name}.parquet")
    return load_dataset("parquet", data_files=file, split="train", cache_dir=str(output / "cache"))


def moved(before: dict[str, torch.Tensor], model: Any) -> bool:
    """Whether training has changed a weight."""
    return any(not torch.equal(before[name], weight) for name, weight in model.named_parameters())


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def test_one_step_of_sft(folder: Path, sample_run: Path, tmp_path: Path) -> None:
    from trl import SFTConfig, SFTTrainer

    model, processor = loaded(folder)
    before = weights(model)
    config = SFTConfig(str(tmp_path / "out"), per_device_train_batch_size=2, max_length=None, **SHARED)
    found = rows(sample_run, "trl", "sft", tmp_path)
    trainer = SFTTrainer(model, config, train_dataset=found, processing_class=processor)
    batch = next(iter(trainer.get_train_dataloader()))
    for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True):
        assert (ids == model.config.image_token_id).sum() == IMAGE_TOKENS  # of one image: none is doubled
        text = processor.tokenizer.decode(ids)
        assert "<image>" not in text
        learnt = processor.tokenizer.decode(ids[labels != -100])
        assert learnt.startswith("<think>")
        assert "How many" not in learnt
    assert trainer.train().training_loss > 0
    assert moved(before, model)


def reward_config(tmp_path: Path) -> Path:
    path = tmp_path / "reward.toml"
    kept = json.dumps(str(tmp_path / "kept"))
    path.write_text(f'folder = {kept}\n[reward]\nrecipe = "argos"\nallow_embedded = true\n', "utf-8")
    return path


def test_one_step_of_grpo(folder: Path, sample_run: Path, tmp_path: Path) -> None:
    from trl import GRPOConfig, GRPOTrainer

    seen: list[str] = []

    def reward(completions: list, groundtrace: list[str], **columns: Any) -> list[float]:
        """Beside the verifier, which gives an untrained model 0: so that there is something to learn."""
        seen.extend(groundtrace)
        assert len(completions) == len(groundtrace) == len(columns["answer"])
        return [float(number % 2) for number in range(len(completions))]

    model, processor = loaded(folder)
    before = weights(model)
    config = GRPOConfig(
        str(tmp_path / "out"),
        per_device_train_batch_size=4,
        num_generations=2,
        max_completion_length=8,
        gradient_checkpointing=False,
        learning_rate=1e-3,
        **SHARED,
    )
    found = rows(sample_run, "trl", "rl", tmp_path)
    verified = reward_funcs(str(reward_config(tmp_path)))
    trainer = GRPOTrainer(model, [*verified, reward], config, train_dataset=found, processing_class=processor)
    trainer.train()
    references = [read_reference(text) for text in seen]
    [log] = [line for line in trainer.state.log_history if "reward" in line]
    assert log["rewards/verified/mean"] == 0, "an untrained model is not paid"
    assert len(references) == 4
    assert {reference.id for reference in references} <= set(found["id"])
    assert {reference.run for reference in references} == {str(sample_run)}
    assert moved(before, model)


def test_one_step_of_dpo(folder: Path, sample_run: Path, tmp_path: Path) -> None:
    from trl import DPOConfig, DPOTrainer

    model, processor = loaded(folder)
    before = weights(model)
    found = rows(sample_run, "dpo", "dpo", tmp_path)
    config = DPOConfig(
        str(tmp_path / "out"), per_device_train_batch_size=2, max_length=None, gradient_checkpointing=False, **SHARED
    )
    trainer = DPOTrainer(model, args=config, train_dataset=found, processing_class=processor)
    assert trainer.train().training_loss == pytest.approx(0.693, abs=0.01)  # log 2: nothing is preferred yet
    assert moved(before, model)


def test_frames_of_a_clip_and_single_images_in_one_batch(folder: Path, tmp_path: Path) -> None:
    from trl import SFTConfig, SFTTrainer

    shown = (picture(400, 100, seed=1), picture(400, 100, seed=2))
    run = make_run(tmp_path / "run", [sft("clip", images=shown, asked=CLIP, frames=FRAMES), sft("still")])
    model, processor = loaded(folder)
    config = SFTConfig(str(tmp_path / "out"), per_device_train_batch_size=2, max_length=None, **SHARED)
    found = rows(run, "trl", "sft", tmp_path)
    trainer = SFTTrainer(model, config, train_dataset=found, processing_class=processor)
    batch = next(iter(trainer.get_train_dataloader()))
    assert len(batch["image_grid_thw"]) == 3
    texts = [processor.tokenizer.decode(ids).replace("<|image_pad|>", "") for ids in batch["input_ids"]]
    [clip] = [text for text in texts if "Frame" in text]
    mark = "<|vision_start|><|vision_end|>"
    assert CLIP.replace("<image>", mark) in clip
    assert trainer.train().training_loss > 0


def qwen_template() -> str:
    """The chat template of Qwen3-VL that TRL knows, with tools."""
    return (files("trl") / "chat_templates/qwen3_vl.jinja").read_text("utf-8")


def test_tool_turns(folder: Path, tmp_path: Path) -> None:
    from trl import SFTConfig, SFTTrainer

    model, processor = loaded(folder)
    # TRL 1.16 passes ``tools`` to the template for rows without images only, so the template sets them
    with_tools(processor, f"{{%- set tools = {json.dumps([TOOL_SCHEMA])} -%}}{qwen_template()}")
    found = rows(coded_run(tmp_path / "run"), "trl", "sft", tmp_path, turns="tools")
    assert json.loads(found[0]["tools"]) == [TOOL_SCHEMA]
    config = SFTConfig(str(tmp_path / "out"), per_device_train_batch_size=4, max_length=None, **SHARED)
    trainer = SFTTrainer(model, config, train_dataset=found, processing_class=processor)
    batch = trainer.data_collator([dict(row) for row in found])
    is_square = [height == width for _, height, width in batch["image_grid_thw"].tolist()]
    assert is_square == [False] * 3 + [True] * 2 + [False], "those of the questions, and two that code showed"
    texts = [text_of(processor.tokenizer, ids).replace("<|endoftext|>", "") for ids in batch["input_ids"]]
    learnt = [
        processor.tokenizer.decode(ids[labels != -100])
        for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True)
    ]
    assert [text.count("<|image_pad|>") for text in texts] == [1, 1, 3, 1]
    assert all(json.dumps(TOOL_SCHEMA) in text for text in texts)
    assert learnt[0].startswith("<think>I count.</think>\n<tool_call>\n")
    assert learnt[1].endswith("</tool_call><|im_end|>\n")
    assert learnt[2:] == [
        "<think>It shows one cup.</think>\n<answer>1</answer><|im_end|>\n",
        "<answer>1</answer><|im_end|>\n",
    ]
    image = "<|vision_start|><|image_pad|><|vision_end|>"
    result = f"<tool_response>\n(90, 90)\n</tool_response><|im_end|>\n<|im_start|>user\n{image}{image}<|im_end|>\n"
    assert f"{learnt[1]}<|im_start|>user\n{result}<|im_start|>assistant\n{learnt[2]}" in texts[2]
    assert trainer.train().training_loss > 0


def test_an_environment_gets_the_row(folder: Path, tmp_path: Path) -> None:
    """GRPO with an environment in which the tool executes: what ``reset`` is given to make it anew."""
    from trl import GRPOConfig, GRPOTrainer

    given: list[dict[str, Any]] = []

    class Environment:
        def reset(self, **row: Any) -> None:
            given.append(row)

        def execute_python_code(self, code: str) -> str:
            """
            Executes Python code.

            Args:
                code: a complete script with its imports
            """
            return code

    model, processor = loaded(folder)
    found = rows(coded_run(tmp_path / "run"), "trl", "rl", tmp_path, turns="tools")
    config = GRPOConfig(
        str(tmp_path / "out"), per_device_train_batch_size=2, num_generations=2, max_completion_length=8, **SHARED
    )
    environment: Any = Environment
    trainer = GRPOTrainer(
        model,
        lambda completions, **_: [0.0] * len(completions),
        config,
        train_dataset=found,
        processing_class=with_tools(processor, qwen_template()),
        environment_factory=environment,
    )
    trainer.train()
    assert len(given) == 2
    assert read_reference(given[0]["groundtrace"]).id == "asked"
    assert json.loads(given[0]["sandbox"]) == {"call_timeout_s": 15.0}
    assert len(given[0]["images"]) == 1


def test_trl_gives_no_image_to_a_turn_of_a_tool() -> None:
    """Why images stand in a turn of the user behind the result; once this fails, they may stay in it."""
    from trl.data_utils import prepare_multimodal_messages

    user = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "q"}]}
    called = {"role": "assistant", "content": [{"type": "text", "text": "a"}]}
    result = {"role": "tool", "content": [{"type": "image"}]}
    with pytest.raises(ValueError, match="does not match number of image placeholders"):
        prepare_multimodal_messages([user, called, result], ["first", "second"])


def run_script(script: str, form: str, name: str, folder: Path, run: Path, tmp_path: Path, **variables: str) -> None:
    """A script of the example on an export, where our packages cannot be imported."""
    exported(run, form, tmp_path / "export")
    words = ["--data", tmp_path / f"export/{name}.parquet", "--output", tmp_path / "out", "--model", folder, "--cpu"]
    folders = [path for path in sys.path if Path(path).name == "site-packages"]
    start = (
        "import importlib.util, runpy, sys; sys.path += sys.argv.pop(1).split(':'); sys.argv.pop(0)\n"
        "assert importlib.util.find_spec('groundtrace') is None\n"
        "sys.path.insert(0, sys.argv[0].rpartition('/')[0]); runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    path = ROOT / f"examples/trl/{script}.py"
    command = [sys.executable, "-I", "-S", "-c", start, ":".join(folders), path, *words, "--steps", "1"]
    home = {"HF_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    subprocess.run([str(word) for word in command], check=True, env=os.environ | home | variables, cwd=tmp_path)
    assert (tmp_path / "out/model.safetensors").is_file()


@pytest.mark.parametrize(("script", "form", "name"), [("sft", "trl", "sft"), ("dpo", "dpo", "dpo")])
def test_the_scripts_of_the_example(
    script: str, form: str, name: str, folder: Path, sample_run: Path, tmp_path: Path
) -> None:
    run_script(script, form, name, folder, sample_run, tmp_path)


def test_the_script_of_grpo_asks_a_server(folder: Path, sample_run: Path, tmp_path: Path) -> None:
    port = free_port()
    server = Server(reward_config(tmp_path), sample_run, port)
    try:
        url = f"http://127.0.0.1:{port}"
        run_script("grpo", "trl", "rl", folder, sample_run, tmp_path, GROUNDTRACE_REWARD_URL=url)
        with urllib.request.urlopen(f"{url}/health") as answer:
            assert json.load(answer)["scored"] == 8
    finally:
        server.kill()


def test_a_mark_in_a_plain_text_would_double_the_image(folder: Path, sample_run: Path) -> None:
    """Why the native shards do not serve TRL unchanged; once this fails, they may."""
    from trl.data_utils import prepare_multimodal_messages

    file = str(next((sample_run / "sft").glob("*.parquet")))
    native = load_dataset("parquet", data_files=file, split="train", streaming=True)
    row: Any = next(iter(native))
    [user, _] = prepare_multimodal_messages(row["messages"], row["images"])
    assert [part["type"] for part in user["content"]] == ["image", "text"]
    assert json.dumps(user["content"][1]).count("<image>") == 1
