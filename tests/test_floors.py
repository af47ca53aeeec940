"""The house: a module imports only from floors below its own, or from its own package, and never in a circle."""

import ast
import graphlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FLOORS = {
    "schemas": 0,
    "config": 1,
    "grading": 1,
    "storage": 2,
    "prompts": 3,
    "vision": 3,
    "pages": 4,
    "inference": 4,
    "sandbox": 4,
    "embedded": 5,
    "rewards": 6,
    "stages": 7,
    "trainer": 7,
    "data_cards": 7,
    "publishing": 8,
    "pipelines": 9,
}
"""Of the packages of ``groundtrace``, whether their folder is in it or linked into it."""
ROOMS = {
    "groundtrace.stages": {"sources": 0, "plumbing": 1, "": 2},
    "groundtrace.pipelines.running": {"endings": 0, "settings": 0, "plan": 1, "execute": 2, "account": 3, "": 4},
}
"""The floors inside a package, of its subfolders and files; "" are all that are not named."""
ROOF = 10
"""Above all of them: the files of groundtrace/ itself."""
FACES = {f"groundtrace.rewards.{name}" for name in ("easyr1", "swift", "trl", "verl")}
"""What only re-exports, under names by which other trainers know it: on the roof, wherever its folder is."""
BARRED = (
    ("groundtrace.rewards", "groundtrace.trainer"),
    ("groundtrace.publishing", "groundtrace.trainer"),
    ("groundtrace.rewards.case", "groundtrace.rewards.scorers"),
    ("groundtrace.publishing", "groundtrace.publishing.hub"),
)
"""Further arrows that are not allowed: a module of the first does not import the second, unless it is in it."""
BESIDE = ("tests", "benchmarks", "examples", "scripts", "docs")
NAMED_SHORT = re.compile(rf"\b(?:import|from)\b.*(?<![.\w])(?:{'|'.join(FLOORS)})\b")
GROUND = ("tests", "benchmarks", "setup", "conftest")


def files_of(root: Path) -> Iterator[Path]:
    """The files of ``groundtrace``, relative to ``root``."""
    house = root / "groundtrace"
    folders = [house / package for package in FLOORS]
    found = [*house.glob("*.py"), *(file for folder in folders for file in folder.rglob("*.py"))]
    yield from (file.relative_to(root) for file in sorted(found))


def place_of(module: str) -> tuple[str, int]:
    """The package of a module and its floor; a module that is none of ``groundtrace`` is below all floors.

    A package of ours that is named without ``groundtrace.`` is above all: under that name it cannot be imported.
    """
    parts = module.split(".")
    if parts[0] != "groundtrace":
        return parts[0], ROOF + 1 if parts[0] in FLOORS else -1
    if len(parts) == 1 or module in FACES or parts[1] not in FLOORS:
        return "groundtrace", ROOF
    return parts[1], FLOORS[parts[1]]


def room_of(module: str, package: str) -> tuple[str, int]:
    """The part of a package of :data:`ROOMS` that a module belongs to, and its floor; a module of no part is below."""
    if not is_in(module, package):
        return module, -1
    rooms, name = ROOMS[package], module.removeprefix(package).lstrip(".").partition(".")[0]
    return (name, rooms[name]) if name in rooms else ("", rooms[""])


