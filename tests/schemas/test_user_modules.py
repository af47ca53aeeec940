"""Files of a user that change after their import, or that have the name of another recipe's module."""

import sys
from pathlib import Path

import pytest

from groundtrace.pipelines.running.plan.loading import PipelineError, adopt_file
from groundtrace.schemas import user_modules
from groundtrace.schemas.registry import load, use_plugins
from groundtrace.schemas.user_modules import StaleModule

RECIPE = "from parts_beside import VALUE\nRECIPE = VALUE\n"


pytestmark = pytest.mark.usefixtures("own_modules")


def recipe(folder: Path, value: int, name: str = "own_recipe.py", parts: str = "parts_beside.py") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / parts).write_text(f"VALUE = {value}\n")
    (folder / name).write_text(RECIPE)
    return folder / name


@pytest.mark.parametrize("changed", ["own_recipe.py", "parts_beside.py"])
def test_a_file_that_changes_after_its_import_is_refused(changed: str, tmp_path: Path) -> None:
    file = recipe(tmp_path / "a", 1)
    assert adopt_file(str(file)).RECIPE == 1
    assert adopt_file(str(file)).RECIPE == 1
    with (tmp_path / "a" / changed).open("a") as stream:
        stream.write("# another line\n")
    with pytest.raises(StaleModule, match=rf"{changed} has changed since Python imported it.*start Python again"):
        adopt_file(str(file))


def test_a_module_that_is_imported_again_is_the_new_one(tmp_path: Path) -> None:
    file = recipe(tmp_path / "a", 1)
    for value in (1, 2, 3):
        file.write_text(f"RECIPE = {value}\n")
        assert value == adopt_file(str(file)).RECIPE
        assert value == adopt_file(str(file)).RECIPE
        del sys.modules["own_recipe"]


def test_a_file_that_the_recipe_does_not_import_may_change(tmp_path: Path) -> None:
    """For example a script in the same folder that calls gt.run."""
    file = recipe(tmp_path / "a", 1)
    (tmp_path / "a" / "own_script.py").write_text("NUMBER = 1\n")
    assert adopt_file(str(file)).RECIPE == 1
    __import__("own_script")
    (tmp_path / "a" / "own_script.py").write_text("NUMBER = 2\n")
    assert adopt_file(str(file)).RECIPE == 1


def test_a_plug_in_that_changes_after_its_import_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_types.py").write_text("VALUE = 1\n")
    assert load("own_types:VALUE") == 1
    use_plugins({})
    (tmp_path / "own_types.py").write_text("VALUE = 2\n")
    with pytest.raises(StaleModule, match=r"own_types\.py has changed since Python imported it"):
        use_plugins({})


def test_two_recipes_with_different_modules_of_one_name(tmp_path: Path) -> None:
    first, second = recipe(tmp_path / "a", 1), recipe(tmp_path / "b", 2, "other_recipe.py")
    assert adopt_file(str(first)).RECIPE == 1
    with pytest.raises(StaleModule, match=r"b/parts_beside\.py cannot be imported, because .*a/parts_beside\.py"):
        adopt_file(str(second))
    assert adopt_file(str(first)).RECIPE == 1


def test_the_folder_of_a_script_keeps_its_place_on_the_import_path(tmp_path: Path) -> None:
    file = recipe(tmp_path / "a", 1)
    sys.path.insert(0, str(tmp_path / "a"))
    adopt_file(str(file))
    assert sys.path.index(str(tmp_path / "a")) == 0 and sys.path.count(str(tmp_path / "a")) == 1


def test_a_module_of_the_same_name_that_the_recipe_does_not_import(tmp_path: Path) -> None:
    first = recipe(tmp_path / "a", 1)
    second = recipe(tmp_path / "b", 2, "other_recipe.py", "more_parts.py")
    second.write_text("from more_parts import VALUE\nRECIPE = VALUE\n")
    (tmp_path / "b" / "parts_beside.py").write_text("raise AssertionError\n")
    assert adopt_file(str(first)).RECIPE == 1
    assert adopt_file(str(second)).RECIPE == 2
    assert adopt_file(str(first)).RECIPE == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("VALUE = 1 +\n", r"invalid syntax \(parts_beside\.py, line 1\); correct .*a/parts_beside\.py$"),
        ("\nVALUE = 1 / 0\n", r"ZeroDivisionError: .* \(parts_beside\.py, line 2\); correct .*a/parts_beside\.py$"),
        (
            "from pydantic import PositiveInts\n",
            r"cannot import name 'PositiveInts' .* \(parts_beside\.py, line 1\); correct .*a/parts_beside\.py$",
        ),
        (
            "import no_such_package\n",
            r"\(parts_beside\.py, line 1\); correct .*parts_beside\.py, or install the module$",
        ),
    ],
)
def test_a_fault_in_a_module_beside_the_recipe_names_this_module(text: str, message: str, tmp_path: Path) -> None:
    file = recipe(tmp_path / "a", 1)
    (tmp_path / "a" / "parts_beside.py").write_text(text)
    with pytest.raises(PipelineError, match=rf"^{file} cannot be imported: .*{message}"):
        adopt_file(str(file))


def test_the_files_that_a_file_imports_from_its_folder(tmp_path: Path) -> None:
    texts = {
        "recipe.py": "import json\nimport a.b as b\nfrom c import VALUE\ndef later():\n    import d\n",
        "a/__init__.py": "",
        "a/b.py": "from . import e\nfrom .f import X\nfrom ..c import Y\n",
        "a/e.py": "import recipe\n",
        "a/f.py": "",
        "c.py": "",
        "d.py": "no Python\0",
        "not_imported.py": "",
        "json.txt": "",
    }
    (tmp_path / "a").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    used = user_modules.used_files(tmp_path / "recipe.py", tmp_path)
    assert {str(file.relative_to(tmp_path)) for file in used} == {*texts} - {"not_imported.py", "json.txt"}
