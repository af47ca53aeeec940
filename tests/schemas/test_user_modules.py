"""Files of a user that change after their import, or that have the name of another recipe's module."""

import importlib
import os
import py_compile
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from groundtrace.pipelines.running.plan.loading import PipelineError, adopt_file, forget_user_code
from groundtrace.schemas import user_modules
from groundtrace.schemas.registry import RegistryError, check_parts, load
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
    with pytest.raises(StaleModule, match=rf"{changed} has changed since Python imported it.*call gt\.reload\(\)"):
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
    check_parts({"kind": "own_types:VALUE"})
    (tmp_path / "own_types.py").write_text("VALUE = 2\n")
    with pytest.raises(StaleModule, match=r"own_types\.py has changed since Python imported it"):
        check_parts({"kind": "own_types:VALUE"})
    (tmp_path / "own_types.py").unlink()
    with pytest.raises(StaleModule, match=r"own_types\.py has changed since Python imported it"):
        check_parts({"kind": "own_types:VALUE"})


def test_two_recipes_with_different_modules_of_one_name(tmp_path: Path) -> None:
    first, second = recipe(tmp_path / "a", 1), recipe(tmp_path / "b", 2, "other_recipe.py")
    assert adopt_file(str(first)).RECIPE == 1
    with pytest.raises(StaleModule, match=r"b/parts_beside\.py cannot be imported, because .*a/parts_beside\.py"):
        adopt_file(str(second))
    assert adopt_file(str(first)).RECIPE == 1


@pytest.mark.parametrize("first_imports", ["child", "namespace", "later", "notebook"])
def test_a_module_of_another_folder_is_not_used(first_imports: str, tmp_path: Path) -> None:
    """Whoever imported the other module: a recipe in a subfolder, from a package without __init__.py, in `build`, or
    the user."""
    name = "own_space.parts" if first_imports == "namespace" else "parts_beside"
    folders = (tmp_path / "a/b", tmp_path / "a") if first_imports == "child" else (tmp_path / "a", tmp_path / "b")
    for value, folder in enumerate(folders):
        parts = folder / f"{name.replace('.', '/')}.py"
        parts.parent.mkdir(parents=True, exist_ok=True)
        parts.write_text(f"VALUE = {value}\n")
    imports = f"def build():\n    import {name}" if first_imports == "later" else f"import {name}"
    for folder, stem in zip(folders, ("own_recipe", "other_recipe"), strict=True):
        (folder / f"{stem}.py").write_text(f"{imports}\nRECIPE = 1\n")
    if first_imports == "notebook":
        sys.path.insert(0, str(folders[0]))
        importlib.import_module(name)
    else:
        module = adopt_file(str(folders[0] / "own_recipe.py"))
        if first_imports == "later":
            module.build()
    with pytest.raises(StaleModule, match=rf"{folders[1]}/.* cannot be imported, because {folders[0]}/.*same name"):
        adopt_file(str(folders[1] / "other_recipe.py"))


def test_two_threads_with_modules_of_one_name(tmp_path: Path) -> None:
    """One of the two recipes is refused; none gets the module of the other."""
    files = [recipe(tmp_path / folder, value, f"recipe_{folder}.py") for folder, value in (("a", 1), ("b", 2))]
    for file in files:
        (file.parent / "parts_beside.py").write_text(f"import time\ntime.sleep(0.3)\nVALUE = {files.index(file) + 1}\n")
    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(adopt_file, str(file)) for file in files]
    ends = [each.exception() or each.result().RECIPE for each in found]
    assert sorted(isinstance(end, StaleModule) for end in ends) == [False, True]
    assert all(isinstance(end, StaleModule) or end == number for number, end in enumerate(ends, 1))


def write_later(file: Path, text: str) -> None:
    """Change a file, as if a minute had passed since it was written."""
    file.write_text(text)
    os.utime(file, (time.time() + 60, time.time() + 60))


def test_a_module_that_a_notebook_imported_and_changed_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = recipe(tmp_path / "a", 1)
    sys.path.insert(0, str(tmp_path / "a"))
    importlib.import_module("parts_beside")
    write_later(tmp_path / "a/parts_beside.py", "VALUE = 2\n")
    with pytest.raises(StaleModule, match=r"parts_beside\.py has changed since Python imported it"):
        adopt_file(str(file))


def test_bytecode_that_is_older_than_the_first_import_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = recipe(tmp_path / "a", 1)
    py_compile.compile(str(tmp_path / "a/parts_beside.py"))
    write_later(tmp_path / "a/parts_beside.py", "VALUE = 2\n")
    assert adopt_file(str(file)).RECIPE == 2 == adopt_file(str(file)).RECIPE


