"""The light install: no module of the core imports what only an extra brings, neither at once nor when it is used.

What brings a module is read from pyproject.toml and from the metadata of what is installed, requirements of
requirements included: a package that happens to be there because an extra or a tool asked for it does not count.
"""

import ast
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import Distribution, distributions, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from groundtrace.inference.endpoint import KINDS
from groundtrace.storage.object_store import SCHEMES

from .test_floors import ROOT, files_of, modules_named

STAND_FOR = {
    **{kind.endpoint.partition(":")[0]: (kind.extra,) for kind in KINDS.values() if kind.extra},
    "groundtrace.inference.endpoints.chat_generation": ("vision",),
    "groundtrace.inference.endpoints.checkpoint_sizes": ("vision",),
    "groundtrace.inference.endpoints.hf_detector": ("vision",),
    "groundtrace.inference.endpoints.hf_segmenter": ("vision",),
    "groundtrace.inference.endpoints.transformers_loading": ("vision",),
    "groundtrace.sandbox": ("sandbox",),
    "groundtrace.storage.object_store": tuple(extra for extra, _ in SCHEMES.values()),
    "groundtrace.trainer": ("train",),
    "groundtrace.vision.frames": ("video",),
}
"""The modules and packages that may import what an extra brings, and which:
:func:`groundtrace.config.extras.require_extra` is asked before they do. All other modules are the core."""


def extras_of(module: str) -> tuple[str, ...]:
    """The extras that a module of ours may import from."""
    return next((extras for name, extras in STAND_FOR.items() if f"{module}.".startswith(f"{name}.")), ())


@cache
def installed() -> Mapping[str, Distribution]:
    return {canonicalize_name(found.name): found for found in distributions() if found.name}


@cache
def brought(*extras: str) -> frozenset[str]:
    """The distributions that the core and these extras bring, with all that they require in turn."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    waiting, seen = [Requirement(line) for line in asked], dict[str, set[str]]()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        fresh = {"", *wanted.extras} - seen.get(name, set())
        if name not in installed() or not fresh:
            continue
        seen.setdefault(name, set()).update(fresh)
        for requirement in map(Requirement, installed()[name].requires or ()):
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in fresh):
                waiting.append(requirement)
    return frozenset(seen)


@cache
def homes() -> Mapping[str, list[str]]:
    """The names of the distributions that hold each module of the top."""
    return packages_distributions()


@cache
def homes_of(module: str) -> frozenset[str]:
    """The distributions that hold a module; of packages that several share, such as google, those with the part."""
    sharing = [canonicalize_name(name) for name in set(homes().get(module.split(".")[0], ()))]
    if len(sharing) < 2:
        return frozenset(sharing)
    part = "/".join(module.split(".")[:2])
    starts = (f"{part}/", f"{part}.")
    return frozenset(
        name for name in sharing if any(str(file).startswith(starts) for file in installed()[name].files or ())
    )


def imports(tree: ast.AST, package: str, *, at_once: bool = True) -> Iterator[tuple[list[str], bool]]:
    """What a file imports, each as the names that it may stand for, and whether that is done where it is imported.

    What is for type checkers only is left out.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        inner = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
        for module in modules_named(node, package):
            yield [*(f"{module}.{name}" for name in inner), module], at_once
        later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from imports(node, package, at_once=at_once and not later)


def is_foreign(module: str) -> bool:
    top = module.split(".")[0]
    return top != "groundtrace" and top not in sys.stdlib_module_names


def lacking(names: Iterable[str], extras: tuple[str, ...]) -> bool:
    """Whether nothing that the core and the extras bring holds the module of the first of these names that is known."""
    homes = next(filter(None, map(homes_of, names)), frozenset())
    return not homes & brought(*extras)


