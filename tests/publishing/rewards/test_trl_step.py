"""A GRPO step of TRL itself with the verifier as its reward: on a tiny Qwen3-VL, with pictures and fixed answers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from groundtrace.publishing.rewards.reference import COLUMN
from groundtrace.rewards.trl import reward_funcs
from groundtrace.vision.decode import decode_image

from ...vllm import tiny_qwen3vl
from .worlds import Written

pytestmark = pytest.mark.trl
GROUP = 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_qwen3vl.write_model(tmp_path / "model")
    return tmp_path / "model"


def test_a_step_with_our_reward(write: Callable[..., Written], folder: Path, tmp_path: Path) -> None:
    """TRL's log has the mean of our own trainer's scores and of the verdicts, and the step has a gradient."""
    from trl import GRPOConfig, GRPOTrainer

    found = write("argos")
    [expected] = found.by_trainer(tmp_path / "own")
    asked, said = found.prompts[:2], [texts[:GROUP] for texts in found.said[:2]]
    wanted = [scored.reward for group in range(2) for scored in expected[6 * group : 6 * group + GROUP]]
    pictures = [Image.fromarray(decode_image(row.images[0][0]).pixels) for row in asked]
    rows = {
        "prompt": [[{"role": "user", "content": row.question.question}] for row in asked],
        "image": pictures,
        COLUMN: [reference.text() for reference in found.references[:2]],
    }
    auto: Any = AutoModelForImageTextToText
    processor = AutoProcessor.from_pretrained(folder, padding_side="left")
    config = GRPOConfig(
        output_dir=str(tmp_path / "out"),
        max_steps=1,
        num_generations=GROUP,
        per_device_train_batch_size=2 * GROUP,
        max_completion_length=256,
        shuffle_dataset=False,
        logging_steps=1,
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
    )
    trainer = GRPOTrainer(
        auto.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager"),
        reward_funcs=reward_funcs(str(found.config)),
        args=config,
        train_dataset=Dataset.from_dict(rows),
        processing_class=processor,
    )

    def generate(prompts: list[Any]) -> tuple[Any, ...]:
        answers = [text for group in said for text in group]
        assert len(prompts) == len(answers)
        encoded = [
            processor.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=True)
            for prompt in prompts
        ]
        flat = [
            each["input_ids"][0] if isinstance(each["input_ids"][0], list) else each["input_ids"] for each in encoded
        ]
        ids = [processor.tokenizer(text, add_special_tokens=False).input_ids[:255] for text in answers]
        ended = [[*each, processor.tokenizer.eos_token_id] for each in ids]
        texts = [[{"role": "assistant", "content": text}] for text in answers]
        return flat, ended, None, texts, None, {}, None, None

    trainer._generate = generate
    trainer.train()
    [log] = [line for line in trainer.state.log_history if "reward" in line]
    assert None not in wanted
    assert log["reward"] == pytest.approx(sum(filter(None, wanted)) / len(wanted), rel=1e-5)
    assert log["reward_std"] > 0
    assert log["grad_norm"] > 0
    assert log[f"{COLUMN}/outcome"] == 1.0
