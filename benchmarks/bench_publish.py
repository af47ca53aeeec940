"""Measures the peak memory of publishing a run: a large run compared with one of a quarter of its size.

The runs are synthetic: shards as ``beam run`` writes them (the same schema, row groups of 100 MB), images of noise. One
row in ten is from a source of unknown licence, so that every shard is read and written again. A dry run does everything
except the upload. Two exports are measured: one that embeds images, and one that writes them as files.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from groundtrace.schemas.arrow import REJECTED_SCHEMA, RL_SCHEMA, SFT_SCHEMA  # noqa: E402

SMALL_SHARE = 0.25
IMAGE_SIDE_PX, GROUP_BYTES, SHARD_GROUPS = 365, 100_000_000, 4
IMAGE_BYTES = 3 * IMAGE_SIDE_PX**2
EXPORT = ("export", "{run}", "--family", "qwen3-vl", "--output", "{staging}/export", "--format")
COMMANDS = {
    "publish --dry-run": ("publish", "{run}", "--repo", "bench/set", "--dry-run", "--staging", "{staging}"),
    "export trl": (*EXPORT, "trl"),
    "export jsonl": (*EXPORT, "jsonl"),
}
"""The measured commands, by name."""


def main() -> None:
    """Measure both sizes and print a table; the last line is JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--gb", type=float, default=1.0, help="the size of the large run")
    parser.add_argument("--folder", type=Path, help="the folder for the run and a copy of it, twice the size")
    arguments = parser.parse_args()
    peaks: dict[str, dict[float, float]] = {}
    print(f"{'command':<20}{'GB':>8}{'peak MB':>10}{'seconds':>10}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for size_gb in (arguments.gb * SMALL_SHARE, arguments.gb):
            run, staging = Path(folder) / "run", Path(folder) / "staging"
            write_run(run, size_gb)
            for name, words in COMMANDS.items():
                staging.mkdir()
                peak_mb, seconds = measured([word.format(run=run, staging=staging) for word in words])
                peaks.setdefault(name, {})[size_gb] = peak_mb
                print(f"{name:<20}{size_gb:>8.2f}{peak_mb:>10.0f}{seconds:>10.1f}", flush=True)
                shutil.rmtree(staging)
            shutil.rmtree(run)
    small, large = arguments.gb * SMALL_SHARE, arguments.gb
    ratios = {name: round(found[large] / found[small], 3) for name, found in peaks.items()}
    line = {"name": "publish", "ratio": max(ratios.values()), "unit": "of the peak memory at a quarter of the size"}
    print(json.dumps(line | {"gb": arguments.gb, "peak_mb": round(max(found[large] for found in peaks.values()))}))


def write_run(run: Path, size_gb: float) -> None:
    """Write a finished run whose SFT shards hold ``size_gb`` GB of images."""
    rows = max(1, round(size_gb * 1e9 / IMAGE_BYTES))
    group_rows = GROUP_BYTES // IMAGE_BYTES
    shard_rows = group_rows * SHARD_GROUPS
    shards = -(-rows // shard_rows)
    for name in ("sft", "rl", "rejected"):
        (run / name).mkdir(parents=True)
    for shard in range(shards):
        file = run / "sft" / f"train-{shard:05d}-of-{shards:05d}.parquet"
        with pq.ParquetWriter(file, SFT_SCHEMA, compression="zstd") as writer:
            last = min(rows, (shard + 1) * shard_rows)
            for first in range(shard * shard_rows, last, group_rows):
                group = [row_of(number) for number in range(first, min(last, first + group_rows))]
                writer.write_table(pa.Table.from_pylist(group, SFT_SCHEMA), row_group_size=len(group))
    for name, schema in (("rl", RL_SCHEMA), ("rejected", REJECTED_SCHEMA)):
        pq.write_table(schema.empty_table(), run / name / "train-00000-of-00001.parquet")
    (run / "run.json").write_text(json.dumps(summary_of(rows)), "utf-8")


def row_of(number: int) -> dict[str, Any]:
    """Return an SFT row with one image."""
    point = '<points x1="3" y1="4" alt="thing">thing</points>'
    return {
        "id": f"q{number:08d}",
        "source": "closed" if number % 10 == 0 else "open",
        "license": "unknown" if number % 10 == 0 else "cc-by-4.0",
        "recipe": "bench",
        "images": [{"bytes": noise(), "path": f"{number}.png"}],
        "question": "How many things are there?",
        "answer": "1",
        "answer_type": "numeric",
        "messages": [
            {"role": "user", "content": "<image>How many things are there?"},
            {"role": "assistant", "content": f"<think>One: {point}.</think><answer>1</answer>"},
        ],
        "scores": {"outcome": 1.0, "spatial": 1.0, "temporal": None, "reasoning": None, "final": 1.0},
        "lineage": {"prompts": [], "models": [], "revision": "bench", "cache_keys": []},
    }


def noise() -> bytes:
    """Return a PNG file of noise, which cannot be compressed."""
    pixels = np.frombuffer(os.urandom(IMAGE_BYTES), np.uint8).reshape(IMAGE_SIDE_PX, IMAGE_SIDE_PX, 3)
    return cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 0])[1].tobytes()


def summary_of(rows: int) -> dict[str, Any]:
    """Return the content of the run's ``run.json``."""
    return {
        "recipe": "bench",
        "input": "bench",
        "counts": {"input": rows, "sft": rows, "rl": 0, "rejected": {}},
        "stages": {},
        "ledger": {},
        "roles": {},
        "prompts": {},
        "finished": "2026-01-01T00:00:00+00:00",
        "wall_s": 1.0,
        "revision": "bench",
        "config_sha256": "0" * 64,
        "self_judged": False,
    }


def measured(words: list[str]) -> tuple[float, float]:
    """Return the peak memory (MiB) and the time (s) of a ``beam`` command in a separate process."""
    code = (
        "import resource, sys, time; from groundtrace.pipelines.commands import cli; started = time.perf_counter()\n"
        "code = cli.main(sys.argv[1:])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter() - started, code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    peak_kib, seconds, exit_code = done.stdout.splitlines()[-1].split()
    if exit_code != "0":
        raise SystemExit(f"beam {' '.join(words)} ended with {exit_code}: {done.stderr}")
    return int(peak_kib) / 1024, float(seconds)


if __name__ == "__main__":
    main()
