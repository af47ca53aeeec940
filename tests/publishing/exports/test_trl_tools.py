"""Our environment in TRL's own GRPO loop: scripted turns, code that really runs, and a step."""

import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset, load_dataset
from transformers import AutoModelForImageTextToText, AutoProcessor

from groundtrace.grading.responses.turns import TOOL_SCHEMA, call_of
from groundtrace.publishing.tools.trl import CodeEnvironment
from groundtrace.sandbox import SandboxLost
from groundtrace.sandbox.session import Session
from groundtrace.trainer.tiny_model import make_tiny_model
from tests.publishing.exports.chat_template import with_tools
from tests.publishing.exports.made_runs import coded_run, exported

pytestmark = pytest.mark.trl

CODES = ("x = input_image.width", "x += 1\n1/0", "display(input_image.crop((0, 0, 64, 64)))\nprint(x)")


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


def turns(*codes: str) -> list[str]:
    return [f"<think>I look.</think>\n<tool_call>\n{call_of(code)}\n</tool_call><|im_end|>" for code in codes]


class Rolled:
    """One step of TRL's trainer, in which each response says these turns, and an answer of its own at the end."""

    def __init__(self, folder: Path, data: Dataset, says: Sequence[str], output: Path) -> None:
        from trl import GRPOConfig, GRPOTrainer

        auto: Any = AutoModelForImageTextToText
        model = auto.from_pretrained(folder, dtype=torch.float32)
        template = (files("trl") / "chat_templates/qwen3_vl.jinja").read_text("utf-8")
        self.processor = with_tools(AutoProcessor.from_pretrained(folder), template)
        self.said = [[self._ids(turn) for turn in (*says, f"<answer>{answer}</answer><|im_end|>")] for answer in "12"]
        self.prompts: list[list[list[int]]] = []
        self.looped: Any = None
        self.rewarded: dict[str, Any] = {}
        config = GRPOConfig(
            str(output),
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=3000,
            gradient_checkpointing=False,
            max_steps=1,
            use_cpu=True,
            bf16=False,
            report_to=[],
            save_strategy="no",
        )
        environment: Any = CodeEnvironment
        self.trainer = GRPOTrainer(
            model, self._reward, config, train_dataset=data, processing_class=self.processor,
            environment_factory=environment,
        )  # fmt: skip
        loop = self.trainer._tool_call_loop
        self.trainer._generate_single_turn = self._generate
        self.trainer._tool_call_loop = lambda *given: self._keep(loop(*given))
        before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        self.trainer.train()
        self.has_learnt = any(not torch.equal(before[name], weight) for name, weight in model.named_parameters())

    def _ids(self, text: str) -> list[int]:
        return self.processor.tokenizer(text, add_special_tokens=False).input_ids

    def _generate(self, prompt_ids: Any, *_: Any, **__: Any) -> Any:
        self.prompts.append([list(ids) for ids in prompt_ids])
        return [list(said[len(self.prompts) - 1]) for said in self.said], None

    def _keep(self, looped: Any) -> Any:
        self.looped = looped
        return looped

    def _reward(self, completions: Any, environments: Any, **columns: Any) -> list[float]:
        self.rewarded = {"completions": completions, "environments": environments, **columns}
        return [float(number) for number in range(len(completions))]


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    exported(coded_run(tmp_path / "run"), "trl", tmp_path / "export", turns="tools")
    file = str(tmp_path / "export/rl.parquet")
    return load_dataset("parquet", data_files=file, split="train", cache_dir=str(tmp_path / "cache"))


@pytest.fixture
def rolled(folder: Path, data: Dataset, tmp_path: Path) -> Rolled:
    return Rolled(folder, data, turns(*CODES), tmp_path / "out")


def test_each_call_is_executed(rolled: Rolled) -> None:
    """State goes from call to call, a failed call leaves nothing, and images come back."""
    for completion in rolled.rewarded["completions"]:
        results = [turn["content"] for turn in completion if turn["role"] == "tool"]
        texts = ["".join(part.get("text", "") for part in result) for result in results]
        assert texts[0] == "[the code printed nothing and showed no image]"
        assert "ZeroDivisionError" in texts[1]
        assert texts[2] == "200"
        shown = [part["image"].size for result in results for part in result if part["type"] == "image"]
        assert shown == [(64, 64)]
    assert [each.statuses for each in rolled.rewarded["environments"]] == [("silent", "error", "ok")] * 2
    log = next(line for line in rolled.trainer.state.log_history if "tools/failure_frequency" in line)
    assert (log["tools/call_frequency"], log["tools/failure_frequency"]) == (3.0, 0.0)
    assert rolled.has_learnt


def test_the_policys_tokens_are_sent_back_and_trained_on(rolled: Rolled) -> None:
    mask, _, completions, *_ = rolled.looped
    for ids, counts, said in zip(completions, mask, rolled.said, strict=True):
        assert [token for token, is_ours in zip(ids, counts, strict=True) if is_ours] == [*chain.from_iterable(said)]
    for number, (before, after) in enumerate(pairwise(rolled.prompts)):
        for prompt, said, following in zip(before, rolled.said, after, strict=True):
            assert following[: len(prompt) + len(said[number])] == [*prompt, *said[number]]


def test_the_prompt_has_the_schema_of_the_rows(rolled: Rolled) -> None:
    text = rolled.processor.tokenizer.decode(rolled.prompts[0][0])
    assert json.dumps(TOOL_SCHEMA) in text


def test_a_reward_learns_of_a_lost_sandbox(
    folder: Path, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(self: Session, code: str) -> Any:
        raise SandboxLost("the state of this trajectory is gone")

    monkeypatch.setattr(Session, "run", lost)
    rolled = Rolled(folder, data, turns(CODES[0]), tmp_path / "out")
    assert [each.lost for each in rolled.rewarded["environments"]] == ["the state of this trajectory is gone"] * 2
