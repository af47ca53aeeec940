"""Measures what GRPO teaches in responses of two turns: to call the right of two operations, and to read its result.

    python benchmarks/learning/two_operations.py                 # three seeds; some minutes on one core
    python benchmarks/learning/two_operations.py --seeds 0 --steps 20

A question names one of two operations ("Which number has red?"). The number is hidden: the environment returns it for
the call "ask red!", and that of the other operation for "ask blue!". The policy starts from SFT on trajectories
that read the result of their call, of which two in three call the right operation: so does the policy. GRPO with the
reward of CodeDance then has to teach which call the question needs. Its control has the advantages shuffled over the
turns of a step. All answer questions that are held out.
"""

import argparse
import hashlib
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import transformers
from transformers import Qwen3VLForConditionalGeneration

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.learning.scenes import PHRASES
from groundtrace.config.settings import build
from groundtrace.grading.responses.turns import Turn
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.rewards.trajectory import Execution, Trajectory
from groundtrace.schemas.arrow import rl_schema, sft_schema
from groundtrace.trainer.environments.base import Environment, StepResult
from groundtrace.trainer.environments.single_turn import NoSettings
from groundtrace.trainer.evaluation.evaluate import evaluate
from groundtrace.trainer.grpo import train_grpo
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.sft import train_sft
from groundtrace.trainer.tiny_model import build_config, build_processor, build_tokenizer, save_model

OPERATIONS = ("red", "blue")
LAYERS = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
VISION = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_heads": 1,
    "patch_size": 8,
    "num_position_embeddings": 64,
}
TRAIN, HELD_OUT = 96, 96
CONTEXT_TOKENS = 256


def hidden(question_id: str, operation: str) -> int:
    """Return the number that an operation of a question returns, from 0 to 9; the two numbers differ."""
    digest = hashlib.sha256(question_id.encode()).digest()
    first = digest[0] % 10
    return first if operation == OPERATIONS[0] else (first + 1 + digest[1] % 9) % 10


def asked_for(question_id: str) -> str:
    """Return the operation that a question asks for."""
    return OPERATIONS[hashlib.sha256(question_id.encode()).digest()[2] % 2]


@dataclass
class Ask(Environment):
    """Answers "ask red!" and "ask blue!" with the number of that operation; other turns end the response."""

    Settings: ClassVar[type] = NoSettings
    stops: ClassVar[tuple[str, ...]] = ("!",)
    gives_trajectory: ClassVar[bool] = True

    settings: NoSettings
    id: str = ""
    turns: list[Turn] = field(default_factory=list)

    async def reset(self, row: TrainingRow) -> StepResult:
        """Begin a response to this question."""
        self.id = row.id
        return StepResult()

    async def step(self, text: str) -> StepResult:
        """Return the operation's number, or an error for another one."""
        if not text.endswith("!"):
            self.turns.append(Turn(text))
            return StepResult(is_done=True)
        operation = text.removeprefix("ask ").rstrip("!")
        is_known = operation in OPERATIONS
        result = str(hidden(self.id, operation)) if is_known else "unknown"
        self.turns.append(Turn("", text, "ok" if is_known else "error", result))
        return StepResult(result)

    async def result(self) -> Trajectory:
        """Return how the calls ended."""
        ended = [Execution(turn.status == "ok") if turn.code else None for turn in self.turns]
        return Trajectory(tuple(ended), written=tuple(self.turns))


def question_row(question_id: str) -> dict[str, Any]:
    """Return a question as a row of either side."""
    operation = asked_for(question_id)
    text = f"Which number has {operation}?"
    named = {"source": "two_operations", "license": "CC0-1.0", "images": [], "answer_type": "numeric"}
    return named | {
        "id": question_id,
        "question": text,
        "answer": str(hidden(question_id, operation)),
        "prompt": [{"role": "user", "content": text}],
    }


def trajectory_row(question_id: str, operation: str) -> dict[str, Any]:
    """Return a question with a trajectory that calls ``operation`` and reads its result."""
    row = question_row(question_id)
    number = hidden(question_id, operation)
    turns = (("assistant", f"ask {operation}!"), ("user", str(number)), ("assistant", f"<answer>{number}</answer>"))
    return row | {"messages": [*row["prompt"], *({"role": role, "content": text} for role, text in turns)]}


def write_data(folder: Path) -> None:
    """Write the SFT rows, the RL rows and the held-out questions."""
    ids = [f"q{number}" for number in range(TRAIN)]
    sft = [trajectory_row(id, operation) for id in ids for operation in (*OPERATIONS, asked_for(id))]
    sides = (
        ("data/sft", sft, sft_schema(())),
        ("data/rl", [question_row(id) for id in ids], rl_schema(())),
        ("held/rl", [question_row(f"held{number}") for number in range(HELD_OUT)], rl_schema(())),
    )
    for name, rows, schema in sides:
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, schema), folder / name / "train-00000.parquet")


