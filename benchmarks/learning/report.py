"""Computes what the models of an experiment learnt from their answers: figures, differences, and their tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.learning.held import FIGURES, Estimate, Sums, difference, estimate, read_held, sums
from benchmarks.learning.pool import (
    ALL_VERIFIED,
    ARMS,
    MENDED,
    RIGHT_ONLY,
    UNFILTERED,
    VERIFIED,
    WHOLE_POOL,
    PoolEntry,
    caught,
    rows_of,
)
from benchmarks.learning.training import EXAMS

PAIRS = (
    (VERIFIED, RIGHT_ONLY),
    (VERIFIED, UNFILTERED),
    (VERIFIED, WHOLE_POOL),
    (ALL_VERIFIED, WHOLE_POOL),
    (MENDED, UNFILTERED),
)
"""The models whose differences are shown, as "first minus second"."""


@dataclass(frozen=True)
class Model:
    """Names one model of the experiment: its arm, the share of faults in its pool, and its seed."""

    name: str
    share: float
    seed: int


@dataclass(frozen=True)
class Examined:
    """Holds the files of an examined model.

    Attributes:
        rows: the folder of the rows that it was trained on.
        seconds: the wall-clock time of its training in seconds.
        answers: the file of its answers in each evaluation.
    """

    rows: Path
    seconds: int
    answers: Mapping[str, Path]


Found = Mapping[tuple[Model, str], Sums]


def collect(examined: Mapping[Model, Examined], held: Path, entries: Sequence[PoolEntry]) -> dict[str, Any]:
    """Return the figures of all examined models: of each model, over the seeds of a name and share, and differences."""
    records = read_held(held)
    found = {(model, how): sums(files.answers[how], records) for model, files in examined.items() for how in EXAMS}
    shares = sorted({model.share for model in examined})
    return {
        "pool": caught(entries),
        "models": [_one(model, files, found, entries) for model, files in examined.items()],
        "means": [row for share in shares for name in ARMS for row in _mean(name, share, found)],
        "differences": [row for share in shares for pair in PAIRS for row in _difference(*pair, share, found)],
    }


def _one(model: Model, files: Examined, found: Found, entries: Sequence[PoolEntry]) -> dict[str, Any]:
    """Return the row of one model: its figures, its training time in seconds, and the numbers of its rows."""
    faulty = {(entry.id, entry.faulty.text) for entry in entries}
    rows = rows_of(files.rows).select(["id", "messages"]).to_pylist()
    numbers = {
        "seconds": files.seconds,
        "rows": len(rows),
        "faulty_rows": sum((row["id"], row["messages"][-1]["content"]) in faulty for row in rows),
    }
    return {**vars(model), **numbers, **{how: estimate([found[model, how]]) for how in EXAMS}}


def _seeds(name: str, share: float, found: Found) -> set[int]:
    return {model.seed for model, _ in found if (model.name, model.share) == (name, share)}


def _mean(name: str, share: float, found: Found) -> list[dict[str, Any]]:
    """Return the row of a name and share over all their seeds; empty if none of them is done."""
    seeds = sorted(_seeds(name, share, found))
    if not seeds:
        return []
    figures = {how: estimate([found[Model(name, share, seed), how] for seed in seeds]) for how in EXAMS}
    return [{"name": name, "share": share, "seeds": seeds, **figures}]


def _difference(name: str, other: str, share: float, found: Found) -> list[dict[str, Any]]:
    """Return the row of a pair over the seeds that both have."""
    seeds = sorted(_seeds(name, share, found) & _seeds(other, share, found))
    if not seeds:
        return []
    figures = {
        how: difference(*([found[Model(side, share, seed), how] for seed in seeds] for side in (name, other)))
        for how in EXAMS
    }
    return [{"name": f"{name} − {other}", "share": share, "seeds": seeds, **figures}]


def print_tables(results: Mapping[str, Any]) -> None:
    """Print the number of traces that the verifier kept, then means and differences, as Markdown."""
    print("| fault | traces | right answer | kept by the verifier |\n|---|---|---|---|")
    for kind, row in results["pool"].items():
        print(f"| {kind} | {row['traces']} | {row['right']} | {row['kept']} |")
    for how in EXAMS:
        print(f"\n| {how} | faults | seeds | {' | '.join(FIGURES)} |\n|{'---|' * (3 + len(FIGURES))}")
        for part, sign in (("means", ""), ("differences", "+")):
            for row in results[part]:
                print(
                    f"| {row['name']} | {row['share']:g} | {' '.join(map(str, row['seeds']))} {_cells(row[how], sign)}"
                )


def _cells(figures: Mapping[str, Estimate], sign: str) -> str:
    cells = []
    for name in FIGURES:
        value = figures.get(name)
        cells.append("–" if value is None else "{:{s}.3f} [{:{s}.3f}, {:{s}.3f}]".format(*value, s=sign))
    return "".join(f"| {cell} " for cell in cells) + "|"
