"""Prints the tables of the GRPO experiment, and draws its figure, from the results that are kept.

python benchmarks/learning/reinforce_report.py [RESULTS] [--figure docs/reinforce.svg]
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from benchmarks.learning.held import Estimate, Sums, difference, estimate, sums_of  # noqa: E402
from benchmarks.learning.kept import Kept, read_kept  # noqa: E402

TUNING = HERE / "results" / "tuning"
NEVER = "never looks"
START, GRPO, SHUFFLED, ANSWER, POINTS, SFT, AFTER = (
    *("start", "GRPO", "advantages shuffled"),
    *("answer only", "points only", "SFT", "GRPO after SFT"),
)
ORDER = (NEVER, START, GRPO, SHUFFLED, ANSWER, POINTS, SFT, AFTER)
PAIRS = (
    *((GRPO, other) for other in (START, SHUFFLED, NEVER, ANSWER, POINTS, SFT)),
    *((other, START) for other in (SHUFFLED, ANSWER, POINTS, SFT)),
    (AFTER, SFT),
)
"""The models whose differences are shown, as "first minus second"."""
SHOWN = (*("accuracy", "point F1", "points in gold boxes", "exact points"), "malformed", "points an answer")
COLOURS = {NEVER: "#a32424", START: "#999", GRPO: "#2a8c4a", SHUFFLED: "#c9c9c9", ANSWER: "#1f57b4", POINTS: "#d98c1f"}
EXAMS = ("sampled", "greedy")
LAST = 20
"""The number of first and of last steps whose metrics the table of trials compares."""
SMOOTHED = 10
"""The number of steps over which the curves are averaged."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, and draw the figure if it is asked for."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("results", type=Path, nargs="?", default=HERE / "results" / "steps-150")
    parser.add_argument("--figure", type=Path, help="the SVG file to draw")
    chosen = parser.parse_args(arguments)
    print_report(chosen.results)
    print_tuning()
    if chosen.figure:
        draw(read_kept(chosen.results), chosen.figure)
    return 0


def print_report(results: Path) -> None:
    """Print the tables of the results in a folder as Markdown."""
    kept = read_kept(results)
    for how in EXAMS:
        print("\n".join(table(kept, how, ORDER, PAIRS)), end="\n\n")
    print("\n".join(_each_seed(kept)), end="\n\n")


def print_tuning() -> None:
    """Print the table of the settings that were tried, as Markdown."""
    print("\n".join(_tuning(read_kept(TUNING))))


def headline(results: Path) -> dict[str, Any]:
    """Return how many more right answers GRPO has than its start, sampled, as the figure of the experiment."""
    found = _difference(read_kept(results), GRPO, START, "sampled")
    return {"ratio": None if found is None else found[1]["accuracy"][0], "unit": "accuracy above the start, held out"}


def _sums(kept: Sequence[Kept], name: str, how: str, seeds: Sequence[int]) -> list[Sums]:
    """Return the sums of a name for each seed; those of the policy that never looks are the same for each seed."""
    by_seed = {each.seed: sums_of(each.exams[how]) for each in kept if each.name == name}
    return [by_seed[0 if name == NEVER else seed] for seed in seeds]


def _seeds(kept: Sequence[Kept], *names: str) -> list[int]:
    """Return the seeds for which all names have a result."""
    found = [{each.seed for each in kept if each.name == name} for name in names if name != NEVER]
    return sorted(set.intersection(*found)) if found else [0]


def _difference(kept: Sequence[Kept], name: str, other: str, how: str) -> tuple[list[int], dict[str, Estimate]] | None:
    """Return the seeds that both names have, and the differences over them; None if they have no seed in common."""
    if not (seeds := _seeds(kept, name, other)) or not any(each.name == other for each in kept):
        return None
    return seeds, difference(_sums(kept, name, how, seeds), _sums(kept, other, how, seeds))