class House:
    """The modules below a folder, and what each imports."""

    def __init__(self, root: Path) -> None:
        self.modules = {".".join(file.with_suffix("").parts).removesuffix(".__init__"): file for file in files_of(root)}
        self.imported = {
            name: list(imports(ast.parse((root / file).read_bytes()), ".".join(file.parent.parts)))
            for name, file in self.modules.items()
        }

    def wrong(self) -> Iterator[str]:
        """Each import of what is not brought, as ``module: what it imports``; of the core also what it leads to."""
        for name, found in self.imported.items():
            for names, _ in found:
                if is_foreign(names[-1]) and lacking(names, extras_of(name)):
                    yield f"{name}: {names[-1]}"
            if not extras_of(name):
                yield from (f"{name}: {led}, which needs an extra" for led in sorted(self._led_to(name) - {name}))

    def _led_to(self, name: str) -> set[str]:
        """The modules of extras that are imported at once with a module, by way of others."""
        seen, waiting = set[str](), [name]
        while waiting:
            module = waiting.pop()
            if module in seen or module not in self.modules:
                continue
            seen.add(module)
            parent = module.rpartition(".")[0]
            waiting += [parent, *(each for names, at_once in self.imported[module] if at_once for each in names)]
        return {module for module in seen if self._needs_extra(module)}

    def _needs_extra(self, module: str) -> bool:
        found = self.imported[module]
        return any(at_once and is_foreign(names[-1]) and lacking(names, ()) for names, at_once in found)


@pytest.fixture(scope="module")
def house() -> House:
    return House(ROOT)


@pytest.mark.slow
def test_the_core_imports_what_the_core_brings(house: House) -> None:
    assert list(house.wrong()) == []


def test_each_exception_is_needed(house: House) -> None:
    for name in STAND_FOR:
        modules = [module for module in house.modules if f"{module}.".startswith(f"{name}.")]
        found = [names for module in modules for names, _ in house.imported[module] if is_foreign(names[-1])]
        assert any(lacking(names, ()) for names in found), f"{name} imports nothing of an extra: take it off the table"


WRONG = [
    ("inference/x.py", "import httpx", ["inference.x: httpx"]),
    ("inference/x.py", "async def f():\n    import httpx", ["inference.x: httpx"]),
    ("inference/x.py", "class A:\n    def f(self):\n        from httpx import Timeout", ["inference.x: httpx"]),
    ("inference/x.py", "if True:\n    import torch.nn as nn", ["inference.x: torch.nn"]),
    ("inference/x.py", "import importlib\nimportlib.import_module('torch')", ["inference.x: torch"]),
    ("inference/x.py", "from google import genai", ["inference.x: google"]),
    ("inference/x.py", "from google.genai import types", ["inference.x: google.genai"]),
    ("inference/x.py", "import no_such_module", ["inference.x: no_such_module"]),
    ("inference/x.py", "import pytest", ["inference.x: pytest"]),
    ("inference/endpoints/gemini.py", "from google import genai\nimport torch", ["inference.endpoints.gemini: torch"]),
    ("trainer/x.py", "import torch, msgpack, peft", []),
    ("vision/frames.py", "def f():\n    import av", []),
    ("inference/x.py", "import json, aiohttp, numpy as np, yaml, cv2, apache_beam.io", []),
    ("inference/x.py", "from google.protobuf import text_format", []),
    ("inference/x.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch", []),
    ("inference/x.py", "from . import y\nimport groundtrace.inference.z", []),
]


@pytest.mark.parametrize(("file", "text", "wrong"), WRONG)
def test_the_walk_finds_what_is_not_brought(file: str, text: str, wrong: list[str], tmp_path: Path) -> None:
    path = tmp_path / "groundtrace" / file
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    assert list(House(tmp_path).wrong()) == [f"groundtrace.{line}" for line in wrong]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from groundtrace.trainer import loop", True),
        ("from groundtrace.trainer.loop import step", True),
        ("import groundtrace.stages.between", True),
        ("def f():\n    from groundtrace.trainer.loop import step", False),
        ("import groundtrace.trainer.settings", False),
    ],
)
def test_the_walk_follows_what_is_imported_at_once(text: str, found: bool, tmp_path: Path) -> None:
    files = {
        "trainer/loop": "import torch",
        "trainer/settings": "",
        "stages/between": "import groundtrace.trainer.loop",
        "pipelines/x": text,
    }
    for name, content in files.items():
        path = tmp_path / "groundtrace" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
    wrong = [line for line in House(tmp_path).wrong() if line.startswith("groundtrace.pipelines.x")]
    assert wrong == (["groundtrace.pipelines.x: groundtrace.trainer.loop, which needs an extra"] if found else [])
