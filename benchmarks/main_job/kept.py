"""Compares a benchmark's figures with those kept in a file, so that a slow loss of speed is seen."""

import json
from collections.abc import Mapping
from pathlib import Path

FILE = Path(__file__).with_name("kept_figures.json")
CPU_LIMIT, TIME_LIMIT = 1.20, 1.35
LIMITS = {
    "whole_rate": -TIME_LIMIT,
    "working_rate": -TIME_LIMIT,
    "used": -TIME_LIMIT,
    "used, text": -TIME_LIMIT,
    "used, image": -TIME_LIMIT,
    "used, 20 images": -TIME_LIMIT,
    "tail_share": TIME_LIMIT,
    "start": TIME_LIMIT,
    "peak": CPU_LIMIT,
    "cpu": CPU_LIMIT,
    "cached_cpu": CPU_LIMIT,
    "two_workers_cpu": CPU_LIMIT,
}
"""By figure, how many times worse than kept it may be; negative for a figure that is better if it is larger. Figures in
seconds or MiB are not compared, because they depend on the machine."""

Figures = Mapping[str, Mapping[str, float]]


def worse_than_kept(found: Figures, file: Path = FILE) -> list[str]:
    """Return a line for each figure of a part that is worse than the kept one by more than its limit.

    A figure that is not kept is not compared.
    """
    kept: Figures = json.loads(file.read_text("utf-8")) if file.exists() else {}
    lines = []
    for part, values in found.items():
        for name, value in values.items():
            before, limit = kept.get(part, {}).get(name), LIMITS.get(name)
            if before is None or limit is None:
                continue
            times = before / value if limit < 0 else value / before
            if times > abs(limit):
                lines.append(
                    f"{part}: {name} is {value:g}, kept {before:g}: {times:.2f} times worse, limit {abs(limit):g}"
                )
    return lines


def keep(found: Figures, file: Path = FILE) -> None:
    """Replace the kept figures of these parts."""
    kept: dict[str, Mapping[str, float]] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    kept |= {part: {name: value for name, value in values.items() if name in LIMITS} for part, values in found.items()}
    file.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")