def table(kept: Sequence[Kept], how: str, order: Sequence[str], pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines of a table: the figures of each name over its seeds, and the differences of the pairs."""
    yield f"| {how} | seeds | {' | '.join(SHOWN)} |"
    yield f"|{'---|' * (2 + len(SHOWN))}"
    for name in order:
        if (seeds := _seeds(kept, name)) and any(each.name == name for each in kept):
            figures = estimate(_sums(kept, name, how, seeds))
            yield _row(name, "" if name == NEVER else _listed(seeds), figures, "")
    for name, other in pairs:
        if found := _difference(kept, name, other, how):
            yield _row(f"{name} − {other}", _listed(found[0]), found[1], "+")


def _each_seed(kept: Sequence[Kept]) -> Iterator[str]:
    """Yield a table with the two main figures of each seed, and the time of its training."""
    yield "| arm | seed | accuracy, sampled | greedy | point F1, sampled | greedy | minutes |"
    yield f"|{'---|' * 7}"
    for name in ORDER[1:]:
        for each in (each for each in kept if each.name == name):
            found = {how: estimate([sums_of(each.exams[how])]) for how in EXAMS}
            cells = (f"{found[how][figure][0]:.3f}" for figure in SHOWN[:2] for how in EXAMS)
            yield f"| {name} | {each.seed} | {' | '.join(cells)} | {each.seconds / 60:.0f} |"


def _tuning(tried: Sequence[Kept]) -> Iterator[str]:
    """Yield a table with the means of the metrics of the first and the last steps of each trial."""
    names = {"reward": "reward", "outcome": "right answers", "spatial": "pointing", "entropy": "entropy"}
    yield f"| tried | {' | '.join(names.values())} | settings |"
    yield f"|{'---|' * (2 + len(names))}"
    for each in tried:
        curves = [[value for value in each.curves[name] if value is not None] for name in names]
        ends = (f"{_mean(curve[:LAST]):.3f} → {_mean(curve[-LAST:]):.3f}" for curve in curves)
        yield f"| {each.name} | {' | '.join(ends)} | {' '.join(f'`{one}`' for one in each.settings)} |"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _listed(seeds: Sequence[int]) -> str:
    return " ".join(map(str, seeds))


def _row(name: str, seeds: str, figures: Mapping[str, Estimate], sign: str) -> str:
    cells = ("{:{s}.3f} [{:{s}.3f}, {:{s}.3f}]".format(*figures[n], s=sign) if n in figures else "–" for n in SHOWN)
    return f"| {name} | {seeds} | {' | '.join(cells)} |"


def draw(kept: Sequence[Kept], out: Path) -> None:
    """Draw accuracy and point F1 of each arm beside the policy that never looks, and the rewards of the steps."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams.update({"svg.hashsalt": "reinforce", "svg.fonttype": "none", "font.size": 9})
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained", width_ratios=(3, 3, 3.4))
    for place, name in enumerate(SHOWN[:2]):
        _bars(axes[place], kept, name)
    _curves(axes[2], kept)
    figure.savefig(out, metadata={"Date": None})
    plt.close(figure)


def _bars(axes: Any, kept: Sequence[Kept], figure: str) -> None:
    """Draw a figure of each arm for sampled answers, with its interval, a dot for each seed, and the blind line."""
    shown = [name for name in ORDER[1:] if any(each.name == name for each in kept)]
    for place, name in enumerate(shown):
        seeds = _seeds(kept, name)
        each = _sums(kept, name, "sampled", seeds)
        value, low, high = estimate(each)[figure]
        axes.bar(place, value, 0.7, color=COLOURS.get(name, "#777"))
        axes.plot([place] * 2, [low, high], color="black", linewidth=1)
        axes.text(place, high + 0.012, f"{value:.3f}", ha="center", fontsize=8)
        axes.plot([place + 0.15] * len(seeds), [estimate([one])[figure][0] for one in each], ".", color="black", ms=3)
    if any(each.name == NEVER for each in kept):
        line = estimate(_sums(kept, NEVER, "sampled", [0]))[figure][0]
        axes.axhline(line, color=COLOURS[NEVER], linestyle="--", linewidth=1)
        axes.text(len(shown) - 0.5, line + 0.012, NEVER, color=COLOURS[NEVER], ha="right", fontsize=8)
    axes.set_xticks(range(len(shown)), [name.replace(" ", "\n") for name in shown], fontsize=8)
    axes.set(title=f"{figure}, held out, sampled", ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)


def _curves(axes: Any, kept: Sequence[Kept]) -> None:
    """Draw the share of right answers in the rollouts of the steps of each arm, with the blind line."""
    for each in kept:
        values = [value for value in each.curves.get("outcome", ()) if value is not None]
        if len(values) < SMOOTHED:
            continue
        smooth = [
            sum(part) / len(part) for at in range(len(values)) if (part := values[max(0, at - SMOOTHED + 1) : at + 1])
        ]
        label = each.name if each.seed == min(_seeds(kept, each.name)) else None
        axes.plot(smooth, color=COLOURS.get(each.name, "#777"), linewidth=1, label=label)
    if any(each.name == NEVER for each in kept):
        line = estimate(_sums(kept, NEVER, "sampled", [0]))["accuracy"][0]
        axes.axhline(line, color=COLOURS[NEVER], linestyle="--", linewidth=1, label=NEVER)
    axes.set(title=f"right answers in training (mean of {SMOOTHED} steps)", xlabel="step")
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    sys.exit(main())
