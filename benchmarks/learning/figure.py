"""The figure of what learn.py did: ``python benchmarks/learning/figure.py runs/learn docs/learning.svg``."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

WINDOW = 5
SIDES = (("grpo", "GRPO", "#1f57b4"), ("control", "advantages shuffled", "#a32424"))


def main(arguments: list[str]) -> int:
    """Draw the SFT loss, the rewards of GRPO and of its control, and what is held out, all seeds."""
    learnt, out = Path(arguments[0]), Path(arguments[1])
    results = json.loads((learnt / "results.json").read_text("utf-8"))
    matplotlib.rcParams.update({"svg.hashsalt": "learning", "font.size": 9})
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    for seed in results:
        left.plot(smoothed(series(learnt, seed, "sft", "loss"), 20), color="#555", linewidth=1)
        for side, _, colour in SIDES:
            middle.plot(smoothed(series(learnt, seed, side, "outcome"), WINDOW), color=colour, linewidth=1.2)
    left.set(title="SFT: loss per token", xlabel="step", yscale="log")
    middle.set(title="GRPO: right answers among rollouts", xlabel="step")
    draw_held(right, results)
    for _, label, colour in SIDES:
        middle.plot([], [], color=colour, label=label)
    middle.legend(frameon=False)
    figure.savefig(out, metadata={"Date": None})
    return 0


def draw_held(axes: Axes, results: dict[str, dict]) -> None:
    """For each seed the accuracy of the four models (circles) and their points in gold boxes (squares)."""
    names = ("sft", "unverified", "grpo", "control")
    for number, models in enumerate(results.values()):
        for figure, style in (("accuracy", "o-"), ("points_in_gold_boxes", "s--")):
            values = [models[name][figure] for name in names]
            axes.plot(names[:3], values[:3], style, linewidth=1, markersize=4, color=f"C{number}")
            axes.plot((names[1], names[3]), (values[1], values[3]), style[1:], linewidth=0.5, color=f"C{number}")
            axes.plot(names[3:], values[3:], style[0], markersize=4, color=f"C{number}")
    constant = max(models["sft"]["best_constant"] for models in results.values())
    axes.axhline(constant, color="#999", linestyle=":")
    axes.set(title="held out: accuracy ●, points ■", ylim=(0, 1))


def series(learnt: Path, seed: str, side: str, name: str) -> list[float]:
    """A metric of one command, step by step."""
    lines = (learnt / f"seed-{seed}" / side / "metrics.jsonl").read_text("utf-8").splitlines()
    return [value for value in (json.loads(line)[name] for line in lines) if value is not None]


def smoothed(values: Sequence[float], window: int) -> list[float]:
    """The mean of each value and those before it, ``window`` in all."""
    cuts = (values[max(0, end - window) : end] for end in range(1, len(values) + 1))
    return [sum(cut) / len(cut) for cut in cuts]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
