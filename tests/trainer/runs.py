"""What the tests of whole runs share: settings, a run's parts, a scripted sampler and judge, a command line."""

import json
import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from groundtrace.config.settings import build
from groundtrace.inference.settings import EndpointSettings
from groundtrace.rewards.rows.reward import Reward, Scored
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.rewards.rows.shards import Shards
from groundtrace.schemas.records import Question, Verdict
from groundtrace.trainer.cli import main
from groundtrace.trainer.encode import encode_prompt, prompt_samples
from groundtrace.trainer.group import Group
from groundtrace.trainer.grpo import Trainee
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.optimiser import Optimiser
from groundtrace.trainer.row_sampler import LengthLimit, RowSampler
from groundtrace.trainer.sample import Rollout, Sample
from groundtrace.trainer.sampler import Sampler
from groundtrace.trainer.settings import TrainerSettings

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
TIMES = ("rollout_s", "wall_s", "tokens_per_s")
"""Metrics that differ from run to run."""


def settings_of(path: Path, seed: int = 0, **sections: Any) -> TrainerSettings:
    """Settings for a tiny model on the processor; a section's keys are added to these.

    ``optimiser`` is the section of SFT and of GRPO.
    """
    base: dict[str, dict[str, Any]] = {
        "model": {"path": str(path), "dtype": "float32"},
        "batch": {"max_tokens": 512, "tokens": 1024},
        "grpo": {"steps": 2, "prompts_per_step": 2, "group_size": 4, "advantage_epsilon": 0.0},
        "rollout": {"max_new_tokens": 12},
        "log": {"rollouts_every": 0},
    }
    optimiser = {"lr": 1e-3} | sections.pop("optimiser", {})
    merged = {name: base.get(name, {}) | sections.get(name, {}) for name in base | sections}
    for name in ("sft", "grpo"):
        merged[name] = {"optimiser": optimiser} | merged.get(name, {})
    return build(TrainerSettings, {"seed": seed} | merged)


LEARNS_LENGTH = {"dynamic_sampling": False, "overlong": "soft", "overlong_buffer": 24}
"""GRPO settings under which a model of random weights has something to learn: to stop early."""


def records(*ids: str) -> list[dict[str, Any]]:
    """Records of the sample data by the ends of their ids."""
    lines = (SAMPLE / "records.jsonl").read_text("utf-8").splitlines()
    found = {row["id"].removeprefix("nlvr-dev-"): row for row in map(json.loads, lines)}
    return [found[id] for id in ids]


