"""GRPO steps of iVGR in TRL itself, on the export of a run of dual_stream: both streams, each under its own rule."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset, load_dataset
from transformers import AutoModelForImageTextToText, AutoProcessor

from groundtrace.publishing.rewards import plugin
from groundtrace.publishing.rewards.reference import BadReference, read_reference
from groundtrace.publishing.rewards.settings import SpeechSettings
from groundtrace.rewards.trl import reward_funcs
from groundtrace.schemas.geometry import Box
from groundtrace.trainer.tiny_model import make_tiny_model
from tests.publishing.exports.made_runs import ROOT, exported
from tests.trainer.runs import Judge, judging

pytestmark = pytest.mark.trl
GROUP = 2
SHARED = {"max_steps": 1, "use_cpu": True, "bf16": False, "report_to": [], "save_strategy": "no", "seed": 0}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the bundled sample, with questions of both streams and of one, by a teacher that sees badly."""
    from groundtrace.pipelines.commands import cli

    folder = tmp_path_factory.mktemp("dual") / "run"
    words = ["run", "dual_stream", "--input", str(ROOT / "data/sample"), "--output", str(folder)]
    settings = ["write.other_traces=true", "difficulty.high=1", "roles.teacher=coarse"]
    assert cli.main([*words, *(word for each in settings for word in ("--set", each))]) == 0
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    make_tiny_model(path, ["I find squares. There are 3 yellow squares."], seed=0)
    return path


@pytest.fixture
def judge() -> Iterator[Judge]:
    with judging((200, json.dumps({"reason": "the same", "verdict": "identical"}))) as found:
        yield found


@pytest.fixture
def config(judge: Judge, tmp_path: Path) -> Iterator[Path]:
    """The reward's config, with a judge that finds every two texts alike."""
    path = tmp_path / "reward.toml"
    path.write_text(
        f"folder = {json.dumps(str(tmp_path / 'kept'))}\n"
        '[reward]\nrecipe = "ivgr"\n'
        f'[reward.endpoints.judge]\nkind = "openai"\nmodel = "judge"\nbase_url = "{judge.base_url}"\n'
        '[reward.roles]\njudge = "judge"\n',
        "utf-8",
    )
    yield path
    plugin.close_rewards()


@pytest.fixture
def rows(run: Path, tmp_path: Path) -> Dataset:
    """The rows of the export as TRL reads them."""
    exported(run, "trl", tmp_path / "export")
    file = str(tmp_path / "export/rl.parquet")
    return load_dataset("parquet", data_files=file, split="train", cache_dir=str(tmp_path / "cache"))


class Seen:
    """The reward of ours, which keeps what each row earned."""

    __name__ = "verified"

    def __init__(self, config: Path) -> None:
        [self._verified] = reward_funcs(str(config))
        self.earned: list[tuple[str, str, float | None]] = []

    def __call__(self, completions: Sequence[Any], groundtrace: Sequence[str], **columns: Any) -> list[float | None]:
        found = self._verified(completions, groundtrace=groundtrace, **columns)
        assert [read_reference(text).stream for text in groundtrace] == columns["stream"]
        self.earned += zip(columns["id"], columns["stream"], found, strict=True)
        return found

    def of(self, stream: str) -> list[float | None]:
        """What the responses of a stream earned, in their order."""
        return [reward for _, each, reward in self.earned if each == stream]


def trainer_of(folder: Path, funcs: list[Any], rows: Dataset, tmp_path: Path, **options: Any) -> Any:
    from trl import GRPOConfig, GRPOTrainer

    auto: Any = AutoModelForImageTextToText
    given: dict[str, Any] = {"per_device_train_batch_size": 4 * GROUP, "shuffle_dataset": False, "logging_steps": 1}
    config = GRPOConfig(
        str(tmp_path / "out"),
        num_generations=GROUP,
        max_completion_length=8,
        gradient_checkpointing=False,
        learning_rate=1e-3,
        **(given | SHARED | options),
    )
    model = auto.from_pretrained(folder, dtype=torch.float32)
    processor = AutoProcessor.from_pretrained(folder)
    return GRPOTrainer(model, funcs, config, train_dataset=rows, processing_class=processor)


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def answer_with(trainer: Any, answers: Sequence[str]) -> None:
    """Have TRL take these for what the model wrote, one for each prompt of the step."""
    processor = trainer.processing_class

    def generate(prompts: list[Any]) -> tuple[Any, ...]:
        assert len(prompts) == len(answers)
        options = {"add_generation_prompt": True, "tokenize": True, "return_dict": True}
        encoded = [processor.apply_chat_template(prompt, **options)["input_ids"] for prompt in prompts]
        asked = [ids[0] if isinstance(ids[0], list) else ids for ids in encoded]
        said = [processor.tokenizer(text, add_special_tokens=False).input_ids for text in answers]
        ended = [[*ids, processor.tokenizer.eos_token_id] for ids in said]
        texts = [[{"role": "assistant", "content": text}] for text in answers]
        return asked, ended, None, texts, None, {}, None, None

    trainer._generate = generate


