"""Measures what verified data is worth: one pool of traces with planted faults, filtered in several ways.

    python benchmarks/learning/learn.py             # part of `make learn`: one seed of two arms
    python benchmarks/learning/learn.py --full      # three seeds, all arms, three shares of faults

The arms are supervised fine-tuning from random weights for as many steps, of the same pool:

    verified                    what the pipeline's verifier keeps
    right answers only          what has the gold answer
    unfiltered                  anything (--full)
    whole pool                  anything, and all of it: more rows for as many steps (--full)
    all verified                all that the verifier keeps of the whole pool (--full)
    unfiltered, without faults  the questions of "unfiltered", each with its right trace (--full)

All arms but "whole pool" and "all verified" have the same number of rows. Every model answers the 750 held-out
questions once sampled at temperature 1 and once greedily. A model whose settings and rows are the same is not trained
again, and ``--report`` prints the tables of what is done so far. ``reinforce.py`` is the experiment on GRPO.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.learning import prepared  # noqa: E402
from benchmarks.learning.pool import (  # noqa: E402
    ARMS,
    RIGHT_ONLY,
    UNFILTERED,
    VERIFIED,
    PoolEntry,
    load_pool,
    select,
    write_rows,
)
from benchmarks.learning.report import Examined, Model, collect, print_tables  # noqa: E402
from benchmarks.learning.training import EXAMS, Learnt, Trainings, hash_of, in_parallel, texts_of  # noqa: E402

TRAIN_SCENES, HELD_SCENES = 2200, 250
ROWS, STEPS = 1800, 600
SHARE, SHARES = 0.4, (0.4, 0.2, 0.6)
PAIR, COMPARED = (VERIFIED, RIGHT_ONLY), (VERIFIED, RIGHT_ONLY, UNFILTERED)
SEEDS = (0, 1, 2)


def main() -> int:
    """Run the unfinished parts of the experiment, and print the tables; the last line is JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "learn")
    parser.add_argument("--full", action="store_true", help="three seeds, all arms and three shares of faults")
    parser.add_argument("--arms", nargs="+", choices=ARMS, metavar="ARM", help="only these of the arms of --full")
    parser.add_argument("--seeds", type=int, nargs="+", help="other seeds than 0, or with --full 0 1 2")
    parser.add_argument("--shares", type=float, nargs="+", help=f"other shares of faults than {SHARE}")
    parser.add_argument("--jobs", type=int, default=2, help="parallel trainings, each on one thread")
    parser.add_argument("--scenes", type=int, default=TRAIN_SCENES, help="the number of training scenes")
    parser.add_argument("--rows", type=int, default=ROWS, help="training rows of each arm of equal rows")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of supervised fine-tuning")
    parser.add_argument(
        "--set", action="append", default=[], dest="overrides", help="a setting for every trainer command"
    )
    parser.add_argument("--report", action="store_true", help="write the report only, without training")
    chosen = parser.parse_args()
    started = time.perf_counter()
    experiment = Experiment(chosen.output.resolve(), chosen.scenes, chosen.rows, chosen.steps, tuple(chosen.overrides))
    seeds = chosen.seeds or (SEEDS if chosen.full else SEEDS[:1])
    shares = chosen.shares or (SHARES if chosen.full else (SHARE,))
    if not chosen.report:
        models = list(models_of(seeds, shares, chosen.full or bool(chosen.arms)))
        models = [model for model in models if not chosen.arms or model.name in chosen.arms]
        for seed in seeds:
            experiment.make_untrained(seed)
        in_parallel([partial(experiment.run, model) for model in models], chosen.jobs)
    results = experiment.results(list(models_of((*SEEDS, *seeds), (*SHARES, *shares), full=True)))
    print_tables(results)
    gains = [row["sampled"]["accuracy"][0] for row in results["differences"] if row["name"].startswith(VERIFIED)]
    line = {"name": "learn", "ratio": next(iter(gains), None), "unit": "accuracy above right answers only, held out"}
    print(json.dumps(line | {"wall_s": round(time.perf_counter() - started)}))
    return 0


def models_of(seeds: Sequence[int], shares: Sequence[float], full: bool) -> Iterator[Model]:
    """Yield the models to train; the arms of the full table are trained at the default share of faults only."""
    for share in dict.fromkeys(shares):
        for seed in dict.fromkeys(seeds):
            for arm in (ARMS if share == SHARE else COMPARED) if full else PAIR:
                yield Model(arm, share, seed)


class Experiment:
    """Trains and examines the models of one pool."""

    def __init__(self, output: Path, scenes: int, rows: int, steps: int, overrides: tuple[str, ...]) -> None:
        """Make the scenes, the run of the pipeline over them, and the pool, if they are missing."""
        self.output, self._rows, self._steps = output, rows, steps
        self._trainings = Trainings(output, overrides)
        train = prepared.scenes(output, "train", scenes, prepared.TRAIN_SEED)
        self._held = prepared.scenes(output, "held", HELD_SCENES, prepared.HELD_SEED)
        self._run = prepared.curated(output, train)
        self._entries: list[PoolEntry] = load_pool(self._run, train, self._run.with_suffix(".pool.jsonl"))
        self._texts = texts_of(self._run, {each.id: (each.right.text, each.faulty.text) for each in self._entries})

    def make_untrained(self, seed: int) -> None:
        """Write the model of random weights that all arms of a seed start from."""
        self._trainings.make_untrained(seed, self._texts)

    def _chosen(self, model: Model) -> tuple[Path, list[tuple[str, str]]]:
        """Return the folder of a model's rows, which may be missing, and the ids and texts of the rows."""
        chosen = select(self._entries, model.name, model.share, self._rows, model.seed)
        return self.output / "data" / f"rows-{hash_of(chosen)}", chosen

    def _learnt(self, model: Model, rows: Path) -> Learnt:
        untrained = self._trainings.make_untrained(model.seed, self._texts)
        return self._trainings.learnt("sft", model.seed, rows, untrained, f"sft.steps={self._steps}")

    def run(self, model: Model) -> None:
        """Train and examine a model."""
        rows, chosen = self._chosen(model)
        if not list((rows / "sft").glob("*.parquet")):
            write_rows(self._run, chosen, rows)
        learnt = self._learnt(model, rows)
        self._trainings.train(learnt)
        for how in EXAMS:
            self._trainings.examine(learnt, self._held, how)
        print(f"done: {model.name}, {model.share:.0%} faulty, seed {model.seed}", flush=True)

    def results(self, models: Sequence[Model]) -> dict[str, Any]:
        """Return the figures of those of the models that have been examined, and write them to ``results.json``."""
        found: dict[Model, Examined] = {}
        for model in models:
            rows, _ = self._chosen(model)
            if not rows.is_dir():
                continue
            learnt = self._learnt(model, rows)
            if self._trainings.is_examined(learnt, self._held):
                seconds = json.loads(self._trainings.clock(learnt).read_text("utf-8"))
                answers = {how: self._trainings.answers(learnt, self._held, how) for how in EXAMS}
                found[model] = Examined(learnt.rows, seconds, answers)
        results = collect(found, self._held, self._entries)
        (self.output / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
        return results


if __name__ == "__main__":
    sys.exit(main())
