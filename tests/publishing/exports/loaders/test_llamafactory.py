"""Exports in LLaMA-Factory's own loader."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.publishing.exports.loaders.conftest import Export

pytestmark = pytest.mark.loaders


def test_sft_rows(export: Export, processor: Any, tmp_path: Path) -> None:
    from llamafactory.data.loader import _get_merged_dataset
    from llamafactory.data.mm_plugin import get_mm_plugin
    from llamafactory.hparams import DataArguments

    arguments = DataArguments(dataset_dir=str(export("llamafactory")), dataset="groundtrace", template="qwen3_vl")
    arguments.media_dir = arguments.media_dir or arguments.dataset_dir  # as its parser does
    of_model = SimpleNamespace(cache_dir=str(tmp_path), hf_hub_token=None)
    of_training = SimpleNamespace(local_process_index=0, seed=0)
    rows: Any = _get_merged_dataset(["groundtrace"], of_model, arguments, of_training, "sft")
    assert len(rows) > 20
    row = rows[0]
    assert [turn["role"] for turn in row["_prompt"] + row["_response"]] == ["user", "assistant"]
    assert all(Path(image).is_file() for image in row["_images"])
    processor.image_max_pixels, processor.image_min_pixels = 768 * 768, 32 * 32  # as its model loader sets them
    plugin = get_mm_plugin("qwen3_vl", image_token="<|image_pad|>", video_token="<|video_pad|>")
    turns = plugin.process_messages(row["_prompt"] + row["_response"], row["_images"], [], [], processor)
    assert "<image>" not in turns[0]["content"]
    assert turns[0]["content"].count("<|image_pad|>") > 1
    assert turns[1] == row["_response"][0]
