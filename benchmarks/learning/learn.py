"""Measures what verified data is worth: one pool of traces with planted faults, filtered in several ways.

    python benchmarks/learning/learn.py             # `make learn`: one seed of three arms, GRPO and its control
    python benchmarks/learning/learn.py --full      # three seeds, all arms, three shares of faults

The arms are supervised fine-tuning from random weights on as many rows for as many steps, of the same pool:

    verified                    what the pipeline's verifier keeps
    right answers only          what has the gold answer
    unfiltered                  anything
    whole pool                  anything, and all of it: more rows for as many steps (--full)
    unfiltered, without faults  the questions of "unfiltered", each with its right trace (--full)

GRPO with the ``argos`` reward starts from a model that was trained on the verified rows for a third of the
steps ("early"); its control has the advantages shuffled over the step's rollouts. With --full it also starts from
there with pointing as in the paper (Argos Eq. 3: targets that are missed, and wrong points alone, cost nothing), and,
with a control, from the model of all steps. Every model
answers the 750 held-out questions once sampled at temperature 1 and once greedily. What is done is not done again: the
same command goes on where it stopped, and ``--report`` prints the tables of what is done so far.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.learning.pool import ARMS, RIGHT_ONLY, UNFILTERED, VERIFIED, PoolEntry, load_pool  # noqa: E402
from benchmarks.learning.report import CONTROL, EARLY, EQ9, GRPO, LATE, LATE_CONTROL, collect, print_tables  # noqa: E402
from benchmarks.learning.scenes import write_scenes  # noqa: E402
from benchmarks.learning.training import Model, Trainings, command  # noqa: E402

TRAIN_SCENES, HELD_SCENES = 2200, 250
ROWS, STEPS, EARLY_SHARE = 1800, 600, 1 / 3
SHARE, SHARES = 0.4, (0.4, 0.2, 0.6)
MAIN_ARMS = (VERIFIED, RIGHT_ONLY, UNFILTERED)
SEEDS = (0, 1, 2)
EQ9_OPTIONS = ("reward.options.pointing.first_share=1", "reward.options.pointing.wrong_cost=0")
SHUFFLED = "grpo.shuffle_advantages=true"
FROM_EARLY = {GRPO: (), CONTROL: (SHUFFLED,), EQ9: EQ9_OPTIONS}
FROM_VERIFIED = {LATE: (), LATE_CONTROL: (SHUFFLED,)}


def main() -> int:
    """Run the unfinished parts of the experiment, and print the tables; the last line is JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "learn")
    parser.add_argument("--full", action="store_true", help="three seeds, all arms and three shares of faults")
    parser.add_argument("--seeds", type=int, nargs="+", help="other seeds than 0, or with --full 0 1 2")
    parser.add_argument("--shares", type=float, nargs="+", help=f"other shares of faults than {SHARE}")
    parser.add_argument("--jobs", type=int, default=2, help="parallel trainings, each on one thread")
    parser.add_argument("--scenes", type=int, default=TRAIN_SCENES, help="the number of training scenes")
    parser.add_argument("--rows", type=int, default=ROWS, help="training rows of each arm except the whole pool")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of supervised fine-tuning")
    parser.add_argument(
        "--set", action="append", default=[], dest="overrides", help="a setting for every trainer command"
    )
    parser.add_argument("--report", action="store_true", help="write the report only, without training")
    arguments = parser.parse_args()
    output, started = arguments.output.resolve(), time.perf_counter()
    sizes = {name: getattr(arguments, name) for name in ("scenes", "rows", "steps", "overrides")}
    if (refusal := other_experiment(output, sizes)) is not None:
        parser.error(refusal)
    entries = prepare(output, arguments.scenes)
    if not arguments.report:
        seeds = arguments.seeds or (SEEDS if arguments.full else SEEDS[:1])
        shares = arguments.shares or (SHARES if arguments.full else (SHARE,))
        trainings = Trainings(output, entries, arguments.rows, tuple(arguments.overrides))
        for seed in seeds:
            trainings.make_untrained(seed)
        in_parallel(list(chains(trainings, arguments.steps, seeds, shares, arguments.full)), arguments.jobs)
    results = collect(output, entries)
    (output / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print_tables(results)
    gains = [row["sampled"]["accuracy"][0] for row in results["differences"] if row["name"].startswith(VERIFIED)]
    line = {"name": "learn", "ratio": next(iter(gains), None), "unit": "accuracy above right answers only, held out"}
    print(json.dumps(line | {"wall_s": round(time.perf_counter() - started)}))
    return 0


def other_experiment(output: Path, sizes: Mapping[str, Any]) -> str | None:
    """Return why the folder cannot be continued: its models have other sizes. None if it can be continued."""
    begun = output / "experiment.json"
    if not begun.is_file():
        output.mkdir(parents=True, exist_ok=True)
        begun.write_text(json.dumps(sizes) + "\n", "utf-8")
    before = json.loads(begun.read_text("utf-8"))
    changed = [name for name, value in sizes.items() if before[name] != value]
    if not changed:
        return None
    name = changed[0]
    return f"{output} was begun with {name} {before[name]!r}, not {sizes[name]!r}: choose another --output"


def prepare(output: Path, scenes: int) -> list[PoolEntry]:
    """Make the scenes, the run of the pipeline over them, and the pool, each only once; returns the pool."""
    for name, number, seed in (("train", scenes, 1), ("held", HELD_SCENES, 2)):
        if not (output / name / "records.jsonl").is_file():
            write_scenes(output / name, number, seed, name)
    if not (output / "run" / "run.json").is_file():
        words = ("run", "pipelines/grounded_cot.py", "--input", output / "train", "--output", output / "run")
        command("groundtrace.pipelines.commands.cli", *words, "--config", HERE / "curate.toml")
    return load_pool(output / "run", output / "train", output / "pool.jsonl")


def chains(
    trainings: Trainings, steps: int, seeds: Sequence[int], shares: Sequence[float], full: bool
) -> Iterator[Callable[[], None]]:
    """Yield the pieces of work that can run in parallel; each trains an arm or the early model, and then GRPO from it.

    GRPO and the arms of the full table run at the default share of faults only.
    """
    for share in shares:
        for seed in seeds:
            for arm in ARMS if full and share == SHARE else MAIN_ARMS:
                from_there = FROM_VERIFIED if full and share == SHARE and arm == VERIFIED else {}
                yield partial(train, trainings, Model(arm, share, seed), arm, steps, from_there)
            if share == SHARE:
                early, early_steps = Model(EARLY, SHARE, seed), round(EARLY_SHARE * steps)
                from_there = {name: how for name, how in FROM_EARLY.items() if full or name != EQ9}
                yield partial(train, trainings, early, VERIFIED, early_steps, from_there)


def train(trainings: Trainings, model: Model, arm: str, steps: int, reinforced: Mapping[str, Sequence[str]]) -> None:
    """Fine-tune on the rows of an arm, then run GRPO from this model under each name, and examine all models."""
    start = trainings.fine_tune(model, arm, steps)
    trainings.examine(model, start)
    print(f"done: {model.folder}", flush=True)
    for name, how in reinforced.items():
        further = Model(name, model.share, model.seed)
        trainings.examine(further, trainings.reinforce(further, start, *how))
        print(f"done: {further.folder}", flush=True)


def in_parallel(work: Sequence[Callable[[], None]], jobs: int) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
