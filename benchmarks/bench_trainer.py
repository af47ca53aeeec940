"""Compares the trainer with TRL 1.16: SFT from the rows on, and GRPO's update on rollouts given in advance.

    python benchmarks/bench_trainer.py [--model tiny|1b] [--turns 3] [--steps 8] [--threads 1] [--tune]

Model, rows, rollouts, precision and device are the same; each side is a separate process, and the sides take turns. A
run fails if the first step's loss or gradient norm differs between the sides (exit code 1). On a CPU the model is that
of benchmarks/learning in float32; on a GPU (``1b``) a random model with the widths of Qwen3-VL-2B in bfloat16 with
float32 master weights. ``--tune`` first tries TRL with several numbers of rows per forward pass and kinds of attention,
and uses the fastest; on a GPU this is the default. ``--model 1b --shrink`` only tests the code path on any machine. On
a CPU with one thread, seconds are CPU time of the process, so that other load on the machine hardly changes them.
"""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
if "--threads" not in sys.argv:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from bench_pipeline_overhead import ratios, spread  # noqa: E402
from model_access import run_side  # noqa: E402
from trainer_inputs import StepWork, write_inputs  # noqa: E402

WARMUP = 2
TOLERANCE = {"float32": 0.01, "bfloat16": 0.1}
"""The largest relative difference of the first step's loss and gradient norm, by dtype. In this trainer's GRPO, tokens
that samplers must not draw have probability 0, in TRL's they do not; in float32 that is most of the difference. With
bfloat16, this trainer's hidden states are bfloat16, too, whereas TRL's autocast adds them up in float32."""
PEAK_FLOPS = {"H200": 989e12, "H100": 989e12, "A100": 312e12}
"""Dense bfloat16 FLOP per second, by a part of the device's name."""


@dataclass(frozen=True)
class StepSize:
    """The size of a step: SFT rows, rollout groups and their size; ``tokens`` limits this trainer's forward pass."""

    rows: int
    groups: int
    group_size: int
    tokens: int
    dtype: str
    micros: tuple[int, ...]
    attentions: tuple[str, ...]


SIZES = {
    "tiny": StepSize(32, 16, 8, 8192, "float32", (8, 16, 32), ("sdpa", "eager")),
    "1b": StepSize(32, 8, 8, 16384, "bfloat16", (4, 8, 16, 32), ("sdpa",)),
}
FASTEST = {"sft": (16, "sdpa"), "grpo": (32, "sdpa")}
"""TRL's rows per forward pass and attention on a CPU with the tiny model, as ``--tune`` found them."""


