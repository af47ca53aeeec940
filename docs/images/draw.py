"""Draws the images of README.md and docs/recipes/grounded_cot.md: `python docs/images/draw.py [CHROMIUM]`, some 20 s.

``dag.svg`` is the DAG that ``pipelines/grounded_cot.py`` wires, read from Beam's own graph. The other two are
screenshots, by Chromium, of one run over data/sample: ``report.png`` shows parts of its report.html, ``record.png``
shows a record with its question, overlay, trace and verdicts.
"""

import base64
import html
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.pipeline import PipelineVisitor
from PIL import Image

import groundtrace as gt
from groundtrace.pipelines.running.plan.plan import RunArguments, make_plan
from groundtrace.stages.plumbing.stage import DraftStage, Stage

HERE = Path(__file__).parent
SAMPLE = HERE.parents[1] / "data/sample"
RECORD = "nlvr-dev-255-1-0-s"
HIDDEN = (
    *(".facts", ".warn", "nav", ".toggle", "#marks", ".note", "section:not(#funnel, #sft)"),
    "article:not(:first-of-type)",
)
"""The parts of the report that ``report.png`` omits, as CSS selectors."""
COLUMNS, WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 6, 136, 54, 28, 58, 24

LEGEND = (
    "Below a name: the roles of the models that the stage asks. "
    "Every stage also sends what it rejects, with its reason, to the set rejected."
)


@dataclass(frozen=True)
class Edge:
    """An edge along which records go from one node to another; ``name`` is their side, if there are several."""

    source: str
    target: str
    name: str = ""


class _Stages(PipelineVisitor):
    """Collects the stages of a pipeline in order, with their inputs and outputs."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Stage, list[Any], dict[Any, Any]]] = []

    def enter_composite_transform(self, transform_node: Any) -> None:
        if isinstance(transform_node.transform, DraftStage):
            stage = transform_node.transform.stage
            self.found.append((transform_node.full_label, stage, transform_node.inputs, transform_node.outputs))


def graph(recipe: str) -> tuple[dict[str, str], list[Edge]]:
    """Return the nodes of a recipe, each with the roles that it asks, and the edges between them."""
    with tempfile.TemporaryDirectory() as folder:
        plan = make_plan(RunArguments(recipe, str(SAMPLE), folder + "/run", None, ()))
        pipeline = beam.Pipeline()
        ends = plan.wire(pipeline).ends
        seen = _Stages()
        pipeline.visit(seen)
    nodes = {label: ", ".join(sorted({asks.role for asks in stage.asks})) for label, stage, _, _ in seen.found}
    source = {out: (label, tag) for label, _, _, outs in seen.found for tag, out in outs.items()}
    edges = []
    for label, _, taken, _ in seen.found:
        edges += [_edge(source[each], label) for each in taken if each in source]
    for name, end in (("sft", ends.sft), ("rl", ends.rl)):
        if end is not None:
            nodes[name] = "rows"
            edges.append(_edge(source[end], name))
    return nodes, edges


def _edge(source: tuple[str, Any], target: str) -> Edge:
    name = source[1] if source[1] in ("sft", "rl") and target not in ("sft", "rl") else ""
    return Edge(source[0], target, name)


def ranks(nodes: Iterable[str], edges: list[Edge]) -> dict[str, int]:
    """Return the number of steps before each node on the longest path; ``nodes`` are in the order of the records."""
    found: dict[str, int] = {}
    for node in nodes:
        found[node] = 1 + max((found[edge.source] for edge in edges if edge.target == node), default=-1)
    return found


def svg(nodes: dict[str, str], edges: list[Edge]) -> str:
    """Return the graph as SVG, in rows that run to the right and back; its own background makes it readable on dark
    pages.
    """
    rank = ranks(nodes, edges)
    place: dict[str, tuple[int, int]] = {}
    taken: dict[int, int] = {}
    for node in nodes:
        row, column = divmod(rank[node], COLUMNS)
        column = column if row % 2 == 0 else COLUMNS - 1 - column
        lane = taken.get(rank[node], 0)
        taken[rank[node]] = lane + 1
        place[node] = (MARGIN + column * (WIDTH + GAP_X), MARGIN + row * (HEIGHT + GAP_Y) + lane * (HEIGHT + 16))
    wide = 2 * MARGIN + COLUMNS * WIDTH + (COLUMNS - 1) * GAP_X
    high = max(y for _, y in place.values()) + HEIGHT + MARGIN + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="system-ui, sans-serif">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>',
        f'<rect width="{wide}" height="{high}" rx="10" fill="#f6f8fa"/>',
        *(_drawn_edge(edge, place) for edge in edges),
        *(_drawn_node(node, roles, *place[node]) for node, roles in nodes.items()),
        f'<text x="{MARGIN}" y="{high - 16}" font-size="13" fill="#57606a">{LEGEND}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _drawn_node(name: str, roles: str, x: int, y: int) -> str:
    is_end = roles == "rows"
    fill, line = ("#dafbe1", "#1a7f37") if is_end else ("#ddf4ff", "#0969da") if roles else ("#ffffff", "#8c959f")
    middle, top = x + WIDTH // 2, y + (20 if roles else 32)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name) if not is_end else name
    wrapped = textwrap.wrap(roles.replace("_", " "), WIDTH // 5)
    style = 'font-size="10.5" fill="#57606a" text-anchor="middle"'
    lines = (f'<text x="{middle}" y="{y + 34 + 13 * n}" {style}>{text}</text>' for n, text in enumerate(wrapped))
    return (
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="7" fill="{fill}" stroke="{line}"/>'
        f'<text x="{middle}" y="{top}" font-size="15" fill="#1f2328" text-anchor="middle">{words}</text>'
        f"{''.join(lines)}"
    )


def _drawn_edge(edge: Edge, place: dict[str, tuple[int, int]]) -> str:
    (x1, y1), (x2, y2) = place[edge.source], place[edge.target]
    if abs(y1 - y2) < HEIGHT:
        start, end = (x1 + WIDTH, x2) if x2 > x1 else (x1, x2 + WIDTH)
        path, label = f"M{start} {y1 + HEIGHT / 2}L{end} {y2 + HEIGHT / 2}", ((start + end) / 2, y1 + HEIGHT / 2 - 6)
    elif y2 - y1 < HEIGHT + GAP_Y:  # the next lane of the same row
        start, end = (x1 + WIDTH, y1 + HEIGHT - 8), (x2, y2 + HEIGHT / 2)
        path, label = f"M{start[0]} {start[1]}L{end[0]} {end[1]}", ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    else:
        a, b, c, d = x1 + WIDTH / 2, y1 + HEIGHT, x2 + WIDTH / 2, y2
        path, label = f"M{a} {b}C{a} {b + 30} {c} {d - 30} {c} {d}", ((a + c) / 2 + 14, (b + d) / 2 - 4)
    name = f'<text x="{label[0]}" y="{label[1]}" font-size="12" fill="#57606a" text-anchor="middle">{edge.name}</text>'
    line = f'<path d="{path}" fill="none" stroke="#57606a" stroke-width="1.4" marker-end="url(#tip)"/>'
    return line + (name if edge.name else "")


def page(row: dict[str, Any]) -> str:
    """Return the record as an HTML page of 800 pixels in width."""
    overlay = base64.b64encode(row["overlays"][0]["bytes"]).decode()
    trace = html.escape(row["messages"][-1]["content"], quote=False)
    trace = re.sub(r"(&lt;points.*?&lt;/points&gt;)", r"<b>\1</b>", trace).replace("\n", "<br>")
    verdicts = "".join(f"<span>{name} {value:.2f}</span>" for name, value in row["scores"].items() if value is not None)
    attempts = f"{round(row['pass_rate'] * row['k'])} of {row['k']} attempts of the policy were right"
    return f"""<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 18px 22px; width: 756px; color: #1f2328; background: #f6f8fa }}