def rl_row(record: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """A record of the sample data as a row of an RL shard."""
    gold = [
        {"label": box["label"], **dict(zip(("x1", "y1", "x2", "y2"), map(float, box["bbox"]), strict=True))}
        | {"media_index": 0}
        for box in record["boxes"] or ()
    ]
    names = ("id", "source", "license", "question", "answer", "answer_type", "choices")
    row = {name: record[name] for name in names} | {"gold_boxes": gold or None}
    row["images"] = [{"bytes": (SAMPLE / name).read_bytes(), "path": name} for name in record["media"]]
    row["prompt"] = [{"role": "user", "content": "<image>" * len(row["images"]) + str(record["question"])}]
    return row | changes


def write_records(folder: Path, rows: Sequence[Mapping[str, Any] | str]) -> Path:
    """An input folder: records, or lines as they are, with the sample data's pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    for row in rows:
        for name in row["media"] if isinstance(row, dict) else ():
            if (SAMPLE / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes((SAMPLE / name).read_bytes())
    return folder


def metrics_of(output: Path, without: Sequence[str] = TIMES) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without what differs from run to run."""
    lines = map(json.loads, (output / "metrics.jsonl").read_text("utf-8").splitlines())
    return [{name: value for name, value in line.items() if name not in without} for line in lines]


def lines_of(path: Path) -> list[dict[str, Any]]:
    """A file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@dataclass
class Said(Sampler):
    """A sampler that gives each prompt answers from a script by the question's id, the last ones again and again."""

    vlm: VisionLanguageModel
    script: Mapping[str, Sequence[Sequence[str]]]
    asked: list[tuple[str, int]] = field(default_factory=list)
    synced: int = 0

    def sync(self) -> None:
        self.synced += 1

    def sample(self, prompts: Sequence[Sample], n: int, seed: int) -> list[list[Rollout]]:
        found = []
        for prompt in prompts:
            before = sum(id == prompt.id for id, _ in self.asked)
            self.asked.append((prompt.id, seed))
            rounds = self.script[prompt.id]
            texts = rounds[min(before, len(rounds) - 1)]
            assert len(texts) == n
            found.append([rollout_of(self.vlm, text) for text in texts])
        return found


def other_weights(model: Path) -> None:
    """Replace the weights in a model's folder by others with the same names and shapes."""
    path = model / "model.safetensors"
    save_file({name: weight * 2 for name, weight in load_file(path).items()}, path, {"format": "pt"})


def rollout_of(vlm: VisionLanguageModel, text: str, is_truncated: bool = False) -> Rollout:
    """A text as a rollout that ends by itself, or is cut off."""
    ids = vlm.tokenizer(text, add_special_tokens=False).input_ids
    end = [] if is_truncated else [vlm.tokenizer.eos_token_id]
    return Rollout((*ids, *end), is_truncated)


def group_of(
    vlm: VisionLanguageModel,
    earned: Sequence[tuple[float | None, float | None]],
    *,
    id: str = "q",
    prompt: str = "How many are red?",
    rollouts: Sequence[Rollout] | None = None,
) -> Group:
    """A group without pictures, by reward and outcome of each rollout."""
    turns = ({"role": "user", "content": prompt},)
    question = Question(id, "drawn", "CC0-1.0", (), prompt, "3", "numeric")
    row = TrainingRow(id, "drawn", turns, (), question)
    rollouts = rollouts or [rollout_of(vlm, f"It is {index}.") for index in range(len(earned))]
    scored = [Scored(reward, outcome, "text", (Verdict("outcome", outcome, "by hand"),)) for reward, outcome in earned]
    return Group(row, encode_prompt(vlm, id, turns, ()), tuple(rollouts), tuple(scored))


def trainee_of(
    vlm: VisionLanguageModel, settings: TrainerSettings, sampler: Sampler, output: Path, data: Path | None = None,
    reference: Any = None,
) -> Trainee:  # fmt: skip
    """A run's parts; without ``data`` there is nothing to draw from."""
    optimiser = Optimiser(
        vlm.model, settings.grpo.optimiser, settings.grpo.steps_for(0) * settings.grpo.updates_per_rollout
    )
    draws: Any = None
    if data is not None:
        shards = Shards(data, "rl", output / "rows")
        draws = RowSampler(
            shards, lambda row: prompt_samples(vlm, row), settings.seed, LengthLimit(512), lambda row, why: None
        )
    return Trainee(vlm, optimiser, sampler, Reward(settings.reward, output), draws, reference, settings)


def weights_of(vlm: VisionLanguageModel) -> dict[str, torch.Tensor]:
    """A copy of all weights."""
    return {name: weight.detach().clone() for name, weight in vlm.model.named_parameters()}


def changed(before: Mapping[str, torch.Tensor], vlm: VisionLanguageModel) -> list[str]:
    """The names of the weights that differ from a copy."""
    return [name for name, weight in vlm.model.named_parameters() if not torch.equal(weight, before[name])]


@dataclass
class Judge:
    """A scripted judge: answers each request with a status and a text; at the end of the script, with the last."""

    script: deque[tuple[int, str]]
    base_url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def step(self, body: dict[str, Any], key: str) -> tuple[int, str]:
        """Note a request and give what answers it; requests come in several threads at once."""
        with self._lock:
            self.bodies.append(body)
            self.keys.append(key)
            return self.script.popleft() if len(self.script) > 1 else self.script[0]


READS = (200, "")
"""The judge reads the answer, and takes it for the gold one where it is of an even ``number``."""
BUSY = (503, "busy")
_NUMBER = re.compile(r"BEGIN \S+\n.*?number (\d)", re.DOTALL)


def _read(body: Mapping[str, Any]) -> str:
    [number] = _NUMBER.findall("\n".join(_texts(body["messages"])))
    return json.dumps({"reason": "compared", "same": int(number) % 2 == 0})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)


