"""The house: a module imports only from floors below its own, or from its own package, and never in a circle."""

import ast
import graphlib
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FLOORS = {
    "schemas": 0,
    "prompts": 1,
    "vision": 1,
    "inference": 2,
    "sandbox": 2,
    "rewards": 3,
    "stages": 4,
    "trainer": 4,
    "data_cards": 4,
    "publishing": 5,
    "pipelines": 6,
    "groundtrace": 7,
}
GROUND = ("tests", "benchmarks", "setup", "conftest")


def modules_named(node: ast.AST, package: str) -> list[str]:
    """The modules that a node imports; a relative import counts from the file's package."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level:
        parents = package.split(".")
        above = parents[: len(parents) - node.level + 1]
        return [".".join([*above, *filter(None, [node.module])])] if above else [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = ast.unparse(node.func) in ("importlib.import_module", "import_module", "__import__")
        return [str(node.args[0].value)] if called else []
    return []


def forbidden(root: Path) -> Iterator[str]:
    """The arrows that the house does not allow, as ``file:line module``."""
    for package, floor in FLOORS.items():
        for path in sorted((root / package).rglob("*.py")):
            where = path.relative_to(root)
            for node in ast.walk(ast.parse(path.read_bytes())):
                for module in modules_named(node, ".".join(where.parent.parts)):
                    top = module.split(".")[0]
                    below = top == package or FLOORS.get(top, -1) < floor
                    if not below or top in GROUND:
                        yield f"{where}:{node.lineno} {module}"  # type: ignore[attr-defined]


def circle(root: Path) -> list[str]:
    """Modules of which each imports the next, the last being the first again; empty where there is no such circle.

    Every import counts, also one in a function and one for type checkers only: they would hide a circle, not undo it.
    """
    files = [file.relative_to(root) for package in FLOORS for file in sorted((root / package).rglob("*.py"))]
    modules = {".".join(file.with_suffix("").parts).removesuffix(".__init__"): file for file in files}
    arrows = {name: imported(root, file, modules.keys()) - {name} for name, file in modules.items()}
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        return error.args[1][::-1]
    return []


def imported(root: Path, file: Path, modules: Collection[str]) -> set[str]:
    """Those of the modules that a file imports; ``from a import b`` stands for ``a.b`` where that is a module."""
    found = set()
    for node in ast.walk(ast.parse((root / file).read_bytes())):
        for module in modules_named(node, ".".join(file.parent.parts)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else [""]
            inner = {f"{module}.{name}" for name in names}
            found |= {name if name in modules else module for name in inner}
    return found.intersection(modules)


def test_every_arrow_points_down() -> None:
    assert list(forbidden(ROOT)) == []


def test_no_imports_go_in_a_circle() -> None:
    assert circle(ROOT) == []


def test_every_package_has_a_floor() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - {"tests", "benchmarks"} <= set(FLOORS)
    assert {"schemas", "prompts", "vision", "inference", "rewards", "stages", "trainer", "pipelines"} <= packages


ARROWS = [
    ("schemas/x.py", "import vision.decode", ["schemas/x.py:1 vision.decode"]),
    ("vision/x.py", "from prompts.loader import load_prompt", ["vision/x.py:1 prompts.loader"]),
    ("inference/x.py", "from rewards import outcome", ["inference/x.py:1 rewards"]),
    ("inference/x.py", "import sandbox", ["inference/x.py:1 sandbox"]),
    ("rewards/x.py", "\nimport json, stages.plumbing.rows as rows", ["rewards/x.py:2 stages.plumbing.rows"]),
    ("stages/x.py", "from trainer.loss import loss", ["stages/x.py:1 trainer.loss"]),
    ("trainer/x.py", "from stages import rows", ["trainer/x.py:1 stages"]),
    ("stages/deep/x.py", "from ... import pipelines", ["stages/deep/x.py:1 pipelines"]),
    ("stages/x.py", "def f():\n    from pipelines.running.run import execute", ["stages/x.py:2 pipelines.running.run"]),
    ("stages/x.py", "if TYPE_CHECKING:\n    import pipelines.running.run", ["stages/x.py:2 pipelines.running.run"]),
    (
        "stages/x.py",
        "import importlib\nimportlib.import_module('pipelines.running.run')",
        ["stages/x.py:2 pipelines.running.run"],
    ),
    ("pipelines/x.py", "from tests.stages import conftest", ["pipelines/x.py:1 tests.stages"]),
    ("pipelines/x.py", "import benchmarks.scenes", ["pipelines/x.py:1 benchmarks.scenes"]),
    ("stages/x.py", "from .rows import Row\nfrom . import rows\nfrom stages.plumbing.rows import Row", []),
    ("stages/x.py", "import json, numpy, apache_beam\nfrom rewards.rubrics import measure", []),
    ("pipelines/x.py", "import stages.plumbing.rows, trainer, schemas.records", []),
]


@pytest.mark.parametrize(("file", "text", "found"), ARROWS)
def test_the_walk_finds_arrows_that_point_up_or_sideways(
    file: str, text: str, found: list[str], tmp_path: Path
) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text, "utf-8")
    assert list(forbidden(tmp_path)) == found


CIRCLES = [
    ({"a": "from stages.b import f", "b": "import stages.a"}, True),
    ({"a": "from stages import b", "b": "from .a import f"}, True),
    ({"a": "from . import b", "b": "from . import c", "c": "from . import a"}, True),
    ({"a": "def f():\n    from stages.b import g", "b": "from stages.a import f"}, True),
    ({"a": "if TYPE_CHECKING:\n    from stages.b import B", "b": "from stages.a import f"}, True),
    ({"a": "import importlib\nimportlib.import_module('stages.b')", "b": "from stages.a import f"}, True),
    ({"__init__": "from stages.a import f", "a": "from stages import g"}, True),
    ({"room/__init__": "", "room/a": "from stages.b import f", "b": "from stages.room.a import g"}, True),
    ({"a": "from stages.b import f", "b": "from stages.c import f", "c": ""}, False),
    ({"a": "from stages import b", "b": "import json", "__init__": "from stages import a"}, False),
    ({"a": "import schemas.a", "b": "import schemas.a"}, False),
]


@pytest.mark.parametrize(("files", "found"), CIRCLES)
def test_the_walk_finds_circles(files: dict[str, str], found: bool, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / "stages" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "stages" / f"{name}.py").write_text(text, "utf-8")
    around = circle(tmp_path)
    assert bool(around) is found
    assert around[:1] == around[-1:]
