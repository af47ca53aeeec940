"""Exports in verl's own data sets and reward manager."""

from pathlib import Path
from typing import Any

import pytest

from groundtrace.publishing.rewards.reference import read_reference
from tests.publishing.exports.loaders.conftest import Export
from tests.publishing.exports.made_runs import CLIP, FRAMES, exported, make_run, picture, rl

pytestmark = pytest.mark.loaders


def rl_rows(folder: Path, processor: Any, cache: Path) -> Any:
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset

    config = {"max_prompt_length": 1024, "filter_overlong_prompts_workers": None, "cache_dir": str(cache)}
    file = str(folder / "rl.parquet")
    return RLHFDataset([file], processor.tokenizer, OmegaConf.create(config), processor=processor)


def test_rlhf_dataset(export: Export, processor: Any, sample_run: Path, tmp_path: Path) -> None:
    rows = rl_rows(export("verl"), processor, tmp_path)
    assert len(rows) > 5  # none is too long for it
    for number in range(len(rows)):
        row = rows[number]
        [turn] = row["raw_prompt"]
        assert [part["type"] for part in turn["content"]] == ["image", "text"]
        assert turn["content"][0]["image"].size == (400, 100)
        reference = read_reference(row["reward_model"]["ground_truth"])
        assert (reference.id, reference.run) == (row["index"], str(sample_run))
        assert row["extra_info"]["groundtrace"] == row["reward_model"]["ground_truth"]


def test_frames_of_a_clip(processor: Any, tmp_path: Path) -> None:
    shown = (picture(seed=1), picture(seed=2))
    run = make_run(tmp_path / "run", rl=[rl("clip", images=shown, asked=CLIP, frames=FRAMES), rl("still")])
    exported(run, "verl", tmp_path / "out")
    found = rl_rows(tmp_path / "out", processor, tmp_path / "cache")
    assert len(found) == 2
    kinds = {row["index"]: [part["type"] for part in row["raw_prompt"][0]["content"]] for row in found}
    assert kinds == {"clip": ["text", "image", "text", "image", "text"], "still": ["image", "text"]}


def test_reward_manager(export: Export, processor: Any, tmp_path: Path) -> None:
    import torch
    from verl import DataProto
    from verl.utils.dataset.rl_dataset import collate_fn
    from verl.workers.reward_manager.naive import NaiveRewardManager

    rows = rl_rows(export("verl"), processor, tmp_path)
    data = DataProto.from_single_dict(collate_fn([rows[0], rows[1]]))
    data.batch["prompts"] = torch.ones(2, 4, dtype=torch.long)
    data.batch["responses"] = torch.full((2, 3), 5, dtype=torch.long)
    data.batch["attention_mask"] = torch.ones(2, 7, dtype=torch.long)
    seen = []

    def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: dict) -> dict[str, float]:
        seen.append((data_source, read_reference(ground_truth).id, extra_info["index"]))
        return {"score": 0.5}

    found = NaiveRewardManager(processor.tokenizer, 0, compute_score)(data, return_dict=True)
    assert found["reward_tensor"][:, -1].tolist() == [0.5, 0.5]
    assert seen == [("lil-lab/nlvr", rows[n]["index"], rows[n]["index"]) for n in range(2)]


def test_sft_dataset(export: Export, processor: Any) -> None:
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    config = {"max_length": 1024, "ignore_input_ids_mismatch": True}
    rows = MultiTurnSFTDataset(str(export("verl") / "sft.parquet"), processor.tokenizer, config, processor=processor)
    assert len(rows) > 20
    row = rows[0]
    learnt = processor.tokenizer.decode(row["input_ids"][row["loss_mask"].bool()])
    assert "<answer>" in learnt
    assert "How many" not in learnt
    assert row["multi_modal_inputs"]["image_grid_thw"].tolist() == [[1, 2, 16]]
