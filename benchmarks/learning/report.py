"""Computes what the models of an experiment learnt from their answers: figures, differences, and their tables."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.learning.held import FIGURES, Estimate, Sums, difference, estimate, read_held, sums
from benchmarks.learning.pool import (
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
from benchmarks.learning.training import EXAMS, Model

EARLY, GRPO, CONTROL, EQ9 = "early", "GRPO", "advantages shuffled", "GRPO, Eq. 9"
LATE, LATE_CONTROL = "GRPO from verified", "shuffled, from verified"
NAMES = (*ARMS, EARLY, GRPO, CONTROL, EQ9, LATE, LATE_CONTROL)
PAIRS = (
    (VERIFIED, RIGHT_ONLY),
    (VERIFIED, UNFILTERED),
    (VERIFIED, WHOLE_POOL),
    (MENDED, UNFILTERED),
    (GRPO, EARLY),
    (CONTROL, EARLY),
    (GRPO, CONTROL),
    (EQ9, EARLY),
    (LATE, VERIFIED),
    (LATE_CONTROL, VERIFIED),
    (LATE, LATE_CONTROL),
)
"""The models whose differences are shown, as "first minus second"."""
Found = Mapping[tuple[Model, str], Sums]


def collect(output: Path, entries: Sequence[PoolEntry]) -> dict[str, Any]:
    """Return the figures of all examined models: of each model, over the seeds of a name and share, and differences."""
    held = read_held(output / "held")
    folders = sorted(output.glob("share-*/seed-*"))
    places = [(float(f.parent.name.removeprefix("share-")), int(f.name.removeprefix("seed-"))) for f in folders]
    models = [Model(name, share, seed) for share, seed in places for name in NAMES]
    done = [m for m in models if all((output / m.folder / how / "eval.json").is_file() for how in EXAMS)]
    found = {(m, how): sums(output / m.folder / how / "responses.jsonl", held) for m in done for how in EXAMS}
    shares = sorted({model.share for model in done})
    return {
        "pool": caught(entries),
        "models": [_one(output / model.folder, model, found, entries) for model in done],
        "means": [row for share in shares for name in NAMES for row in _mean(name, share, found)],
        "differences": [row for share in shares for pair in PAIRS for row in _difference(*pair, share, found)],
    }


def _one(folder: Path, model: Model, found: Found, entries: Sequence[PoolEntry]) -> dict[str, Any]:
    """Return the row of one model: its figures, its training time in seconds, and its rows (GRPO has none)."""
    row: dict[str, Any] = {**vars(model), "seconds": json.loads((folder / "seconds.json").read_text("utf-8"))}
    if (folder / "rows").is_dir():
        faulty = {(entry.id, entry.faulty.text) for entry in entries}
        rows = rows_of(folder / "rows").select(["id", "messages"]).to_pylist()
        row["rows"] = len(rows)
        row["faulty_rows"] = sum((r["id"], r["messages"][-1]["content"]) in faulty for r in rows)
    return row | {how: estimate([found[model, how]]) for how in EXAMS}


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