def texts_of(rows: int) -> Iterator[str]:
    """Yield what the model reads and writes, for its tokenizer."""
    for number in range(rows):
        for operation in OPERATIONS:
            turns = trajectory_row(f"q{number}", operation)["messages"]
            yield "".join(f"{turn['role']}\n{turn['content']}\n" for turn in turns)


def write_model(folder: Path, seed: int) -> None:
    """Write a model of random weights."""
    tokenizer = build_tokenizer(texts_of(TRAIN), PHRASES)
    torch.manual_seed(seed)
    config = build_config(tokenizer, CONTEXT_TOKENS, LAYERS | {"tie_word_embeddings": True}, VISION)
    save_model(folder, Qwen3VLForConditionalGeneration(config).float(), build_processor(tokenizer, 8, 64**2))


def settings_of(model: Path, seed: int, steps: int, lr: float, **grpo: Any) -> TrainerSettings:
    """Return the settings of all trainings and evaluations."""
    return build(
        TrainerSettings,
        {
            "seed": seed,
            "threads": 1,
            "max_idle_steps": 0,
            "model": {"path": str(model), "dtype": "float32", "freeze_vision": True, "freeze_projector": True},
            "batch": {"max_tokens": 128, "tokens": 4096},
            "sft": {"steps": steps, "samples_per_step": 48, "optimiser": {"lr": lr}},
            "grpo": {"steps": steps, "prompts_per_step": 8, "group_size": 8, "dynamic_sampling": False}
            | {"optimiser": {"lr": lr}}
            | grpo,
            "rollout": {"max_new_tokens": 48},
            "environment": {"kind": "benchmarks.learning.two_operations:Ask", "max_turns": 3},
            "reward": {"recipe": "codedance"},
            "eval": {"samples": 2, "k": [1]},
            "log": {"rollouts_every": 0},
        },
    )


def accuracy(model: Path, folder: Path, name: str, questions: int) -> tuple[float, float]:
    """Return the accuracy and the mean turns of a model on the first ``questions`` held-out questions."""
    settings = settings_of(model, 0, 1, 1.0)
    settings = replace(settings, eval=replace(settings.eval, questions=questions))
    report = evaluate(settings, folder / "held", folder / f"eval-{name}")
    figures = json.loads(report.read_text("utf-8"))["all"]
    return figures["accuracy"], figures["turns"]


def curve(output: Path, points: int = 8) -> str:
    """Return the share of right answers in the rollouts of a training, in equal parts of its steps."""
    lines = [json.loads(line)["outcome"] for line in (output / "metrics.jsonl").read_text("utf-8").splitlines()]
    size = max(1, len(lines) // points)
    return " ".join(f"{sum(part) / len(part):.2f}" for i in range(0, len(lines), size) if (part := lines[i : i + size]))


def run_seed(folder: Path, seed: int, sft_steps: int, steps: int, questions: int = HELD_OUT) -> dict[str, float]:
    """Train one seed with GRPO and its control; print and return the accuracies on ``questions`` held-out questions."""
    write_data(folder)
    write_model(folder / "untrained", seed)
    start = train_sft(settings_of(folder / "untrained", seed, sft_steps, 3e-3), folder / "data", folder / "sft")
    found = {"start": accuracy(start, folder, "start", questions)}
    for name, shuffled in (("grpo", False), ("shuffled", True)):
        settings = settings_of(start, seed, steps, 3e-4, shuffle_advantages=shuffled)
        model = train_grpo(settings, folder / "data", folder / name)
        found[name] = accuracy(model, folder, name, questions)
        print(f"seed {seed}, {name:8}: {steps} steps of 64 responses, right in training: {curve(folder / name)}")
    shown = ", ".join(f"{name} {share:.3f} in {turns:.2f} turns" for name, (share, turns) in found.items())
    print(f"seed {seed}, held out: {shown}", flush=True)
    return {name: share for name, (share, _) in found.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run all seeds; the exit code is 0 if GRPO beats its start and its control in each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sft-steps", type=int, default=300)
    parser.add_argument("--steps", type=int, default=100)
    parsed = parser.parse_args(argv)
    logging.disable(logging.WARNING)
    datasets.disable_progress_bars()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    found = []
    for seed in parsed.seeds:
        started = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            found.append(run_seed(Path(folder), seed, parsed.sft_steps, parsed.steps))
        print(f"seed {seed}: {time.process_time() - started:.0f} s of CPU", flush=True)
    gains = all(each["grpo"] > max(each["start"], each["shuffled"]) for each in found)
    print("GRPO is above its start and its control in every seed" if gains else "GRPO does not gain in every seed")
    return 0 if gains else 1


if __name__ == "__main__":
    sys.exit(main())
