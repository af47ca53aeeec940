"""Trajectories as tool calls in the data sets and templates of verl, ms-swift and LLaMA-Factory.

In all three a row renders as the same turns, and the loss is on the assistant's turns alone.
"""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from groundtrace.grading.responses.turns import TOOL, TOOL_SCHEMA
from groundtrace.publishing.rewards.reference import read_reference
from tests.publishing.exports.chat_template import text_of
from tests.publishing.exports.loaders.conftest import Export

pytestmark = pytest.mark.loaders

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
CALLS = [
    '<think>I count.</think>\n<tool_call>\n{"name": "execute_python_code", "arguments": '
    '{"code": "print(count(input_image))"}}\n</tool_call><|im_end|>\n',
    '<think>I look at <points x1="500" y1="500" alt="cup">cup</points>.</think>\n<tool_call>\n'
    '{"name": "execute_python_code", "arguments": {"code": "left = input_image.crop((0, 0, 90, 90))\\n'
    'print(left.size)\\ndisplay(left)\\ndisplay(left.rotate(9))"}}\n</tool_call><|im_end|>\n',
    "<think>It shows one cup.</think>\n<answer>1</answer><|im_end|>\n",
]
RESULTS = [
    f"<|im_start|>user\n<tool_response>\n{text}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    for text in ("NameError: name 'count' is not defined", f"(90, 90)\n{IMAGE}{IMAGE}")
]
SPOKEN = f"{CALLS[0]}{RESULTS[0]}{CALLS[1]}{RESULTS[1]}{CALLS[2]}"


def check(tokenizer: Any, ids: Any, learnt: Any) -> None:
    """The rendering of the trajectory, and of its tokens those with a loss."""
    text = text_of(tokenizer, ids)
    assert text.endswith(SPOKEN)
    assert text.count("<|image_pad|>") == 3
    assert text.startswith("<|im_start|>system\n")
    assert json.dumps(TOOL_SCHEMA) in text
    assert "call the tool execute_python_code" in text
    assert text_of(tokenizer, learnt) == "".join(CALLS)


def test_verl_sft(called: Export, tool_processor: Any) -> None:
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    file, tokenizer = str(called("verl") / "sft.parquet"), tool_processor.tokenizer
    rows = MultiTurnSFTDataset(file, tokenizer, {"max_length": 4096}, processor=tool_processor)
    row = rows[0]
    check(tokenizer, row["input_ids"][row["attention_mask"].bool()], row["input_ids"][row["loss_mask"].bool()])
    sizes = row["multi_modal_inputs"]["image_grid_thw"].tolist()
    assert [height == width for _, height, width in sizes] == [False, True, True], "the question's image is first"
    assert tokenizer.decode(rows[1]["input_ids"][rows[1]["loss_mask"].bool()]) == "<answer>1</answer><|im_end|>\n"


def test_verl_rl(called: Export, tool_processor: Any, tmp_path: Path) -> None:
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    config = {"max_prompt_length": 1024, "filter_overlong_prompts_workers": None, "cache_dir": str(tmp_path)}
    file, tokenizer = str(called("verl") / "rl.parquet"), tool_processor.tokenizer
    row = collate_fn([RLHFDataset([file], tokenizer, OmegaConf.create(config), processor=tool_processor)[0]])
    assert row["agent_name"].tolist() == ["tool_agent"]
    [of_tools] = row["tools_kwargs"]
    arguments = of_tools[TOOL]["create_kwargs"]
    assert read_reference(arguments["groundtrace"]).run == str(tmp_path / "run")
    assert json.loads(arguments["sandbox"]) == {"call_timeout_s": 15.0}


def test_swift(called: Export, model_folder: Path) -> None:
    from swift.dataset import load_dataset
    from swift.model import get_processor
    from swift.template import get_template

    rows, _ = load_dataset([str(called("swift") / "sft.parquet")], strict=True)
    assert len(rows) == 2
    template = get_template(get_processor(str(model_folder), model_type="qwen3_vl"))
    template.set_mode("train")
    encoded = template.encode(dict(rows[0]))
    pairs = zip(encoded["input_ids"], encoded["labels"], strict=True)
    check(template.tokenizer, encoded["input_ids"], [token for token, label in pairs if label != -100])
    assert len(encoded["image_grid_thw"]) == 3
    rl, _ = load_dataset([str(called("swift") / "rl.parquet")], strict=True, remove_unused_columns=False)
    assert (rl[0]["tools"], json.loads(rl[0]["sandbox"])) == ([TOOL_SCHEMA], {"call_timeout_s": 15.0})


def test_llamafactory(called: Export, tool_processor: Any, tmp_path: Path) -> None:
    from llamafactory.data.loader import _get_merged_dataset
    from llamafactory.data.processor.supervised import SupervisedDatasetProcessor
    from llamafactory.data.template import TEMPLATES
    from llamafactory.hparams import DataArguments

    folder = str(called("llamafactory"))
    arguments = DataArguments(dataset_dir=folder, dataset="groundtrace", template="qwen3_vl", cutoff_len=9000)
    arguments.media_dir = folder  # as its parser does
    of_model, of_training = SimpleNamespace(cache_dir=str(tmp_path), hf_hub_token=None), SimpleNamespace()
    of_training.local_process_index = of_training.seed = 0
    rows: Any = _get_merged_dataset(["groundtrace"], of_model, arguments, of_training, "sft")
    row = rows[0]
    roles = [turn["role"] for turn in row["_prompt"] + row["_response"]]
    assert roles == ["user", "function", "observation", "function", "observation", "assistant"]
    tool_processor.image_max_pixels, tool_processor.image_min_pixels = 768 * 768, 32 * 32
    tokenizer = tool_processor.tokenizer
    encoder: Any = SupervisedDatasetProcessor(TEMPLATES["qwen3_vl"], tokenizer, tool_processor, arguments)
    parts = [row[f"_{name}"] for name in ("prompt", "response", "system", "tools", "images")]
    ids, labels = encoder._encode_data_example(*parts, [], [])
    check(tokenizer, ids, [token for token, label in zip(ids, labels, strict=True) if label != -100])
