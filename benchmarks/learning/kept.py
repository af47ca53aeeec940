"""Keeps the results of long trainings as small files, from which tables and figures are made again."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learning.held import COUNTED, Counts

CURVES = ("reward", "outcome", "spatial", "response_tokens", "truncated", "entropy", "grad_norm")
"""The metrics of a GRPO step that are kept, if the training has them."""


@dataclass(frozen=True)
class Kept:
    """Holds the result of one model.

    Attributes:
        name: the name of the arm.
        seed: the seed of the training.
        key: the hash of the settings, rows and start of the training; "" for a policy that is computed.
        settings: the settings that differ from the config file.
        seconds: the wall-clock time of the training in seconds.
        exams: the counts of each scene (:data:`benchmarks.learning.held.COUNTED`), by the name of the evaluation.
        curves: the metrics of each step, by name; empty for models that are not trained by GRPO.
    """

    name: str
    seed: int
    key: str
    settings: tuple[str, ...]
    seconds: int
    exams: Mapping[str, Counts]
    curves: Mapping[str, Sequence[float | None]]

    @property
    def file(self) -> str:
        """Return the name of the file."""
        return f"{re.sub(r'[^a-z0-9.]+', '-', self.name.lower())}-seed-{self.seed}.json"


def keep(folder: Path, kept: Kept) -> None:
    """Write a result; an earlier result of the same arm and seed is replaced."""
    plain = asdict(kept)
    plain["exams"] = {how: dict(zip(COUNTED, counts.T.tolist(), strict=True)) for how, counts in kept.exams.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / kept.file).write_text(json.dumps(plain, separators=(",", ":")).replace('],"', '],\n"') + "\n", "utf-8")


def read_kept(folder: Path) -> list[Kept]:
    """Return the results in a folder, in the order of their file names."""
    return [_parsed(json.loads(path.read_text("utf-8"))) for path in sorted(folder.glob("*-seed-*.json"))]


def _parsed(plain: dict[str, Any]) -> Kept:
    exams = {
        how: np.array([columns[name] for name in COUNTED], dtype=np.int64).T for how, columns in plain["exams"].items()
    }
    return Kept(**{**plain, "settings": tuple(plain["settings"]), "exams": exams})


def curves_of(metrics: Path) -> dict[str, list[float | None]]:
    """Return the kept metrics of each step from the metrics.jsonl of a training."""
    lines = [json.loads(line) for line in metrics.read_text("utf-8").splitlines()]
    return {
        name: [None if line.get(name) is None else round(line[name], 4) for line in lines]
        for name in CURVES
        if any(line.get(name) is not None for line in lines)
    }