body {{ font: 15px/1.45 system-ui, sans-serif }}
img {{ width: 100%; border-radius: 6px; margin: 10px 0 }} i {{ color: #57606a; font-style: normal; font-size: 13px }}
p {{ margin: 0 0 8px }} b {{ font-weight: 400; background: #ddf4ff; border-radius: 3px }}
code {{ font: 13px/1.5 ui-monospace, monospace; display: block; background: #fff; padding: 10px; border-radius: 6px }}
span {{ display: inline-block; background: #dafbe1; border-radius: 10px; padding: 1px 10px; margin: 10px 8px 0 0 }}
</style><p>{html.escape(row["question"])}</p><i>gold answer: {html.escape(row["answer"])} · {attempts} · {row["id"]}</i>
<img src="data:image/png;base64,{overlay}"><code>{trace}</code>{verdicts}"""


def excerpt(report: str) -> str:
    """Return the report without the parts that ``HIDDEN`` selects: the counts, the funnel and one SFT row remain."""
    style = f"{', '.join(HIDDEN)} {{ display: none }} main {{ padding: 1rem }} .flow {{ padding: 0 }}"
    return report.replace("</head>", f"<style>{style}</style></head>", 1)


def screenshot(chromium: str, page: str, size: tuple[int, int], image: Path) -> None:
    """Write a page, rendered at ``size`` in pixels, as a PNG of at most 256 colours."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "page.html").write_text(page, "utf-8")
        asked = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size[0]},{size[1]}"]
        asked.append(f"--screenshot={folder}/page.png")
        subprocess.run([chromium, *asked, f"file://{folder}/page.html"], check=True, capture_output=True)
        Image.open(f"{folder}/page.png").convert("RGB").quantize(256).save(image, optimize=True)


def draw(chromium: str) -> None:
    """Write the three images."""
    (HERE / "dag.svg").write_text(svg(*graph("grounded_cot")), "utf-8")
    with tempfile.TemporaryDirectory() as folder:
        run = gt.run("grounded_cot", str(SAMPLE), f"{folder}/demo")
        [row] = [row for row in run.sft.to_pylist() if row["id"] == RECORD]
        screenshot(chromium, page(row), (800, 476), HERE / "record.png")
        report = Path(folder, "demo/report.html").read_text("utf-8")
        screenshot(chromium, excerpt(report), (1000, 1190), HERE / "report.png")


if __name__ == "__main__":
    draw(sys.argv[1] if len(sys.argv) > 1 else "chromium")