def modules_named(node: ast.AST, package: str) -> list[str]:
    """The modules that a node imports; a relative import counts from the file's package."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        parents = package.split(".")
        above = parents[: len(parents) - node.level + 1] if node.level else []
        base = ".".join([*above, *filter(None, [node.module])])
        parts = [f"{base}.{alias.name}".lstrip(".") for alias in node.names]
        return parts if base in ("", "groundtrace") else [base]  # all that these two hold is packages of their own
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = ast.unparse(node.func) in ("importlib.import_module", "import_module", "__import__")
        return [str(node.args[0].value)] if called else []
    return []


def is_barred(name: str, node: ast.AST, module: str) -> bool:
    """Whether :data:`BARRED` forbids the module ``name`` to import ``module``, or what the node takes from it."""
    inner = [f"{module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
    return any(
        is_in(name, package) and not is_in(name, room) and any(is_in(each, room) for each in (module, *inner))
        for package, room in BARRED
    )


def is_in(module: str, package: str) -> bool:
    """Whether a module is the package or in it."""
    return f"{module}.".startswith(f"{package}.")


def climbs(name: str, module: str) -> bool:
    """Whether a module imports from a higher floor of its package, or from another part on its floor."""
    parts = ((room_of(name, package), room_of(module, package)) for package in ROOMS)
    return any(0 <= floor <= below and room != other for (room, floor), (other, below) in parts)


def forbidden(root: Path) -> Iterator[str]:
    """The arrows that the house does not allow, as ``file:line module``."""
    for file in files_of(root):
        name = ".".join(file.with_suffix("").parts).removesuffix(".__init__")
        package, floor = place_of(name)
        for node in ast.walk(ast.parse((root / file).read_bytes())):
            for module in modules_named(node, ".".join(file.parent.parts)):
                other, below = place_of(module)
                barred = is_barred(name, node, module) or climbs(name, module)
                if (below >= floor and other != package) or other in GROUND or barred:
                    yield f"{file}:{node.lineno} {module}"  # type: ignore[attr-defined]


def circle(root: Path) -> list[str]:
    """Modules of which each imports the next, the last being the first again; empty where there is no such circle.

    Every import counts, also one in a function and one for type checkers only: they would hide a circle, not undo it.
    """
    modules = {".".join(file.with_suffix("").parts).removesuffix(".__init__"): file for file in files_of(root)}
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


def test_nothing_beside_the_house_imports_a_package_by_another_name() -> None:
    """The top of the repository is on the path of ``python -m pytest``: ``import schemas`` would find its folder."""
    short = []
    for file in (file for name in BESIDE for file in sorted((ROOT / name).rglob("*.py"))):
        where, code = file.relative_to(ROOT), file.read_text("utf-8")
        if not NAMED_SHORT.search(code):
            continue  # most files, which need not be parsed
        for node in ast.walk(ast.parse(code)):
            modules = modules_named(node, ".".join(where.parent.parts))
            short += [f"{where} {module}" for module in modules if module.split(".")[0] in FLOORS]
    assert short == []


ARROWS = [
    ("schemas/x.py", "import groundtrace.vision.decode", [":1 groundtrace.vision.decode"]),
    ("vision/x.py", "from groundtrace.prompts.loader import load_prompt", [":1 groundtrace.prompts.loader"]),
    ("inference/x.py", "from groundtrace.rewards import outcome", [":1 groundtrace.rewards"]),
    ("inference/x.py", "import groundtrace.sandbox", [":1 groundtrace.sandbox"]),
    ("inference/x.py", "from groundtrace import inference, stages", [":1 groundtrace.stages"]),
    ("rewards/x.py", "\nimport json, groundtrace.stages.plumbing as rows", [":2 groundtrace.stages.plumbing"]),
    ("stages/x.py", "from groundtrace.trainer.loss import loss", [":1 groundtrace.trainer.loss"]),
    ("trainer/x.py", "from groundtrace.stages import rows", [":1 groundtrace.stages"]),
    ("stages/deep/x.py", "from ... import pipelines", [":1 groundtrace.pipelines"]),
    ("stages/x.py", "def f():\n    from groundtrace.pipelines.run import execute", [":2 groundtrace.pipelines.run"]),
    ("stages/x.py", "if TYPE_CHECKING:\n    import groundtrace.pipelines.run", [":2 groundtrace.pipelines.run"]),
    ("stages/x.py", "importlib.import_module('groundtrace.pipelines.run')", [":1 groundtrace.pipelines.run"]),
    ("pipelines/x.py", "from tests.stages import conftest", [":1 tests.stages"]),
    ("pipelines/x.py", "import benchmarks.scenes", [":1 benchmarks.scenes"]),
    ("pipelines/x.py", "import groundtrace", [":1 groundtrace"]),
    ("pipelines/x.py", "import groundtrace.rewards.verl", [":1 groundtrace.rewards.verl"]),
    ("rewards/x.py", "from groundtrace.rewards.swift import register", [":1 groundtrace.rewards.swift"]),
    ("rewards/case.py", "from groundtrace.rewards import scorers, form", [":1 groundtrace.rewards"]),
    ("publishing/card.py", "import groundtrace.publishing.hub.sources", [":1 groundtrace.publishing.hub.sources"]),
    ("rewards/verl.py", "from groundtrace.trainer import loss", [":1 groundtrace.trainer"]),
    ("pipelines/x.py", "import schemas.records, stages", [":1 schemas.records", ":1 stages"]),
    ("rewards/verl.py", "from groundtrace.publishing.rewards.verl import compute_score", []),
    ("rewards/verifier.py", "from groundtrace.rewards import scorers", []),
    ("publishing/hub/x.py", "from groundtrace.publishing.hub import sources\nimport groundtrace.publishing.card", []),
    (
        "stages/plumbing/x.py",
        "from groundtrace.stages.draw_questions import Draw",
        [":1 groundtrace.stages.draw_questions"],
    ),
    ("stages/plumbing/x.py", "from groundtrace.stages import draw_questions", [":1 groundtrace.stages"]),
    ("stages/sources/x.py", "import groundtrace.stages.plumbing.stage", [":1 groundtrace.stages.plumbing.stage"]),
    ("pipelines/running/plan/x.py", "from ..execute import y", [":1 groundtrace.pipelines.running.execute"]),
    ("pipelines/running/execute/x.py", "from ..account.y import z", [":1 groundtrace.pipelines.running.account.y"]),
    ("pipelines/running/plan/x.py", "from ..run import execute", [":1 groundtrace.pipelines.running.run"]),
    ("pipelines/running/account/x.py", "from ..plan.y import z\nfrom ..execute.y import z\nfrom . import y", []),
    ("pipelines/running/run.py", "from groundtrace.pipelines.running.account.y import z", []),
    ("stages/plumbing/x.py", "from groundtrace.stages.sources.base import Source\nimport groundtrace.vision", []),
    ("__main__.py", "from groundtrace.pipelines.commands.cli import main", []),
    ("stages/x.py", "from .rows import Row\nfrom . import rows\nfrom groundtrace.stages.plumbing.rows import Row", []),
    ("stages/x.py", "import json, numpy, apache_beam\nfrom groundtrace.rewards.rubrics import measure", []),
    ("pipelines/x.py", "import groundtrace.stages.rows, groundtrace.trainer\nfrom groundtrace import schemas", []),
]


@pytest.mark.parametrize(("file", "text", "found"), ARROWS)
def test_the_walk_finds_arrows_that_point_up_or_sideways(
    file: str, text: str, found: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "groundtrace" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    assert list(forbidden(tmp_path)) == [f"groundtrace/{file}{arrow}" for arrow in found]


CIRCLES = [
    ({"a": "from groundtrace.stages.b import f", "b": "import groundtrace.stages.a"}, True),
    ({"a": "from groundtrace.stages import b", "b": "from .a import f"}, True),
    ({"a": "from . import b", "b": "from . import c", "c": "from . import a"}, True),
    ({"a": "def f():\n    from groundtrace.stages.b import g", "b": "import groundtrace.stages.a"}, True),
    ({"a": "if TYPE_CHECKING:\n    from groundtrace.stages.b import B", "b": "import groundtrace.stages.a"}, True),
    ({"a": "importlib.import_module('groundtrace.stages.b')", "b": "from groundtrace.stages.a import f"}, True),
    ({"__init__": "from groundtrace.stages.a import f", "a": "from groundtrace import stages"}, True),
    ({"room/__init__": "", "room/a": "from .. import b", "b": "from groundtrace.stages.room.a import g"}, True),
    ({"a": "from groundtrace.stages.b import f", "b": "from groundtrace.stages.c import f", "c": ""}, False),
    ({"a": "from groundtrace.stages import b", "b": "import json", "__init__": "from . import a"}, False),
    ({"a": "import groundtrace.schemas.a", "b": "import groundtrace.schemas.a"}, False),
]


@pytest.mark.parametrize(("files", "found"), CIRCLES)
def test_the_walk_finds_circles(files: dict[str, str], found: bool, tmp_path: Path) -> None:
    for name, text in files.items():
        path = tmp_path / "groundtrace/stages" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    around = circle(tmp_path)
    assert bool(around) is found
    assert around[:1] == around[-1:]