@pytest.mark.parametrize("how", ["reloaded", "imported again", "a package now", "missing"])
def test_a_changed_module_that_the_recipe_still_holds(how: str, tmp_path: Path) -> None:
    file = recipe(tmp_path / "a", 1)
    assert adopt_file(str(file)).RECIPE == 1
    parts = tmp_path / "a/parts_beside.py"
    parts.write_text("VALUE = 2\n")
    if how == "reloaded":
        importlib.reload(sys.modules["parts_beside"])
    elif how == "imported again":
        del sys.modules["parts_beside"]
    else:
        parts.unlink()
    if how == "a package now":
        (tmp_path / "a/parts_beside").mkdir()
        (tmp_path / "a/parts_beside/__init__.py").write_text("VALUE = 2\n")
    with pytest.raises(StaleModule, match="start Python again"):
        adopt_file(str(file))


def test_a_recipe_that_another_one_does_not_use_may_change(tmp_path: Path) -> None:
    first = recipe(tmp_path / "a", 1)
    second = recipe(tmp_path / "b", 2, "other_recipe.py", "more_parts.py")
    second.write_text("from more_parts import VALUE\nRECIPE = VALUE\n")
    adopt_file(str(first))
    first.write_text("RECIPE = 3\n")
    assert adopt_file(str(second)).RECIPE == 2


def test_the_folder_of_a_recipe_may_be_a_link(tmp_path: Path) -> None:
    recipe(tmp_path / "a", 1)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    sys.path.insert(0, str(tmp_path / "link"))
    file = str(tmp_path / "a/own_recipe.py")
    assert adopt_file(file).RECIPE == 1
    (tmp_path / "a/parts_beside.py").write_text("VALUE = 2\n")
    with pytest.raises(StaleModule, match=r"a/parts_beside\.py has changed"):
        adopt_file(file)


def test_a_module_beside_the_recipe_may_be_a_link(tmp_path: Path) -> None:
    file = recipe(tmp_path / "a", 1)
    (tmp_path / "common").mkdir()
    (tmp_path / "a/parts_beside.py").rename(tmp_path / "common/helpers.py")
    (tmp_path / "a/parts_beside.py").symlink_to(tmp_path / "common/helpers.py")
    assert adopt_file(str(file)).RECIPE == 1 == adopt_file(str(file)).RECIPE
    assert user_modules.imported_files(tmp_path / "a") == {file, tmp_path / "a/parts_beside.py"}
    (tmp_path / "common/helpers.py").write_text("VALUE = 2\n")
    with pytest.raises(StaleModule, match=r"a/parts_beside\.py has changed"):
        adopt_file(str(file))


def test_a_recipe_in_a_checkout_of_groundtrace(tmp_path: Path) -> None:
    """The folder of the recipe has files of Groundtrace, under other paths than those that Python imported."""
    (tmp_path / "groundtrace").symlink_to(Path(__file__).parents[2] / "groundtrace")
    file = tmp_path / "own_recipe.py"
    file.write_text("from groundtrace.stages.ingest_records import IngestRecords as RECIPE\n")
    assert adopt_file(str(file)).RECIPE.__name__ == "IngestRecords"
    assert user_modules.used_files(file, tmp_path) == {file}


def test_a_module_of_a_recipe_that_could_not_be_imported(tmp_path: Path) -> None:
    file = recipe(tmp_path / "a", 1)
    file.write_text(f"{RECIPE}no_such_name\n")
    with pytest.raises(PipelineError, match="no_such_name"):
        adopt_file(str(file))
    file.write_text(RECIPE)
    assert adopt_file(str(file)).RECIPE == 1
    del sys.modules["own_recipe"]
    file.write_text(f"{RECIPE}no_such_name\n")
    with pytest.raises(PipelineError, match="no_such_name"):
        adopt_file(str(file))
    file.write_text(RECIPE)
    (tmp_path / "a/parts_beside.py").write_text("VALUE = 2\n")
    with pytest.raises(StaleModule, match=r"parts_beside\.py has changed"):
        adopt_file(str(file))


