"""Each file of ours is one module, ``groundtrace.…``, in whatever way it is loaded; a lost link is one clear error."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import groundtrace
from groundtrace.pipelines.running.plan.loading import PipelineError, load_recipe

ROOT = Path(__file__).resolve().parents[2]
LINKED = ("schemas", "prompts", "stages", "pipelines", "data_cards")
TWICE = """
import collections, importlib, pathlib, pkgutil, sys
from groundtrace.pipelines.commands.cli import main
assert main(sys.argv[1:]) == 0
for module in pkgutil.iter_modules(sys.modules["groundtrace.pipelines"].__path__):  # what a run leaves out
    importlib.import_module(f"groundtrace.pipelines.{module.name}")
names = collections.defaultdict(list)
for name, module in list(sys.modules.items()):
    if file := getattr(module, "__file__", None):
        names[str(pathlib.Path(file).resolve())].append(name)
home = str(pathlib.Path(sys.modules["groundtrace"].__file__).resolve().parents[1])
ours = {file: found for file, found in names.items() if file.startswith(home) and "site-packages" not in file}
assert any(found == ["groundtrace.pipelines.grounded_cot"] for found in ours.values())
wrong = {file: found for file, found in ours.items() if len(found) > 1 or not found[0].startswith("groundtrace")}
print(wrong, file=sys.stderr)
sys.exit(bool(wrong))
"""


def python(*words: object, folder: Path, path: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run Python in a folder, with another on its path."""
    variables = os.environ | {"PYTHONPATH": "" if path is None else str(path)}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_run_of_a_bundled_recipe_by_its_file_loads_no_file_twice(tmp_path: Path) -> None:
    """From the top of the repository, where its folders could be found under their short names."""
    words = [
        "--input",
        "data/sample",
        "--output",
        tmp_path / "run",
        "--limit",
        6,
        "--set",
        "difficulty.include_high=true",
    ]
    done = python("-c", TWICE, "run", "pipelines/grounded_cot.py", *words, folder=ROOT, path=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folder", [ROOT / "pipelines", ROOT / "groundtrace/pipelines"])
def test_a_bundled_recipe_is_the_same_by_name_and_by_file(folder: Path) -> None:
    recipe = load_recipe("dual_stream")
    assert load_recipe(str(folder / "dual_stream.py")) is recipe
    assert sys.modules["groundtrace.pipelines.dual_stream"].RECIPE is recipe
    assert "dual_stream" not in sys.modules


@pytest.mark.parametrize("name", LINKED)
def test_a_folder_at_the_top_is_not_imported_by_its_short_name(name: str) -> None:
    done = python("-c", f"import {name}", folder=ROOT)
    assert f"ImportError: import this package as groundtrace.{name}: " in done.stderr


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("from trainer.loss import loss", r"No module named 'trainer' \(line 1\); import groundtrace.trainer instead"),
        ("import inference.models", r"No module named 'inference' \(line 1\); import groundtrace.inference instead"),
        ("import no_such_module", r"No module named 'no_such_module' \(line 1\)"),
    ],
)
def test_a_recipe_with_a_short_name_is_answered_with_the_whole_one(line: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / f"short_{len(line)}.py"
    file.write_text(line, "utf-8")
    with pytest.raises(PipelineError, match=problem):
        load_recipe(str(file))


def test_folders_of_the_same_names_beside_a_script_are_its_own(tmp_path: Path) -> None:
    for name in ("schemas", "stages", "vision", "trainer"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"OWN = {name!r}\n", "utf-8")
    code = "import groundtrace as gt, schemas, stages, vision, trainer; gt.open_run; print(schemas.OWN, stages.OWN)"
    done = python("-c", code, folder=tmp_path, path=ROOT)
    assert done.stdout == "schemas stages\n", done.stderr


@pytest.mark.parametrize("lost", ["a plain file", "a broken link", "missing"])
def test_a_lost_link_is_one_clear_error(lost: str, tmp_path: Path) -> None:
    home = tmp_path / "groundtrace"
    home.mkdir()
    shutil.copy(groundtrace.__file__, home)
    for name in LINKED:
        (home / name).symlink_to(ROOT / name)
    (home / "stages").unlink()
    if lost == "a plain file":
        (home / "stages").write_text("../stages", "utf-8")
    elif lost == "a broken link":
        (home / "stages").symlink_to("../stages")
    done = python("-c", "import groundtrace.schemas", folder=tmp_path, path=tmp_path)
    error = done.stderr.splitlines()[-1]
    assert error.startswith(
        f"ImportError: {home / 'stages'} must be a link to ../stages, but it is {lost}: this copy of "
    )
    assert "git clone -c core.symlinks=true" in error


def test_git_has_relative_links_and_pyright_follows_them() -> None:
    links = {path.name: str(path.readlink()) for path in (ROOT / "groundtrace").iterdir() if path.is_symlink()}
    assert links == {name: f"../{name}" for name in LINKED}
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pyright"]["include"]
    assert {f"groundtrace/{name}" for name in LINKED} < set(checked)
