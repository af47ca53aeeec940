"""Makes the data of the experiments, each folder once: rendered scenes, and runs of the pipeline over them."""

import hashlib
from pathlib import Path

from benchmarks.learning.scenes import write_scenes
from benchmarks.learning.training import HERE, command

CURATE = HERE / "curate.toml"
TRAIN_SEED, HELD_SEED, RL_SEED = 1, 2, 3
FOR_SFT = 0.7
"""The share of scenes whose questions become SFT rows; those of the others become RL rows."""


def scenes(output: Path, name: str, number: int, seed: int) -> Path:
    """Write rendered scenes with questions, if they are missing; return their folder."""
    folder = output / "data" / f"{name}-{number}"
    if not (folder / "records.jsonl").is_file():
        write_scenes(folder, number, seed, name)
    return folder


def curated(output: Path, records: Path, sft_share: float = FOR_SFT) -> Path:
    """Run the pipeline over records, if the run is missing; return its folder.

    ``sft_share`` is the share of images whose questions become SFT rows.
    """
    config = hashlib.sha256(CURATE.read_bytes()).hexdigest()[:6]
    run = output / "data" / f"run-{records.name}-{sft_share:g}-{config}"
    if not (run / "run.json").is_file():
        words = ("run", "pipelines/grounded_cot.py", "--input", records, "--output", run, "--config", CURATE)
        command("groundtrace.pipelines.commands.cli", *words, "--set", f"split.sft_ratio={sft_share:g}")
    return run
