"""Loops for tests: their arguments, and a stand-in for the commands that writes what the steps would write."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from groundtrace.config.settings import settings_from
from groundtrace.pipelines.loop.questions import Division, divide
from groundtrace.pipelines.loop.settings import HeldOutSettings, LoopSettings, defaults_of
from groundtrace.pipelines.loop.steps import Loop
from groundtrace.pipelines.running.plan.inputs import find_input
from groundtrace.stages.sources.base import RowSettings
from groundtrace.storage.places import STANDARD

FIELDS = {"source": "drawn", "license": "CC0-1.0", "question": "How many squares are there?", "answer": "3"}
PLAIN = RowSettings()


def png(seed: int, side: int = 8) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)
    return cv2.imencode(".png", pixels)[1].tobytes()


def again(data: bytes) -> bytes:
    """The same pixels as another PNG file."""
    found = cv2.imencode(".png", cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), [16, 9])[1].tobytes()
    assert found != data
    return found


def write_input(folder: Path, lines: list[Any], images: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(FIELDS | line) for line in lines]
    (folder / "records.jsonl").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    for name, data in images.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def split(out: Path, data: Path, rows: RowSettings = PLAIN, share: float = 0.3, seed: int = 0) -> Division:
    found = find_input(str(data), rows, STANDARD)
    return divide(out, found, rows, STANDARD, HeldOutSettings(share=share, seed=seed))


PER_STEP = {"sft": 2, "grpo": 3}
SECTIONS = frozenset({"attempt", "difficulty", "split", "trace"})


def loop_of(out: Path, model: str = "tiny", curation: Mapping[str, Any] | None = None, **values: Any) -> Loop:
    settings = settings_from(LoopSettings, values)
    defaults = defaults_of(model)
    return Loop(
        "grounded_cot",
        model,
        out,
        settings,
        curation or {},
        SECTIONS,
        "recipe",
        "trainer",
        defaults=defaults,
        per_step=PER_STEP,
    )


@dataclass
class Commands:
    """Writes the results of commands, and lists the steps that ran. ``fails`` are steps and how they end, once each.

    ``rows`` are the numbers of rows in run.json, and ``reason`` is the reason of its rejections. ``outputs``
    are the texts that the commands of steps print.
    """

    fails: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=lambda: {"sft": 2, "rl": 3})
    reason: str = "too_hard"
    outputs: dict[str, str] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    words: dict[str, Sequence[str]] = field(default_factory=dict)
    environments: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def __call__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> int:
        name = log.stem
        self.environments[name] = environment
        self.ran.append(name)
        self.words[name] = command
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(self.outputs.get(name, f"output of {name}"), "utf-8")
        end = self.fails.pop(name, 0)
        if isinstance(end, BaseException):
            raise end
        if not end:
            self._write(command)
        return end

    def _write(self, command: Sequence[str]) -> None:
        if command[:2] == ("trainer", "tiny"):
            folder = Path(command[2])
            folder.mkdir()
            (folder / "config.json").write_text("{}")
            return
        folder = Path(command[command.index("--output") + 1])
        folder.mkdir(parents=True, exist_ok=True)
        if command[0] == "beam":
            self._write_run(folder)
        elif command[1] == "eval":
            self._write_evaluation(folder, Path(command[command.index("--data") + 1]))
        else:
            (folder / "model").mkdir(exist_ok=True)
            (folder / "train.html").write_text("page")
            lines = [{"step": n, "loss": 2.0 - n / 10, "reward": n / 10, "outcome": n / 20} for n in range(1, 9)]
            (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def _write_run(self, folder: Path) -> None:
        counts = {"input": 9, **self.rows, "rejected": {"difficulty": {self.reason: 4}}}
        run: dict[str, Any] = {"recipe": "grounded_cot", "input": "data", "counts": counts, "wall_s": 1.0}
        run |= {name: {} for name in ("stages", "ledger", "roles", "prompts")}
        run |= {"finished": "", "revision": "", "config_sha256": "", "self_judged": False}
        (folder / "run.json").write_text(json.dumps(run), "utf-8")
        (folder / "config.toml").write_text("difficulty = {low = 0.2, include_low = false}\n", "utf-8")
        (folder / "report.html").write_text("page")

    def _write_evaluation(self, folder: Path, data: Path) -> None:
        ids = [json.loads(line)["id"] for line in (data / "records.jsonl").read_text("utf-8").splitlines()]
        right = {"eval-base": 0, "eval-sft": 1, "eval-grpo": 2}[folder.name]
        lines = [
            {
                "id": name,
                "gold": "3",
                "text": f'<points x1="1" y1="2" alt="{folder.name}">{folder.name}</points> <answer>{place}</answer>',
                "reward": 0.5,
                "verdicts": {"outcome": {"value": float(place < right), "reason": ""}},
                "point_f1": right / 3,
            }
            for place, name in enumerate(ids)
        ]
        (folder / "responses.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        figures = {"best_constant": 0.4, "questions": len(ids)}
        (folder / "eval.json").write_text(json.dumps({"all": figures, "answer_type": {"numeric": figures}}))
        (folder / "eval.html").write_text("page")
