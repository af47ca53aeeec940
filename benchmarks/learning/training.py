"""Runs the trainings of one experiment, each once, by a command of the trainer and in its own folder."""

import io
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.learning.pool import PoolEntry, rows_of, select, write_rows
from benchmarks.learning.scenes import PHRASES
from groundtrace.grading.responses.speech import Speech
from groundtrace.schemas.coordinates import CoordinateFrame
from groundtrace.trainer.tiny_model import make_tiny_model

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GREEDY = "rollout.temperature=1e-4"  # so cold that a draw is the most likely token
EXAMS = {"sampled": (), "greedy": (GREEDY,)}


@dataclass(frozen=True)
class Model:
    """One model of the experiment: its name, the share of faults in its pool, and its seed."""

    name: str
    share: float
    seed: int

    @property
    def folder(self) -> str:
        """The model's path in the output folder."""
        return f"share-{self.share:g}/seed-{self.seed}/{self.name.replace(',', '').replace(' ', '-').lower()}"


@dataclass(frozen=True)
class Trainings:
    """The data that all models share: the output folder, the pool, the number of rows of an arm, and the user's
    settings.
    """

    output: Path
    entries: list[PoolEntry]
    rows: int
    overrides: tuple[str, ...]

    def make_untrained(self, seed: int) -> None:
        """Write the model of random weights that all arms of a seed start from."""
        final = self._untrained(seed)
        if not final.is_dir():
            partial = final.with_suffix(".partial")
            make_tiny_model(partial, _texts(self.output / "run", self.entries), seed, phrases=PHRASES)
            partial.rename(final)

    def fine_tune(self, model: Model, arm: str, steps: int) -> Path:
        """Run SFT on the rows of an arm; returns the trained model."""
        folder = self.output / model.folder
        if not list((folder / "rows" / "sft").glob("*.parquet")):
            chosen = select(self.entries, arm, model.share, self.rows, model.seed)
            write_rows(self.output / "run", chosen, folder / "rows")
        return self._train("sft", folder / "rows", model, self._untrained(model.seed), f"sft.steps={steps}")

    def reinforce(self, model: Model, start: Path, *settings: str) -> Path:
        """Run GRPO from a model, with further settings of the trainer; returns the trained model."""
        return self._train("grpo", self.output / "run", model, start, *settings)

    def examine(self, model: Model, trained: Path) -> None:
        """Write the answers to the held-out questions, sampled and greedy."""
        for how, more in EXAMS.items():
            folder = self.output / model.folder / how
            if not (folder / "eval.json").is_file():
                self._trainer("eval", self.output / "held", folder, trained, model.seed, *more)

    def _untrained(self, seed: int) -> Path:
        return self.output / f"untrained-{seed}"

    def _train(self, does: str, data: Path, model: Model, start: Path, *more: str) -> Path:
        folder = self.output / model.folder
        trained, clock = folder / "trained", folder / "seconds.json"
        if not clock.is_file():
            started = time.perf_counter()
            self._trainer(does, data, trained, start, model.seed, *more)
            clock.write_text(json.dumps(round(time.perf_counter() - started)), "utf-8")
        return trained / "model"

    def _trainer(self, does: str, data: Path, output: Path, start: Path, seed: int, *more: str) -> None:
        config = HERE / ("grpo.toml" if does == "grpo" else "sft.toml")
        settings = (f"model.path={start}", f"seed={seed}", "threads=1", *self.overrides, *more)
        sets = [word for setting in settings for word in ("--set", setting)]
        output.mkdir(parents=True, exist_ok=True)
        with (output / "log.txt").open("a") as log:
            command(
                "groundtrace.trainer.cli",
                does,
                "--config",
                config,
                "--data",
                data,
                "--output",
                output,
                *sets,
                stdout=log,
            )


def command(module: str, *words: Any, stdout: Any = None) -> None:
    """Run a command of the project on one thread. Raises CalledProcessError if it fails."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-m", module, *map(str, words)]
    subprocess.run(line, cwd=ROOT, check=True, stdout=stdout, env=environment)


def _texts(run: Path, entries: list[PoolEntry]) -> list[str]:
    """Return all texts of the rows of any arm, with coordinates in the form in which the tiny model writes them."""
    speech = Speech(CoordinateFrame.MOLMO100, 0)
    by_id = {entry.id: entry for entry in entries}
    texts = []
    for row in rows_of(run).select(["id", "messages", "images"]).to_pylist():
        sizes = [Image.open(io.BytesIO(image["bytes"])).size for image in row["images"]]
        entry = by_id[row["id"]]
        texts.append(row["messages"][0]["content"])
        texts += [speech.to_model(judged.text, sizes) for judged in (entry.right, entry.faulty)]
    return texts
