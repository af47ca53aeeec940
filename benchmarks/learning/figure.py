"""Draws the figure of the results of learn.py, from its results.json.

    python benchmarks/learning/figure.py runs/learn/results.json docs/learning.svg

It shows, for sampled answers, each arm's accuracy and its share of points in gold boxes, at each share of faults. Bars
are means over seeds with their intervals, and dots are single seeds.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

import matplotlib  # noqa: E402

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

from benchmarks.learning.pool import (  # noqa: E402
    ALL_VERIFIED,
    ARMS,
    MENDED,
    RIGHT_ONLY,
    UNFILTERED,
    VERIFIED,
    WHOLE_POOL,
)

COLOURS = {
    VERIFIED: "#1f57b4",
    RIGHT_ONLY: "#d98c1f",
    UNFILTERED: "#a32424",
    WHOLE_POOL: "#c77",
    ALL_VERIFIED: "#0d2f6b",
    MENDED: "#7aa6d8",
}
SHOWN = ("accuracy", "points in gold boxes")


def main(arguments: Sequence[str]) -> int:
    """Draw the figure."""
    results, out = json.loads(Path(arguments[0]).read_text("utf-8")), Path(arguments[1])
    matplotlib.rcParams.update({"svg.hashsalt": "learning", "svg.fonttype": "none", "font.size": 9})
    figure, axes = plt.subplots(figsize=(max(6, len(results["means"]) * 1.0), 3.6), layout="constrained")
    _draw(axes, results, ARMS)
    axes.set(title="one pool, filtered in several ways", ylabel="held out, sampled", ylim=(0, 1))
    figure.savefig(out, metadata={"Date": None})
    return 0


def _draw(axes: Axes, results: Mapping[str, Any], names: Sequence[str]) -> None:
    """Draw, for each of these models by share, a wide bar of accuracy and a narrow one of points in gold boxes."""
    rows = [row for row in results["means"] if row["name"] in names]
    for place, row in enumerate(rows):
        for offset, (name, alpha) in zip((-0.2, 0.2), zip(SHOWN, (1.0, 0.45), strict=True), strict=True):
            if name not in row["sampled"]:
                continue  # a model that never points has no share of points
            value, low, high = row["sampled"][name]
            axes.bar(place + offset, value, 0.38, color=COLOURS[row["name"]], alpha=alpha)
            axes.plot([place + offset] * 2, [low, high], color="black", linewidth=1)
            axes.text(place + offset, high + 0.015, f"{value:.2f}", ha="center", fontsize=8)
            if len(row["seeds"]) > 1:
                each = [m["sampled"][name][0] for m in results["models"] if _is(m, row)]
                axes.plot([place + offset + 0.1] * len(each), each, ".", color="black", markersize=3)
    several = len({row["share"] for row in rows}) > 1
    labels = [row["name"].replace(" ", "\n") + (f"\n{row['share']:.0%} faulty" if several else "") for row in rows]
    axes.set_xticks(range(len(rows)), labels, fontsize=8)
    axes.set_xlabel("full colour: right answers · pale: points in gold boxes")
    axes.spines[["top", "right"]].set_visible(False)


def _is(model: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    return (model["name"], model["share"]) == (row["name"], row["share"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