@contextmanager
def judging(*script: tuple[int, str]) -> Iterator[Judge]:
    """Serve a judge on the loopback interface. Its errors echo the key that it was given."""
    judge = Judge(deque(script))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200, {"data": [{"id": name} for name in ("judge", "m", "j")]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            key = self.headers.get("authorization", "")
            status, text = judge.step(asked, key)
            text = text or _read(asked)
            choice = {"index": 0, "message": {"content": text}, "finish_reason": "stop"}
            body: Any = {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 3}}
            if status != 200:
                body = {"error": {"message": f"{text} {key}"}}
            self._send(status, body)

        def _send(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    judge.base_url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield judge
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def judged_by(base_url: str, wait_s: float = 30.0, **endpoint: Any) -> RewardSettings:
    """A reward with nothing but a judge of answers, which is asked once each time."""
    settings = EndpointSettings(kind="openai", model="judge", base_url=base_url, max_retries=0, **endpoint)
    options = {"skip": ["format", "spatial", "counting", "reasoning"]}
    return RewardSettings(endpoints={"judge": settings}, roles={"judge": "judge"}, wait_s=wait_s, options=options)


@dataclass(frozen=True)
class Ran:
    """What a command left: exit code, output, and its folder."""

    code: int
    out: str
    err: str
    output: Path

    def check_refused(self, code: int, *said: str) -> None:
        """It ended with this exit code and one readable line."""
        assert "Traceback" not in self.err
        assert (self.code, self.out) == (code, ""), self.err
        lines = [line for line in self.err.splitlines() if line and not line.startswith(PROGRESS)]
        assert len(lines) == 1, lines
        line = lines[0]
        assert line.startswith("trainer: ")
        for words in said:
            assert words in line


PROGRESS = (
    "step ",
    "trainer: A policy that never looks",
    "trainer: What a policy earns",
    "trainer: the reward at the start",
    "trainer: held out for the validation",
    "trainer: the evaluation has only",
    "trainer: the validation has only",
    "trainer: continues after step ",
    "validation after ",
)
"""How the lines begin that tell how a training goes."""


@dataclass
class Command:
    """Runs ``trainer`` in this process on a config that is written out."""

    home: Path
    model: Path
    capture: pytest.CaptureFixture[str]

    def __call__(self, command: str, data: Path, *sets: str, output: str = "out", toml: str = "") -> Ran:
        config = self.home / "config.toml"
        config.write_text(
            f'threads = 1\n[model]\npath = "{self.model}"\ndtype = "float32"\n'
            "[batch]\nmax_tokens = 512\ntokens = 1024\n[rollout]\nmax_new_tokens = 12\n"
            "[sft]\nsteps = 2\nsamples_per_step = 2\n"
            "[grpo]\nsteps = 2\nprompts_per_step = 2\ngroup_size = 4\n[log]\nrollouts_every = 0\n"
            f"[eval]\nsamples = 2\nk = [1, 2]\n{toml}",
            "utf-8",
        )
        folder = self.home / output
        words = [command, "--config", str(config), "--data", str(data), "--output", str(folder)]
        for each in sets:
            words += ["--set", each]
        return self.words(words, folder)

    def words(self, words: Sequence[str], folder: Path) -> Ran:
        """Run the command line as it is."""
        self.capture.readouterr()
        try:
            code = main(words)
        except SystemExit as exit:  # argparse
            code = int(exit.code or 0)
        said = self.capture.readouterr()
        return Ran(code, said.out, said.err, folder)
