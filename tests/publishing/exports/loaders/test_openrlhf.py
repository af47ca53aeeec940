"""Exports in OpenRLHF's own data set."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from groundtrace.publishing.rewards.reference import read_reference
from tests.publishing.exports.loaders.conftest import Export

pytestmark = pytest.mark.loaders


def test_prompts(export: Export, processor: Any, sample_run: Path) -> None:
    from openrlhf.datasets.prompts_dataset import PromptDataset
    from openrlhf.datasets.utils import blending_datasets
    from openrlhf.utils.vlm_utils import process_prompt_with_images

    keys = SimpleNamespace(input_key="input", label_key="label", image_key="images", apply_chat_template=True)
    strategy = SimpleNamespace(
        args=SimpleNamespace(data=keys, use_ms=False), is_rank_0=lambda: False, print=lambda *_: None
    )
    rows = PromptDataset(blending_datasets(str(export("openrlhf") / "rl.jsonl"), None, strategy), processor, strategy)
    assert len(rows) > 5
    for number in range(len(rows)):
        source, prompt, label, images = rows[number]
        assert source == "lil-lab/nlvr"
        assert prompt.count("<|image_pad|>") == len(images) == 1
        assert "<image>" not in prompt
        assert read_reference(label).run == str(sample_run)
        _, inputs, _ = process_prompt_with_images(processor, prompt, images)
        assert inputs is not None
        assert len(inputs["image_grid_thw"]) == 1