def test_the_rows_of_a_run(rows: Dataset, run: Path) -> None:
    """Both streams of each question stand side by side, and so do two questions that are asked in words alone."""
    asked = list(zip(rows["id"], rows["stream"], strict=True))
    shards = [row for file in (run / "rl").glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    several = {row["id"] for row in shards if len(row["streams"]) == 2}
    alone = {row["id"] for row in shards} - several
    assert len(alone) > 1
    assert len(asked) == 2 * len(several) + len(alone)
    for before, after in zip(asked[::2], asked[1::2], strict=False):
        if before[0] in several:
            assert (before, after) == ((before[0], "grounded"), (before[0], "textual"))
        else:
            assert {before[0], after[0]} <= alone
    for stream, prompt in zip(rows["stream"], rows["prompt"], strict=True):
        [words] = [part["text"] for part in prompt[0]["content"] if part["type"] == "text"]
        assert ("<box alt=" in words) is (stream == "grounded")
        assert ("without coordinates" in words) is (stream == "textual")


def test_traces_keep_the_prompt_of_their_stream(run: Path, tmp_path: Path) -> None:
    """Those to imitate, and those that are compared with a worse one."""
    exported(run, "trl", tmp_path / "trl")
    exported(run, "dpo", tmp_path / "dpo")
    forms = set()
    for file, said in (("trl/sft.parquet", ("completion",)), ("dpo/dpo.parquet", ("chosen", "rejected"))):
        for row in pq.read_table(tmp_path / file).to_pylist():
            asks_for_boxes = "<box alt=" in row["prompt"][0]["content"][-1]["text"]
            forms.add((file, asks_for_boxes))
            for column in said:
                assert asks_for_boxes or "<box" not in row[column][0]["content"][0]["text"]
    assert {asks for file, asks in forms if file.startswith("trl")} == {True, False}


def test_a_step_on_what_the_model_writes(folder: Path, rows: Dataset, config: Path, tmp_path: Path) -> None:
    """A model that was taught nothing: each stream is scored, and nobody is paid."""

    def drawn(completions: list, **_: Any) -> list[float]:
        """Beside the verifier, so that there is something to learn."""
        return [float(number % 2) for number in range(len(completions))]

    seen = Seen(config)
    trainer = trainer_of(folder, [seen, drawn], rows, tmp_path)
    before = weights(trainer.model)
    trainer.train()
    assert [len(seen.of(stream)) for stream in ("grounded", "textual")] == [2 * GROUP, 2 * GROUP]
    assert {reward for _, _, reward in seen.earned} == {0.0}
    [log] = [line for line in trainer.state.log_history if "reward" in line]
    assert (log["rewards/verified/mean"], log["groundtrace/boxes"], log["groundtrace/consistency"]) == (0, 0, 0)
    assert any(not torch.equal(before[name], weight) for name, weight in trainer.model.named_parameters())


def answers_to(run: Path, rows: Dataset, count: int) -> list[str]:
    """For the first rows a right answer and a wrong one, in the form of their stream and as a Qwen3-VL writes boxes."""
    shards = [row for file in (run / "rl").glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    known = {row["id"]: row for row in shards}
    speech = SpeechSettings().speech_of("qwen3-vl")
    found = []
    for place in range(count):
        row, stream = known[rows[place]["id"]], rows[place]["stream"]
        boxes = [Box(**box) for box in row["gold_boxes"]]
        tags = ", ".join(f'<box alt="{box.label}">[{box.x1:g},{box.y1:g},{box.x2:g},{box.y2:g}]</box>' for box in boxes)
        seen = tags if stream == "grounded" else "what is asked for"
        for answer in (row["answer"], "no idea"):
            said = f"<think>I see {seen}.</think><answer>{answer}</answer>"
            found.append(speech.to_model(said, [rows[place]["images"][0].size]))
    return found


def test_a_step_on_answers_of_both_streams(
    folder: Path, rows: Dataset, run: Path, config: Path, judge: Judge, tmp_path: Path
) -> None:
    """Eq. 1 to 3: form, answer and boxes, or form, answer and what the judge says of the best grounded reasoning."""
    assert rows["stream"][:4] == ["grounded", "textual"] * 2
    seen = Seen(config)
    trainer = trainer_of(folder, [seen], rows, tmp_path)
    answer_with(trainer, answers_to(run, rows, 4))
    before = weights(trainer.model)
    trainer.train()
    assert seen.of("grounded") == pytest.approx([3.0, 2.0] * 2, abs=0.05)  # coordinates are rounded to thousandths
    assert seen.of("textual") == pytest.approx([3.0, 2.0] * 2, abs=1e-9)
    assert judge.bodies
    kept = plugin.reward_of(str(config))._reward.memory.references
    assert set(kept) == set(rows["id"][:4]), "the best grounded reasoning of each question is kept (Eq. 4)"
    [log] = [line for line in trainer.state.log_history if "reward" in line]
    assert log["reward_std"] > 0
    assert log["grad_norm"] > 0
    assert any(not torch.equal(before[name], weight) for name, weight in trainer.model.named_parameters())


@pytest.mark.parametrize("options", [{"shuffle_dataset": True}, {"per_device_train_batch_size": 3 * GROUP}])
def test_a_step_without_whole_questions_is_refused(
    options: dict[str, Any], folder: Path, rows: Dataset, config: Path, tmp_path: Path
) -> None:
    seen = Seen(config)
    trainer = trainer_of(folder, [seen], rows, tmp_path, **options)
    with pytest.raises(BadReference, match=r"has no response to its prompt .*: keep the order of the exported rows"):
        trainer.train()
    assert seen.earned == []


def test_the_script_of_the_example(folder: Path, rows: Dataset, config: Path, tmp_path: Path) -> None:
    words = ["--data", tmp_path / "export/rl.parquet", "--output", tmp_path / "trained", "--model", folder]
    words += ["--reward", config, "--steps", "1", "--cpu"]
    home = {"PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, ROOT / "examples/trl/grpo.py", *words]
    subprocess.run([str(word) for word in command], check=True, env=os.environ | home)
    assert (tmp_path / "trained/model.safetensors").is_file()
