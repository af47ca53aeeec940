"""Recipes in files of their users'."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundtrace.pipelines.running.plan.loading import PipelineError, adopt_file, recipe_file

BESIDE = "from wording_beside import WORDS\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder with a module in it, where Python keeps bytecode, as it does unless it is asked not to."""
    (tmp_path / "wording_beside.py").write_text("WORDS = 3\n", "utf-8")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in ("own_recipe", "wording_beside"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("ending", ["", "raise ValueError\n", "def build(:\n", "import sys\nsys.exit(0)\n"])
def test_nothing_is_written_beside_a_recipe(folder: Path, ending: str) -> None:
    (folder / "own_recipe.py").write_text(BESIDE + ending, "utf-8")
    if ending:
        with pytest.raises(PipelineError):
            adopt_file(str(folder / "own_recipe.py"))
    else:
        assert adopt_file(str(folder / "own_recipe.py")).WORDS == 3
    assert sorted(path.name for path in folder.rglob("*")) == ["own_recipe.py", "wording_beside.py"]
    assert sys.dont_write_bytecode is False


def test_a_pipeline_file_in_the_home_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "own_recipe.py").touch()
    monkeypatch.setenv("HOME", str(folder))
    assert recipe_file("~/own_recipe.py") == folder / "own_recipe.py"


@pytest.mark.parametrize("name", ["", "__init__", "x/" * 3000])
def test_a_name_that_is_no_pipeline(name: str) -> None:
    with pytest.raises(PipelineError, match=r"^there is no pipeline .*: name a bundled pipeline"):
        recipe_file(name)


@pytest.mark.parametrize("name", ["nope.py", "~no-such-user/x.py", "x" * 300 + ".py"])
def test_a_file_that_does_not_exist(name: str) -> None:
    with pytest.raises(
        PipelineError, match=r"^there is no file '.*\.py' in the folder /.*: correct the path, or name a"
    ):
        recipe_file(name)
