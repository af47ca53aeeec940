"""Does the trainer learn? From rendered scenes through the pipeline to SFT, GRPO and a control, on this machine.

``make learn`` runs it with one seed in about a quarter of an hour; ``--seeds 0 1 2`` gives docs/learning.svg, by
figure.py. What is held out are other scenes, of which 750 questions are answered once each, sampled at temperature 1.

    sft         on verified traces, from random weights
    unverified  from there, a few steps of SFT on traces of a teacher that sees badly, which nothing was verified of
    grpo        from there, with the ``argos`` reward
    control     the same with advantages shuffled over the step's rollouts: its gain is not owed to the reward

Other questions come with ``--train`` and ``--held``, folders of records; they should share no image.
"""

import argparse
import io
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

import pyarrow.parquet as pq  # noqa: E402
from PIL import Image  # noqa: E402

from benchmarks.learning.scenes import write_scenes  # noqa: E402
from benchmarks.learning.tiny_model import make_tiny_model  # noqa: E402
from schemas.coordinates import CoordinateFrame  # noqa: E402
from trainer.coordinates import Speech  # noqa: E402

TRAIN_SCENES, HELD_SCENES, UNVERIFIED_RECORDS = 2200, 250, 1800
FEW_STEPS = ("sft.steps=40", "optimiser.lr=5e-4", "optimiser.muon_lr=5e-3", "optimiser.warmup_steps=1")
SHOWN = ("accuracy", "best_constant", "exact_points", "points_in_gold_boxes", "spatial", "reward", "response_tokens")


def main() -> int:
    """Run the whole and print the table; the last line is JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "learn")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--train", type=Path, help="records to learn from, instead of rendered scenes")
    parser.add_argument("--held", type=Path, help="records to be examined on")
    parser.add_argument("--image-side-px", type=int, default=64, help="a picture is shrunk to the area of this square")
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="for every trainer command")
    parser.add_argument("--threads", type=int, default=0, help="torch threads (0: as torch chooses)")
    arguments = parser.parse_args()
    output = arguments.output.resolve()
    started = time.perf_counter()
    train, held = arguments.train or output / "train", arguments.held or output / "held"
    for folder, scenes, seed in ((train, TRAIN_SCENES, 1), (held, HELD_SCENES, 2)):
        if not (folder / "records.jsonl").is_file():
            write_scenes(folder, scenes, seed, folder.name)
    curate(train.resolve(), output / "run", "curate.toml")
    curate(train.resolve(), output / "unverified", "unverified.toml", "--limit", UNVERIFIED_RECORDS)
    overrides = [f"threads={arguments.threads}", *arguments.overrides]
    results = {
        seed: learn(output, held.resolve(), seed, arguments.image_side_px, overrides) for seed in arguments.seeds
    }
    print_table(results)
    (output / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    gains = [result["grpo"]["accuracy"] - result["unverified"]["accuracy"] for result in results.values()]
    line = {"name": "learn", "ratio": sum(gains) / len(gains), "unit": "accuracy gained by GRPO, held out"}
    print(json.dumps(line | {"seeds": arguments.seeds, "wall_s": round(time.perf_counter() - started)}))
    return 0


def curate(records: Path, run: Path, config: str, *more: Any) -> None:
    """A run of the pipeline; repeated, it takes its replies from the cache."""
    words = ("run", "pipelines/grounded_cot.py", "--input", records, "--output", run, "--config", HERE / config)
    command("pipelines.commands.cli", *words, *more)


def learn(output: Path, held: Path, seed: int, image_side_px: int, overrides: list[str]) -> dict[str, Any]:
    """The four trainings from one seed, and the held-out figures of each."""
    folder, run = output / f"seed-{seed}", output / "run"
    make_tiny_model(folder / "untrained", texts_of(run), seed, image_side_px)
    common = [f"seed={seed}", *overrides]
    found = {}
    for name, does, data, start, more in (
        ("sft", "sft", run, folder / "untrained", ()),
        ("unverified", "sft", output / "unverified", folder / "sft" / "model", FEW_STEPS),
        ("grpo", "grpo", run, folder / "unverified" / "model", ()),
        ("control", "grpo", run, folder / "unverified" / "model", ("grpo.shuffle_advantages=true",)),
    ):
        train(does, data, folder / name, start, [*common, *more])
        train("eval", held, folder / f"{name}-held", folder / name / "model", common)
        report = json.loads((folder / f"{name}-held" / "eval.json").read_text("utf-8"))
        kinds = {f"{kind}_accuracy": part["accuracy"] for kind, part in report["answer_type"].items()}
        found[name] = {key: report["all"][key] for key in SHOWN} | kinds
        print(f"seed {seed}, {name}: {found[name]}", flush=True)
    return found


def train(does: str, data: Path, output: Path, model: Path, settings: list[str]) -> None:
    """One ``trainer`` command."""
    config = HERE / ("grpo.toml" if does == "grpo" else "sft.toml")
    sets = [word for setting in (f"model.path={model}", *settings) for word in ("--set", setting)]
    command("trainer.cli", does, "--config", config, "--data", data, "--output", output, *sets)


def texts_of(run: Path) -> list[str]:
    """What the SFT rows say, with coordinates as the tiny model writes them."""
    speech = Speech(CoordinateFrame.MOLMO100, 0)
    texts = []
    for path in sorted((run / "sft").glob("*.parquet")):
        for row in pq.read_table(path, columns=["messages", "images"]).to_pylist():
            sizes = [Image.open(io.BytesIO(image["bytes"])).size for image in row["images"]]
            asked, *answers = (turn["content"] for turn in row["messages"])
            texts += [asked, *(speech.to_model(answer, sizes) for answer in answers)]
    return texts


def command(module: str, *words: Any) -> None:
    """A command of the project; its own last lines are shown where it fails."""
    subprocess.run([sys.executable, "-m", module, *map(str, words)], cwd=ROOT, check=True)


def print_table(results: dict[int, dict[str, Any]]) -> None:
    """One line for each seed and model."""
    names = list(next(iter(next(iter(results.values())).values())))
    print("seed  model       " + "  ".join(f"{name:>20}" for name in names))
    for seed, models in results.items():
        for model, values in models.items():
            cells = [f"{'–' if values[name] is None else format(values[name], '.3f'):>20}" for name in names]
            print(f"{seed:<5} {model:<11} " + "  ".join(cells))


if __name__ == "__main__":
    sys.exit(main())
