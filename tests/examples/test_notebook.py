"""examples/notebook: its cells run one after the other over the demo run, and the last value of each has a form for a
notebook."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = json.loads((ROOT / "examples/notebook/look_at_a_run.ipynb").read_text("utf-8"))
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def last_value(cell: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does; returns the value of its last expression, None without one."""
    tree = ast.parse(cell)
    if not isinstance(tree.body[-1], ast.Expr):
        exec(cell, names)
        return None
    last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(last, "cell", "eval"), names)


@pytest.mark.slow
def test_the_cells(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo)  # as after `make demo`: with runs/demo and data/sample
    names: dict[str, Any] = {}
    shown = [last_value(cell, names) for cell in CELLS]
    framed = [each._repr_html_() for each in shown if hasattr(each, "_repr_html_")]
    assert len(framed) == 4 and all(frame.startswith("<iframe sandbox ") for frame in framed)
    verdicts = {name: value for name, value, _ in shown[-3]}
    assert verdicts["outcome"] == 1.0 and verdicts["spatial"] < 0, "the answer is right, and the point is not"
    assert not any(cell["outputs"] for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code")
