"""Runs the trainings and evaluations of an experiment, each once: its folder is named by a hash of its settings."""

import hashlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import TypeAdapter

from benchmarks.learning.pool import rows_of
from benchmarks.learning.scenes import PHRASES
from groundtrace.config.settings import load_config
from groundtrace.grading.responses.speech import Speech
from groundtrace.schemas.coordinates import CoordinateFrame
from groundtrace.trainer.identity import UNUSED
from groundtrace.trainer.settings import TrainerSettings
from groundtrace.trainer.tiny_model import IMAGE_SIDE_PX, make_tiny_model

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GREEDY = "rollout.temperature=1e-4"  # so cold that a draw is the most likely token
EXAMS: Mapping[str, tuple[str, ...]] = {"sampled": (), "greedy": (GREEDY,)}
"""The evaluations of each model, by name, with the settings that each adds."""
MODELS = "models"
HASH_DIGITS = 12


def hash_of(value: Any) -> str:
    """Return the first digits of the SHA-256 of a value that is written as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:HASH_DIGITS]


def digest(folder: Path) -> str:
    """Return a hash of the contents of the Parquet files in a folder, or of ``records.jsonl`` if it has this file."""
    files = [folder / "records.jsonl"] if (folder / "records.jsonl").is_file() else sorted(folder.rglob("*.parquet"))
    if not files:
        raise FileNotFoundError(f"{folder} has no shards and no records.jsonl")
    whole = hashlib.sha256()
    for path in files:
        whole.update(path.read_bytes())
    return whole.hexdigest()[:HASH_DIGITS]


@dataclass(frozen=True)
class Untrained:
    """Describes the model of random weights from which the trainings of a seed start.

    Attributes:
        seed: the seed of the weights.
        texts: the hash of the texts from which the tokenizer is learnt.
        image_side_px: images are shrunk to the area of a square with this side.
    """

    seed: int
    texts: str
    image_side_px: int = IMAGE_SIDE_PX

    @property
    def key(self) -> str:
        """Return the hash under which the model is kept."""
        return hash_of(["untrained", self.seed, self.texts, self.image_side_px])


@dataclass(frozen=True)
class Learnt:
    """Describes one training.

    Attributes:
        does: the trainer's command, ``sft`` or ``grpo``.
        seed: the seed of the training.
        rows: the folder of the training rows.
        start: the model from which the training starts.
        settings: the settings that differ from those of ``sft.toml`` or ``grpo.toml``.
    """

    does: str
    seed: int
    rows: Path
    start: "Learnt | Untrained"
    settings: tuple[str, ...] = ()

    @property
    def config(self) -> Path:
        """Return the config file of the command."""
        return HERE / f"{self.does}.toml"

    @cached_property
    def key(self) -> str:
        """Return the hash under which the model is kept: of all settings that change it, the rows and the start."""
        side = "sft" if self.does == "sft" else "rl"
        data = digest(self.rows / side)
        return hash_of(
            [self.does, resolved(self.config, (*self.settings, f"seed={self.seed}"), self.does), data, self.start.key]
        )


def resolved(config: Path, settings: Sequence[str], does: str) -> dict[str, Any]:
    """Return the complete settings of a command that can change its result, as plain values."""
    values: Any = TypeAdapter(TrainerSettings).dump_python(
        load_config(TrainerSettings, str(config), settings), mode="json"
    )
    unused = {"threads", "log", "max_idle_steps", *UNUSED.get(does, ("sft", "grpo"))}
    values = {name: value for name, value in values.items() if name not in unused}
    values["model"].pop("path")
    return values


@dataclass(frozen=True)
class Trainings:
    """Runs trainings and evaluations in the folder ``output``.

    Attributes:
        output: the folder of all models and answers.
        overrides: settings for every command of the trainer.
        image_side_px: images are shrunk to the area of a square with this side.
    """

    output: Path
    overrides: tuple[str, ...] = ()
    image_side_px: int = IMAGE_SIDE_PX

    def folder(self, model: Learnt | Untrained) -> Path:
        """Return the folder of a model."""
        return self.output / MODELS / model.key

    def make_untrained(self, seed: int, texts: Sequence[str]) -> Untrained:
        """Write the model of random weights that the trainings of a seed start from, if it is missing."""
        model = Untrained(seed, hash_of(list(texts)), self.image_side_px)
        final = self.folder(model)
        if not final.is_dir():
            partial = final.with_suffix(".partial")
            make_tiny_model(partial, texts, seed, self.image_side_px, phrases=PHRASES)
            partial.rename(final)
        return model

    def learnt(self, does: str, seed: int, rows: Path, start: Learnt | Untrained, *settings: str) -> Learnt:
        """Return the description of a training, with the settings that are given for every command."""
        return Learnt(does, seed, rows, start, (*self.overrides, *settings))

    def train(self, model: Learnt) -> Path:
        """Train the model if it is missing; return the folder of its weights."""
        folder = self.folder(model)
        clock = self.clock(model)
        if not clock.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            what = vars(model) | {"rows": str(model.rows), "start": model.start.key}
            (folder / "training.json").write_text(json.dumps(what, indent=1, default=str) + "\n", "utf-8")
            started = time.perf_counter()
            settings = (*model.settings, f"seed={model.seed}")
            trained = folder / "trained"
            self._trainer(model.does, model.config, model.rows, trained, self.weights(model.start), settings)
            clock.write_text(json.dumps(round(time.perf_counter() - started)), "utf-8")
        return folder / "trained" / "model"

    def weights(self, model: Learnt | Untrained) -> Path:
        """Return the folder of a model's weights, which may be missing."""
        return self.folder(model) if isinstance(model, Untrained) else self.folder(model) / "trained" / "model"

    def examine(self, model: Learnt, held: Path, how: str, *settings: str) -> Path:
        """Write the model's answers to the questions of a folder, if they are missing.

        ``how`` is the name of an evaluation in :data:`EXAMS`, to which ``settings`` are added. Returns the file of the
        answers.
        """
        answers = self.answers(model, held, how, *settings)
        if not (answers.parent / "eval.json").is_file():
            exam = self._exam(model, how, settings)
            self._trainer("eval", HERE / "sft.toml", held, answers.parent, self.weights(model), exam)
        return answers

    def answers(self, model: Learnt, held: Path, how: str, *settings: str) -> Path:
        """Return the file of the model's answers in an evaluation, which may be missing."""
        exam = hash_of([resolved(HERE / "sft.toml", self._exam(model, how, settings), "eval"), digest(held)])
        return self.folder(model) / f"{held.name}-{how}-{exam}" / "responses.jsonl"

    def is_examined(self, model: Learnt, held: Path) -> bool:
        """Whether the model has been trained, and has answered in all evaluations."""
        answered = all((self.answers(model, held, how).parent / "eval.json").is_file() for how in EXAMS)
        return answered and self.clock(model).is_file()

    def clock(self, model: Learnt) -> Path:
        """Return the file of the wall-clock seconds of a training; it is missing as long as the training is."""
        return self.folder(model) / "seconds.json"

    def _exam(self, model: Learnt, how: str, settings: Sequence[str]) -> tuple[str, ...]:
        return (*self.overrides, *EXAMS[how], *settings, f"seed={model.seed}")

    def _trainer(self, does: str, config: Path, data: Path, output: Path, start: Path, settings: Sequence[str]) -> None:
        sets = [word for each in (f"model.path={start}", "threads=1", *settings) for word in ("--set", each)]
        output.mkdir(parents=True, exist_ok=True)
        words = (does, "--config", config, "--data", data, "--output", output, *sets)
        with (output / "log.txt").open("a") as log:
            command("groundtrace.trainer.cli", *words, log=log)


def command(module: str, *words: Any, log: Any = None) -> None:
    """Run a command of the project on one thread; ``log`` gets its output. Raises CalledProcessError if it fails."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-m", module, *map(str, words)]
    subprocess.run(line, cwd=ROOT, check=True, stdout=log, stderr=log, env=environment)


def in_parallel(work: Sequence[Callable[[], Any]], jobs: int) -> None:
    """Run all functions, ``jobs`` at once. Raises the first error, after the functions that run at that time have
    ended.
    """
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(each) for each in work]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def texts_of(run: Path, answers: Mapping[str, Sequence[str]] | None = None) -> list[str]:
    """Return the texts of a run's SFT rows, with coordinates in the form in which the tiny model writes them.

    ``answers`` has other answers to use than the row's own, by the row's id.
    """
    speech = Speech(CoordinateFrame.MOLMO100, 0)
    texts = []
    for row in rows_of(run).select(["id", "messages", "images"]).to_pylist():
        sizes = [Image.open(io.BytesIO(image["bytes"])).size for image in row["images"]]
        question, answer = row["messages"][0]["content"], row["messages"][-1]["content"]
        texts.append(question)
        texts += [speech.to_model(text, sizes) for text in ((answer,) if answers is None else answers[row["id"]])]
    return texts