class TrainerBench:
    """Runs the sides on one set of inputs."""

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.size, self.folder, self.arguments = SIZES[arguments.model], folder, arguments
        size = self.size
        steps = WARMUP + arguments.steps
        self.made = write_inputs(
            folder, arguments.model, arguments.shrink, steps, size.rows, size.groups, size.group_size
        )
        self.chosen = dict(FASTEST)

    def side(self, name: str, micro: int, attention: str, dtype: str, steps: int) -> dict[str, Any]:
        """Return the figures of one side in one turn."""
        rows = self.size.rows if name.endswith("sft") else self.size.groups * self.size.group_size
        options: dict[str, Any] = {"inputs": self.folder, "dtype": dtype, "rows": rows, "steps": steps}
        options |= {"warmup": WARMUP, "tokens": self.size.tokens, "micro": micro, "attention": attention}
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        ran = run_side(str(HERE / "trainer_sides.py"), name, *words, "--threads", self.arguments.threads)
        return ran.printed | {"rss_mib": ran.rss_mib}

    def tune(self, task: str) -> None:
        """Try each of TRL's settings once, print the times, and keep the fastest. Settings that fail are left out."""
        rows = self.size.rows if task == "sft" else self.size.groups * self.size.group_size
        found = {}
        print(f"\nTRL's settings for {task}: rows a pass, attention, seconds a step, peak MiB")
        for micro in dict.fromkeys((*self.size.micros, rows)):
            for attention in self.size.attentions:
                try:
                    figures = self.side(
                        f"trl-{task}", micro, attention, self.size.dtype, max(2, self.arguments.steps // 2)
                    )
                except RuntimeError as error:
                    print(f"{micro:>6} {attention:<18} {str(error).strip().splitlines()[-1][:80]}", flush=True)
                    continue
                found[micro, attention] = statistics.median(figures["step_s"])
                print(
                    f"{micro:>6} {attention:<18} {found[micro, attention]:>7.3f} {figures['peak_mib']:>8.0f}",
                    flush=True,
                )
        self.chosen[task] = min(found, key=lambda key: found[key])

    def turn(self, task: str) -> dict[str, dict[str, Any]]:
        """Return the figures of all sides of a task, which runs once. Exits if the sides disagree."""
        micro, attention = self.chosen[task]
        steps, dtype = self.arguments.steps, self.size.dtype
        sides = {"ours": self.side(f"ours-{task}", micro, attention, dtype, steps)}
        sides["TRL"] = self.side(f"trl-{task}", micro, attention, dtype, steps)
        if dtype == "bfloat16":
            sides["TRL, bf16 weights"] = self.side(f"trl-{task}", micro, attention, "bfloat16-only", steps)
        require_equal(task, sides["ours"], sides["TRL"], TOLERANCE[dtype])
        return sides


def require_equal(task: str, ours: dict[str, Any], theirs: dict[str, Any], tolerance: float) -> None:
    """Exit with a message unless loss and gradient norm of the first step agree within the tolerance."""
    for name in ("loss", "grad_norm"):
        if not math.isclose(ours[name], theirs[name], rel_tol=tolerance, abs_tol=1e-3):
            sys.exit(f"{task}: {name} is {ours[name]} here and {theirs[name]} in TRL")


def print_task(task: str, bench: TrainerBench, turns: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Print the table of a task; returns its figures for the JSON line."""
    counts: StepWork = bench.made[task]
    micro, attention = bench.chosen[task]
    kind = "SFT" if task == "sft" else "GRPO update"
    print(
        f"\n{kind}: {counts.tokens:.0f} tokens a step, {counts.targets:.0f} of them targets, {counts.patches:.0f}",
        end="",
    )
    print(f" patches of different pictures; TRL takes {micro} rows a pass with {attention}; median (lowest-highest)")
    print(f"{'':<18}{'s/step':>22}{'tokens/s':>22}{'without data, s':>22}{'peak MiB':>10}{'MFU':>8}")
    line: dict[str, Any] = {}
    times = {}
    for name in turns[0]:
        whole = [statistics.median(turn[name]["step_s"]) for turn in turns]
        update = [statistics.median(turn[name]["update_s"]) for turn in turns]
        memory = statistics.median(turn[name]["peak_mib"] for turn in turns)
        share = mfu(counts, statistics.median(whole))
        rates = [counts.tokens / each for each in whole]
        tail = f"{spread(update, 3):>22}{memory:>10.0f}{'-' if share is None else format(share, '.1%'):>8}"
        print(f"{name:<18}{spread(whole, 3):>22}{spread(rates, 0):>22}{tail}")
        times[name] = whole, update, memory
        key = f"{task}_{'ours' if name == 'ours' else name.replace(', ', '_').replace(' ', '_').lower()}"
        line |= {f"{key}_s": round(statistics.median(whole), 4), f"{key}_mib": round(memory)}
        line |= {f"{key}_tokens_per_s": round(statistics.median(rates)), f"{key}_mfu": share and round(share, 4)}
    for name in [name for name in times if name != "ours"]:
        faster = [ratios(times[name][part], times["ours"][part]) for part in (0, 1)]
        memory = times["ours"][2] / times[name][2]
        print(f"over {name}: {spread(faster[0], 2)} times as fast, without data {spread(faster[1], 2)};", end="")
        print(f" {memory:.2f} of its memory")
        if name == "TRL":
            line |= {f"{task}_ratio": round(statistics.median(faster[0]), 3), f"{task}_memory_ratio": round(memory, 3)}
            line[f"{task}_ratio_without_data"] = round(statistics.median(faster[1]), 3)
    if not torch.cuda.is_available():
        beyond = [statistics.median(turn[name]["beyond_mib"] for turn in turns) for name in ("ours", "TRL")]
        print(f"memory on top of that before the first step: {beyond[0]:.0f} MiB here, {beyond[1]:.0f} in TRL")
        line[f"{task}_beyond_mib"], line[f"{task}_trl_beyond_mib"] = map(round, beyond)
    return line


def mfu(counts: StepWork, step_s: float) -> float | None:
    """Return the model FLOP utilisation, with the FLOP of :func:`trainer_inputs.counts`; None for an unknown device."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    peak = next((peak for name, peak in PEAK_FLOPS.items() if name in device), None)
    return counts.flop / step_s / peak if peak else None


def main() -> None:
    """Measure, print the tables and the JSON line."""
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--model", choices=SIZES, default="1b" if on_gpu else "tiny")
    parser.add_argument("--shrink", action="store_true", help="make the 1b model so small that it runs anywhere")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8, help="timed steps of each side in each turn")
    parser.add_argument("--threads", type=int, default=0 if on_gpu else 1, help="torch threads (0: as torch chooses)")
    parser.add_argument("--tune", action="store_true", default=on_gpu, help="find TRL's fastest settings first")
    arguments = parser.parse_args()
    line: dict[str, Any] = {
        "name": "trainer",
        "ratio": None,
        "unit": "times TRL 1.16's speed, the lower of the two tasks",
    }
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        bench = TrainerBench(arguments, Path(name))
        device = torch.cuda.get_device_name() if on_gpu else f"processor, threads: {arguments.threads}"
        print(f"{arguments.model}: {bench.made['weights'] / 1e6:.1f} M weights, {bench.size.dtype}, {device}")
        for task in ("sft", "grpo"):
            if arguments.tune:
                bench.tune(task)
            line |= print_task(task, bench, [bench.turn(task) for _ in range(arguments.turns)])
    line["ratio"] = min(line["sft_ratio"], line["grpo_ratio"])
    print(json.dumps(line | {"model": arguments.model, "device": device, "turns": arguments.turns}))


if __name__ == "__main__":
    main()
