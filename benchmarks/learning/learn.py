"""What is verified data worth? One pool of traces with planted faults, filtered in several ways, and what is learnt.

    python benchmarks/learning/learn.py             # `make learn`: one seed of three arms, GRPO and its control
    python benchmarks/learning/learn.py --full      # three seeds, all arms, three shares of faults

The arms are supervised fine-tuning from random weights on as many rows for as many steps, of the same pool:

    verified                    what the pipeline's verifier keeps
    right answers only          what has the gold answer
    unfiltered                  anything
    whole pool                  anything, and all of it: more rows for as many steps (--full)
    unfiltered, without faults  the questions of "unfiltered", each with its right trace (--full)

GRPO with the ``argos`` reward starts from a model that was trained on the verified rows for fewer steps ("early"); its
control has the advantages shuffled over the step's rollouts. Every model answers the 750 held-out questions once
sampled at temperature 1 and once greedily. What is done is not done again: the same command goes on where it stopped.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from PIL import Image  # noqa: E402

from benchmarks.learning import held as held_out  # noqa: E402
from benchmarks.learning.pool import (  # noqa: E402
    ARMS,
    MENDED,
    RIGHT_ONLY,
    UNFILTERED,
    VERIFIED,
    WHOLE_POOL,
    Entry,
    caught,
    load_pool,
    rows_of,
    select,
    write_rows,
)
from benchmarks.learning.scenes import write_scenes  # noqa: E402
from benchmarks.learning.tiny_model import make_tiny_model  # noqa: E402
from schemas.coordinates import CoordinateFrame  # noqa: E402
from trainer.coordinates import Speech  # noqa: E402

TRAIN_SCENES, HELD_SCENES = 2200, 250
ROWS, EARLY_SHARE = 1800, 0.5
SHARES, SHARE = (0.2, 0.4, 0.6), 0.4
MAIN_ARMS = (VERIFIED, RIGHT_ONLY, UNFILTERED)
EARLY, GRPO, CONTROL = "early", "GRPO", "advantages shuffled"
GREEDY = "rollout.temperature=1e-4"  # so cold that a draw is the most likely token
PAIRS = (
    (VERIFIED, RIGHT_ONLY),
    (VERIFIED, UNFILTERED),
    (VERIFIED, WHOLE_POOL),
    (MENDED, UNFILTERED),
    (GRPO, EARLY),
    (CONTROL, EARLY),
    (GRPO, CONTROL),
)


@dataclass(frozen=True)
class Model:
    """One model of the experiment: what it is called, the share of faults in its pool, and its seed."""

    name: str
    share: float
    seed: int

    @property
    def folder(self) -> str:
        """Where it stands, in the output folder."""
        return f"share-{self.share:g}/seed-{self.seed}/{self.name.replace(',', '').replace(' ', '-').lower()}"


@dataclass(frozen=True)
class Bench:
    """What all models share: the output folder, the pool, and the trainer's settings given by hand."""

    output: Path
    entries: list[Entry]
    overrides: tuple[str, ...]
    sft_steps: int

    def train_arm(self, model: Model, steps: int | None = None) -> Path:
        """SFT on the rows of an arm, which an early model shares with the verified one; returns the trained model."""
        arm = VERIFIED if model.name == EARLY else model.name
        folder = self.output / model.folder
        if not (folder / "rows").is_dir():
            chosen = select(self.entries, arm, model.share, min(ROWS, len(self.entries) // 3), model.seed)
            write_rows(self.output / "run", chosen, folder / "rows")
        more = [] if steps is None else [f"sft.steps={steps}"]
        return self._train("sft", folder / "rows", folder, self.untrained(model.seed), model.seed, more)

    def train_grpo(self, model: Model, start: Path) -> Path:
        """GRPO, or its control, from a model; returns the trained one."""
        more = ["grpo.shuffle_advantages=true"] if model.name == CONTROL else []
        return self._train("grpo", self.output / "run", self.output / model.folder, start, model.seed, more)

    def examine(self, model: Model, trained: Path) -> None:
        """The answers to the held-out questions, sampled and greedy."""
        for how, more in (("sampled", []), ("greedy", [GREEDY])):
            folder = self.output / model.folder / how
            if not (folder / "eval.json").is_file():
                self._trainer("eval", self.output / "held", folder, trained, model.seed, more)

    def untrained(self, seed: int) -> Path:
        """The model of random weights that all arms of a seed start from."""
        return self.output / f"untrained-{seed}"

    def _train(self, does: str, data: Path, folder: Path, start: Path, seed: int, more: list[str]) -> Path:
        trained = folder / "trained"
        if not (trained / "model" / "config.json").is_file() or not (folder / "seconds.json").is_file():
            started = time.perf_counter()
            self._trainer(does, data, trained, start, seed, more)
            (folder / "seconds.json").write_text(json.dumps(round(time.perf_counter() - started)), "utf-8")
        return trained / "model"

    def _trainer(self, does: str, data: Path, output: Path, start: Path, seed: int, more: list[str]) -> None:
        config = HERE / ("grpo.toml" if does == "grpo" else "sft.toml")
        settings = (f"model.path={start}", f"seed={seed}", "threads=1", *self.overrides, *more)
        sets = [word for setting in settings for word in ("--set", setting)]
        output.mkdir(parents=True, exist_ok=True)
        with (output / "log.txt").open("a") as log:
            _command("trainer.cli", does, "--config", config, "--data", data, "--output", output, *sets, stdout=log)


def main() -> int:
    """Do what is not done yet, and print the tables; the last line is JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "learn")
    parser.add_argument("--full", action="store_true", help="three seeds, all arms and three shares of faults")
    parser.add_argument("--seeds", type=int, nargs="+", help="other seeds than 0, or with --full 0, 1 and 2")
    parser.add_argument("--shares", type=float, nargs="+", help=f"other shares of faults than {SHARE}")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at once, each on one thread")
    parser.add_argument("--scenes", type=int, default=TRAIN_SCENES, help="to learn from; fewer for a first look")
    parser.add_argument("--sft-steps", type=int, default=600)
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="for every trainer command")
    parser.add_argument("--report", action="store_true", help="train nothing: the tables of what is done")
    arguments = parser.parse_args()
    output, started = arguments.output.resolve(), time.perf_counter()
    entries = prepare(output, arguments.scenes)
    bench = Bench(output, entries, tuple(arguments.overrides), arguments.sft_steps)
    if not arguments.report:
        seeds = arguments.seeds or ([0, 1, 2] if arguments.full else [0])
        shares = arguments.shares or (SHARES if arguments.full else (SHARE,))
        run_all(bench, seeds, shares, arguments.full, arguments.jobs)
    results = collect(output, entries) | {"wall_s": round(time.perf_counter() - started)}
    (output / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    print_tables(results)
    gains = [d["sampled"]["accuracy"] for d in results["differences"] if (d["model"], d["minus"]) == PAIRS[0]]
    gain = gains[0][0] if gains else None
    line = {"name": "learn", "ratio": gain, "unit": "accuracy gained by verifying more than the answer, held out"}
    print(json.dumps(line | {"wall_s": results["wall_s"]}))
    return 0


def prepare(output: Path, scenes: int) -> list[Entry]:
    """Scenes, the run of the pipeline over them, and the pool; each is made once."""
    for name, number, seed in (("train", scenes, 1), ("held", HELD_SCENES, 2)):
        if not (output / name / "records.jsonl").is_file():
            write_scenes(output / name, number, seed, name)
    if not (output / "run" / "run.json").is_file():
        words = ("run", "pipelines/grounded_cot.py", "--input", output / "train", "--output", output / "run")
        _command("pipelines.commands.cli", *words, "--config", HERE / "curate.toml")
    return load_pool(output / "run", output / "train", output / "pool.jsonl")


def run_all(bench: Bench, seeds: list[int], shares: Any, full: bool, jobs: int) -> None:
    """Every training and examination, some at once; the models of one chain come one after the other."""
    texts = _texts(bench.output / "run", bench.entries)
    for seed in seeds:
        if not (bench.untrained(seed) / "config.json").is_file():
            make_tiny_model(bench.untrained(seed), texts, seed)
    with ThreadPoolExecutor(jobs) as pool:
        futures: list[Future] = []
        for seed in seeds:
            for share in (SHARE, *(share for share in shares if share != SHARE)):
                if share not in shares:
                    continue
                arms = ARMS if full and share == SHARE else MAIN_ARMS
                futures += [pool.submit(_arm, bench, Model(arm, share, seed)) for arm in arms]
                if share == SHARE:
                    futures.append(pool.submit(_reinforced, bench, share, seed))
        for future in futures:
            future.result()


def _arm(bench: Bench, model: Model) -> None:
    bench.examine(model, bench.train_arm(model, bench.sft_steps))
    print(f"done: {model.folder}", flush=True)


def _reinforced(bench: Bench, share: float, seed: int) -> None:
    early = Model(EARLY, share, seed)
    start = bench.train_arm(early, round(EARLY_SHARE * bench.sft_steps))
    bench.examine(early, start)
    for name in (GRPO, CONTROL):
        model = Model(name, share, seed)
        bench.examine(model, bench.train_grpo(model, start))
        print(f"done: {model.folder}", flush=True)


def collect(output: Path, entries: list[Entry]) -> dict[str, Any]:
    """All figures of what is done: of each model, over the seeds of a name and share, and the differences."""
    records = held_out.read_held(output / "held")
    faulty = {(entry.id, entry.faulty.text) for entry in entries}
    names = (*ARMS, EARLY, GRPO, CONTROL)
    models = [Model(name, share, seed) for share in SHARES for name in names for seed in range(10)]
    done = [model for model in models if (output / model.folder / "greedy" / "eval.json").is_file()]
    found = {
        (model, how): held_out.sums(output / model.folder / how / "responses.jsonl", records)
        for model in done
        for how in ("sampled", "greedy")
    }
    each = []
    for model in done:
        seconds = json.loads((output / model.folder / "seconds.json").read_text("utf-8"))
        figures = {how: held_out.estimate([found[model, how]]) for how in ("sampled", "greedy")}
        each.append({**vars(model), "seconds": seconds, **_rows(output / model.folder, faulty), **figures})
    means, differences = [], []
    for share in SHARES:
        of = {name: [m for m in done if (m.name, m.share) == (name, share)] for name in names}
        for name, some in of.items():
            if some:
                figures = {h: held_out.estimate([found[m, h] for m in some]) for h in ("sampled", "greedy")}
                means.append({"name": name, "share": share, "seeds": [m.seed for m in some], **figures})
        for name, other in PAIRS:
            seeds = sorted({m.seed for m in of[name]} & {m.seed for m in of[other]})
            if seeds:
                sides = [[Model(side, share, seed) for seed in seeds] for side in (name, other)]
                figures = {
                    how: held_out.difference(*([found[m, how] for m in side] for side in sides))
                    for how in ("sampled", "greedy")
                }
                differences.append({"model": name, "minus": other, "share": share, "seeds": seeds, **figures})
    return {"pool": caught(entries), "models": each, "means": means, "differences": differences}


def _rows(folder: Path, faulty: set[tuple[str, str]]) -> dict[str, int]:
    """How many rows an arm has and how many of them hold a fault; nothing of what GRPO trained."""
    if not (folder / "rows").is_dir():
        return {}
    rows = rows_of(folder / "rows").select(["id", "messages"]).to_pylist()
    return {"rows": len(rows), "faulty_rows": sum((r["id"], r["messages"][-1]["content"]) in faulty for r in rows)}


def print_tables(results: dict[str, Any]) -> None:
    """What the verifier kept of the pool, the models over their seeds, and the differences."""
    print(f"{'fault':28} {'traces':>7} {'right':>7} {'kept':>7}")
    for kind, row in results["pool"].items():
        print(f"{kind:28} {row['traces']:7} {row['right']:7} {row['kept']:7}")
    heads = "".join(f" {name:>26}" for name in held_out.FIGURES)
    for how in ("sampled", "greedy"):
        print(f"\n{how:58}{heads}")
        for row in results["means"]:
            name = f"{row['name']}, faults {row['share']:.0%}, seeds {_listed(row['seeds'])}"
            print(f"{name:58}" + _cells(row[how]))
        for row in results["differences"]:
            name = f"{row['model']} − {row['minus']}, faults {row['share']:.0%}, seeds {_listed(row['seeds'])}"
            print(f"{name:58}" + _cells(row[how], "+"))


def _listed(seeds: list[int]) -> str:
    return " ".join(map(str, seeds))


def _cells(figures: dict[str, Any], sign: str = "") -> str:
    cells = []
    for name in held_out.FIGURES:
        value = figures.get(name)
        cells.append("–" if value is None else "{:{s}.3f} [{:{s}.3f}, {:{s}.3f}]".format(*value, s=sign))
    return "".join(f" {cell:>26}" for cell in cells)


def _texts(run: Path, entries: list[Entry]) -> list[str]:
    """All that the rows of any arm say, with coordinates as the tiny model writes them."""
    speech = Speech(CoordinateFrame.MOLMO100, 0)
    by_id = {entry.id: entry for entry in entries}
    texts = []
    for row in rows_of(run).select(["id", "messages", "images"]).to_pylist():
        sizes = [Image.open(io.BytesIO(image["bytes"])).size for image in row["images"]]
        entry = by_id[row["id"]]
        texts += [row["messages"][0]["content"]]
        texts += [speech.to_model(judged.text, sizes) for judged in (entry.right, entry.faulty)]
    return texts


def _command(module: str, *words: Any, stdout: Any = None) -> None:
    """A command of the project; its own last lines are shown where it fails."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", module, *map(str, words)], cwd=ROOT, check=True, stdout=stdout, env=environment)


if __name__ == "__main__":
    sys.exit(main())
