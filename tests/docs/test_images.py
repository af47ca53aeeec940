"""The images of README and of the pages: the drawings are up to date, and all are small."""

import importlib.util
from pathlib import Path

IMAGES = Path(__file__).parents[2] / "docs/images"
MAX_BYTES = 150_000


def test_the_dag_is_the_one_that_is_wired() -> None:
    spec = importlib.util.spec_from_file_location("draw_images", IMAGES / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    nodes, edges = draw.graph("grounded_cot")
    assert {"Ingest", "Verify", "sft", "rl"} <= nodes.keys()
    assert {(edge.source, edge.target) for edge in edges} >= {("Ingest", "Clean"), ("Split", "Overlay"), ("Cut", "sft")}
    stale = "docs/images/dag.svg is stale: python docs/images/draw.py"
    assert (IMAGES / "dag.svg").read_text("utf-8") == draw.svg(nodes, edges), stale


def test_the_curve_is_that_of_the_reward() -> None:
    spec = importlib.util.spec_from_file_location("draw_pointing", IMAGES / "draw_pointing.py")
    assert spec is not None
    assert spec.loader is not None
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    stale = "docs/images/pointing.svg is stale: python docs/images/draw_pointing.py"
    assert (IMAGES / "pointing.svg").read_text("utf-8") == draw.svg(), stale


def test_the_images_are_small() -> None:
    for image in (IMAGES / name for name in ("dag.svg", "pointing.svg", "record.png", "report.png")):
        assert 0 < image.stat().st_size < MAX_BYTES