def test_bytecode_that_python_cannot_write_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be older than the file although Python has just imported the file."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = recipe(tmp_path / "a", 1)
    py_compile.compile(str(tmp_path / "a/parts_beside.py"))
    write_later(tmp_path / "a/parts_beside.py", "VALUE = 2\n")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    sys.path.insert(0, str(tmp_path / "a"))
    importlib.import_module("parts_beside")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(user_modules.os, "access", lambda *_: False)
    assert adopt_file(str(file)).RECIPE == 2


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
        "recipe.py": "import json\nimport a.b as b\nfrom c import VALUE\ndef later():\n    import d\nfrom g import *\n",
        "g/h.py": "",
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
    (tmp_path / "g").mkdir()
    (tmp_path / "recipe.py").write_text(f"import {'x' * 300}")
    assert user_modules.used_files(tmp_path / "recipe.py", tmp_path) == {tmp_path / "recipe.py"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    used = user_modules.used_files(tmp_path / "recipe.py", tmp_path)
    assert {str(file.relative_to(tmp_path)) for file in used} == {*texts} - {"not_imported.py", "json.txt"}


def test_a_forgotten_module_is_imported_from_its_present_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after two changes within a second that keep the file's size, for which Python would use its bytecode."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = recipe(tmp_path / "a", 1)
    sys.path.insert(0, str(tmp_path / "a"))
    importlib.import_module("parts_beside")
    assert adopt_file(str(file)).RECIPE == 1
    for value in (2, 3):
        (tmp_path / "a/parts_beside.py").write_text(f"VALUE = {value}\n")
        os.utime(tmp_path / "a/parts_beside.py", (1_000_000_000, 1_000_000_000))
        assert forget_user_code() == {"own_recipe", "parts_beside"}
        importlib.import_module("parts_beside")
        assert value == adopt_file(str(file)).RECIPE
    assert forget_user_code() and not forget_user_code()


def test_a_package_is_forgotten_with_all_that_it_holds(tmp_path: Path) -> None:
    """Packages with and without ``__init__.py``, and modules that no import statement names."""
    texts = {
        "own_pack/__init__.py": "from . import first\n",
        "own_pack/first.py": "VALUE = 1\n",
        "own_pack/inner/second.py": "VALUE = 1\n",
        "own_space/third.py": "VALUE = 1\n",
        "own_recipe.py": "import importlib\nimport own_pack\nfrom own_space import third\n"
        "importlib.import_module('own_pack.inner.second')\n"
        "RECIPE = own_pack.first.VALUE, own_pack.inner.second.VALUE, third.VALUE\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert adopt_file(str(tmp_path / "own_recipe.py")).RECIPE == (1, 1, 1)
    for name in ("own_pack/first.py", "own_pack/inner/second.py", "own_space/third.py"):
        (tmp_path / name).write_text("VALUE = 2\n")
    forget_user_code()
    assert adopt_file(str(tmp_path / "own_recipe.py")).RECIPE == (2, 2, 2)


def test_modules_of_others_are_not_forgotten(tmp_path: Path) -> None:
    site = tmp_path / "a/site-packages"
    site.mkdir(parents=True)
    (site / "installed_parts.py").write_text("VALUE = 1\n")
    sys.path.insert(0, str(site))
    (tmp_path / "a/own_recipe.py").write_text(
        "import json, pytest\nfrom installed_parts import VALUE as RECIPE\nimport groundtrace.grading\n"
    )
    adopt_file(str(tmp_path / "a/own_recipe.py"))
    assert forget_user_code() == {"own_recipe"}
    assert {"installed_parts", "json", "pytest", "groundtrace.grading"} <= set(sys.modules)


def test_after_a_reload_a_recipe_uses_its_own_module_of_a_name(tmp_path: Path) -> None:
    first, second = recipe(tmp_path / "a", 1), recipe(tmp_path / "b", 2, "other_recipe.py")
    for file, value in ((first, 1), (second, 2), (first, 1)):
        assert value == adopt_file(str(file)).RECIPE
        forget_user_code()


def test_after_a_reload_a_module_that_the_recipe_imported_before_may_be_missing(tmp_path: Path) -> None:
    file = recipe(tmp_path / "a", 1)
    adopt_file(str(file))
    (tmp_path / "a/parts_beside.py").unlink()
    forget_user_code()
    with pytest.raises(PipelineError, match="No module named 'parts_beside'"):
        adopt_file(str(file))
    recipe(tmp_path / "a", 2)
    assert adopt_file(str(file)).RECIPE == 2


def test_a_plug_in_that_could_not_be_imported_leaves_nothing_behind_after_a_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_types.py").write_text("from own_help import LATER as VALUE\n")
    (tmp_path / "own_help.py").write_text("EARLIER = 1\n")
    with pytest.raises(RegistryError, match="cannot import name 'LATER'"):
        load("own_types:VALUE")
    (tmp_path / "own_help.py").write_text("EARLIER = 1\nLATER = 2\n")
    assert forget_user_code() == {"own_help"}
    assert load("own_types:VALUE") == 2
