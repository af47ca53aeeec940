"""Draws ``pointing.svg`` of docs/rewards.md: `python docs/images/draw_pointing.py`.

The drawing shows the pointing score (:mod:`groundtrace.rewards.pointing_score`) of a question with four targets over
the number of targets that have a point, with one line for each number of wrong points, and beside it Argos Eq. 3.
"""

from collections.abc import Callable
from pathlib import Path

from groundtrace.rewards.pointing_score import PointCounts, PointingSettings, pointing_score

HERE = Path(__file__).parent
NUMBER = 4
LEFT, TOP, WIDTH, HEIGHT, MARGIN = 52, 16, 300, 220, 44
LOW, HIGH = -0.1, 1.0
COLOURS = ("#1a7f37", "#0969da", "#8250df", "#bc4c00", "#cf222e")
FONT = 'font-family="sans-serif" font-size="12"'


def at(right: float, value: float, left: float) -> tuple[float, float]:
    """Return the position of a value in the drawing, in px."""
    x = left + right / NUMBER * WIDTH
    return round(x, 1), round(TOP + (HIGH - value) / (HIGH - LOW) * HEIGHT, 1)


def panel(title: str, left: float, value: Callable[[int, int], float]) -> list[str]:
    """Return the SVG of one panel: its axes, and a line for each number of wrong points."""
    lines = [f'<text x="{left}" y="{TOP - 4}" {FONT} font-weight="bold">{title}</text>']
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = at(0, tick, left)
        lines.append(f'<line x1="{x}" y1="{y}" x2="{x + WIDTH}" y2="{y}" stroke="#d0d7de"/>')
        lines.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end" {FONT}>{tick:g}</text>')
    for right in range(NUMBER + 1):
        x, y = at(right, LOW, left)
        lines.append(f'<text x="{x}" y="{y + 16}" text-anchor="middle" {FONT}>{right}</text>')
    for wrong, colour in enumerate(COLOURS):
        places = [at(right, value(right, wrong), left) for right in range(NUMBER + 1)]
        drawn = " ".join(f"{x},{y}" for x, y in places)
        lines.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in places]
    return lines


def svg() -> str:
    """Return the whole drawing as SVG."""
    second = LEFT + WIDTH + 2 * MARGIN
    ours = panel("ours: s = 0.5, ε = 0.1", LEFT, lambda r, w: pointing_score(PointCounts(r, w, NUMBER)))
    paper = PointingSettings(first_share=1.0, wrong_cost=0.0)
    eq3 = panel("Argos Eq. 3", second, lambda r, w: pointing_score(PointCounts(r, w, NUMBER), paper))
    below = TOP + HEIGHT + 34
    axis = [
        f'<text x="{left + WIDTH / 2}" y="{below}" text-anchor="middle" {FONT}>targets pointed at, of {NUMBER}</text>'
        for left in (LEFT, second)
    ]
    legend = [
        f'<text x="{LEFT + 110 * n}" y="{below + 24}" fill="{colour}" {FONT}>{n} wrong points</text>'
        for n, colour in enumerate(COLOURS)
    ]
    width, height = second + WIDTH + 16, below + 36
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, ground, *ours, *eq3, *axis, *legend, "</svg>", ""])


if __name__ == "__main__":
    (HERE / "pointing.svg").write_text(svg(), "utf-8")
