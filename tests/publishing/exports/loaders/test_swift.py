"""Exports in ms-swift's own loader and template."""

from pathlib import Path

import pytest

from groundtrace.publishing.rewards.reference import read_reference
from tests.publishing.exports.loaders.conftest import Export

pytestmark = pytest.mark.loaders


def test_sft_rows_are_encoded(export: Export, model_folder: Path) -> None:
    from swift.dataset import load_dataset
    from swift.model import get_processor
    from swift.template import get_template

    file = str(export("swift") / "sft.parquet")
    rows, _ = load_dataset([file], strict=True)
    assert len(rows) > 20
    kept, _ = load_dataset([file], strict=True, remove_unused_columns=False)
    assert [row["messages"] for row in kept] == [row["messages"] for row in rows]
    assert len(set(kept["id"])) == len(kept), "a row can be found by its id"
    template = get_template(get_processor(str(model_folder), model_type="qwen3_vl"))
    template.set_mode("train")
    encoded = template.encode(dict(rows[0]))
    assert encoded["image_grid_thw"].shape == (1, 3)
    learnt = [token for token, label in zip(encoded["input_ids"], encoded["labels"], strict=True) if label != -100]
    said = template.tokenizer.decode(learnt)
    assert said.startswith("<think>")
    assert "<image>" not in template.tokenizer.decode(encoded["input_ids"])


def test_rl_rows_keep_their_reference(export: Export, sample_run: Path) -> None:
    from swift.dataset import load_dataset

    rows, _ = load_dataset([str(export("swift") / "rl.parquet")], strict=True, remove_unused_columns=False)
    assert len(rows) > 5
    for row in rows:
        assert [turn["role"] for turn in row["messages"]] == ["user"]
        assert row["messages"][0]["content"].count("<image>") == len(row["images"]) == 1
        reference = read_reference(row["groundtrace"])
        assert (reference.run, reference.answer) == (str(sample_run), row["solution"])
