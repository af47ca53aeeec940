"""Where modules of plug-ins are found: beside the config that was read last, and never in the folder of a run."""

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundtrace.config.settings import given_values
from groundtrace.pipelines.running.plan.loading import adopt_file, forget_user_code
from groundtrace.schemas import module_search, registry
from groundtrace.schemas.registry import KINDS, RegistryError, check_parts, use_plugins
from groundtrace.schemas.user_modules import StaleModule

NAME = "found_beside"
SCORER = """
from groundtrace.rewards.scorer import Scorer
PLACE = {place!r}
async def score(case):
    return None
OWN = Scorer("own", "there is something to score", score)
"""
CONFIG = f'[plugins]\nscorers.own = "{NAME}:OWN"\n'


@pytest.fixture(autouse=True)
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A session whose current folder is another one; what it imports is forgotten at the end."""
    monkeypatch.setattr(registry, "_configured", {kind: {} for kind in KINDS})
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    path = [*sys.path]
    yield
    forget_user_code()
    sys.path[:] = path


def project(folder: Path, config: str = CONFIG, module: str = NAME) -> Path:
    """A folder with a config and the module that it names; returns the config."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{module.replace('.', '/')}.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(SCORER.format(place=folder.name))
    (folder / "own.toml").write_text(config)
    return folder / "own.toml"


def place_of(config: Path) -> str:
    """The folder of the module that a config's scorer is from, as a run of this config finds it."""
    values = given_values(str(config))
    use_plugins(values["plugins"], is_of_config=True)
    check_parts(values)
    path = values["plugins"]["scorers"]["own"]
    return sys.modules[path.partition(":")[0]].PLACE


MARKERS = {
    "input.json": '{"input": "records.jsonl", "fingerprint": "0f"}',
    "run.json": '{"command": "sft", "config_sha256": "0f"}',
    "questions/split.json": '{"train": 2, "held": 1, "groups": {}}',
}
"""The files that make a folder that of a run, a training or a loop, with some of their content."""


def mark(folder: Path, marker: str = "input.json", content: str | None = None) -> None:
    """Make a folder that of a run, a training or a loop."""
    (folder / marker).parent.mkdir(parents=True, exist_ok=True)
    (folder / marker).write_text(MARKERS[marker] if content is None else content)


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("inner", ["", "sub", "configs/deep"])
def test_nothing_is_imported_from_the_folder_of_a_run(tmp_path: Path, marker: str, inner: str) -> None:
    config = project(tmp_path / "theirs" / inner)
    mark(tmp_path / "theirs", marker)
    with pytest.raises(RegistryError) as caught:
        place_of(config)
    assert str(caught.value).endswith(
        f"modules in {config.parent} are not imported, because somebody else may have made the run, training or loop "
        f"in {tmp_path / 'theirs'}: put the module into another folder, and run the command there or add it to "
        "PYTHONPATH"
    )


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"input": 1, "train": 2, "command": "build"}'])
def test_files_of_other_programs_do_not_make_a_run(tmp_path: Path, marker: str, content: str) -> None:
    mark(tmp_path, marker, content)
    (tmp_path / "project/run.json").mkdir(parents=True)
    assert place_of(project(tmp_path / "project")) == "project"


def test_a_marker_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own input.json may be large, and each search for a module asks whether it marks a run."""
    read, original = list[Path](), module_search.read_json
    monkeypatch.setattr(module_search, "read_json", lambda file: read.append(file) or original(file))
    mark(tmp_path, "input.json", "[]")
    monkeypatch.chdir(tmp_path)
    for _ in range(3):
        assert module_search.current_folder() == (str(tmp_path),)
    assert read == [tmp_path / "input.json"]
    mark(tmp_path)
    assert module_search.current_folder() == ()


@pytest.mark.parametrize("inner", ["", "sub"])
def test_nothing_is_imported_from_the_current_folder_in_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    config = project(tmp_path / "theirs" / inner)
    mark(tmp_path / "theirs")
    monkeypatch.chdir(config.parent)
    mine = tmp_path / "mine/own.toml"
    mine.parent.mkdir()
    mine.write_text(CONFIG)
    for each in (config.name, str(mine)):
        with pytest.raises(RegistryError, match=f"modules in {config.parent} are not imported, because somebody else"):
            place_of(Path(each))
    project(tmp_path / "mine")
    assert place_of(mine) == "mine"
    assert str(config.parent) not in sys.path


def test_nothing_is_imported_beside_what_a_config_in_a_run_extends(tmp_path: Path) -> None:
    project(tmp_path / "archive/parts")
    theirs = tmp_path / "archive/run"
    mark(theirs)
    (theirs / "config.toml").write_text('extends = "../parts/own.toml"\n')
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "mine.toml").write_text('extends = "../archive/run/config.toml"\n')
    for config in (theirs / "config.toml", mine / "mine.toml"):
        with pytest.raises(RegistryError, match="cannot be imported"):
            place_of(config)
    project(mine)  # what the user's own config is beside is found
    assert place_of(mine / "mine.toml") == "mine"


def test_a_config_does_not_use_the_module_beside_an_earlier_config(tmp_path: Path) -> None:
    first = project(tmp_path / "first")
    second = tmp_path / "second/own.toml"
    second.parent.mkdir()
    second.write_text(CONFIG)
    assert place_of(first) == "first"
    with pytest.raises(StaleModule, match=r"was imported for another config, is not beside this config"):
        place_of(second)
    forget_user_code()
    with pytest.raises(RegistryError, match="cannot be imported"):
        place_of(second)


def test_two_configs_with_a_module_of_one_name(tmp_path: Path) -> None:
    first, second = project(tmp_path / "first"), project(tmp_path / "second")
    assert place_of(first) == "first"
    with pytest.raises(StaleModule, match=r"second cannot be imported, because .*first.* call gt\.reload\(\)"):
        place_of(second)
    forget_user_code()
    assert place_of(second) == "second"


@pytest.mark.parametrize("is_on_path", [False, True])
def test_another_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_on_path: bool) -> None:
    if is_on_path:
        monkeypatch.syspath_prepend("")
    first, second = project(tmp_path / "first"), project(tmp_path / "second")
    os.chdir(tmp_path / "first")
    assert place_of(first) == "first"
    os.chdir(tmp_path / "second")
    with pytest.raises(StaleModule, match="second cannot be imported"):
        place_of(second)
    forget_user_code()
    assert place_of(second) == "second"


def test_the_folder_of_an_earlier_recipe(tmp_path: Path) -> None:
    recipe = tmp_path / "first/found_recipe.py"
    first, second = project(tmp_path / "first"), project(tmp_path / "second")
    recipe.write_text(f"import {NAME}\nRECIPE = None\n")
    adopt_file(str(recipe))
    assert place_of(first) == "first"
    with pytest.raises(StaleModule, match="second cannot be imported"):
        place_of(second)
    assert {NAME, "found_recipe"} <= forget_user_code()
    assert str(tmp_path / "first") not in sys.path
    assert place_of(second) == "second"


def test_the_module_beside_the_recipe_comes_before_that_beside_the_config(tmp_path: Path) -> None:
    recipe = tmp_path / "first/found_recipe.py"
    project(tmp_path / "first")
    second = project(tmp_path / "second")
    recipe.write_text("RECIPE = None\n")
    adopt_file(str(recipe))
    assert place_of(second) == "first"


def test_a_module_that_is_a_link(tmp_path: Path) -> None:
    config = project(tmp_path / "configs")
    (tmp_path / "lib").mkdir()
    (tmp_path / f"configs/{NAME}.py").rename(tmp_path / f"lib/{NAME}.py")
    (tmp_path / f"configs/{NAME}.py").symlink_to(tmp_path / f"lib/{NAME}.py")
    assert place_of(config) == place_of(config) == "configs"


def test_modules_of_installed_packages_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of a package without ``__init__.py`` that has a folder of the user's, too."""
    installed = tmp_path / "site-packages/found_package"
    installed.mkdir(parents=True)
    (installed / "theirs.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    config = project(tmp_path / "mine", '[plugins]\nscorers.own = "found_package.mine:OWN"\n', "found_package.mine")
    monkeypatch.syspath_prepend(str(tmp_path / "mine"))
    kept = importlib.import_module("found_package.theirs")
    assert place_of(config) == "mine"
    assert forget_user_code() == {"found_package.mine"}
    assert sys.modules["found_package.theirs"] is kept
    for name in ("found_package", "found_package.theirs"):
        del sys.modules[name]


def test_packages_without_init_beside_two_configs(tmp_path: Path) -> None:
    one, two = (
        project(tmp_path / name, f'[plugins]\nscorers.own = "found_package.{name}:OWN"\n', f"found_package.{name}")
        for name in ("one", "two")
    )
    assert place_of(one) == "one"
    forget_user_code()
    assert place_of(two) == "two"


def test_a_folder_of_data_does_not_hide_a_module(tmp_path: Path) -> None:
    """A folder with the module's name in the current folder, beside the config, or both."""
    config = project(tmp_path / "mine")
    theirs = tmp_path / "theirs.toml"
    theirs.write_text('extends = "mine/own.toml"\n')
    for folder in (tmp_path / "here" / NAME, tmp_path / NAME):
        folder.mkdir()
        (folder / "data.csv").write_text("1\n")
    assert place_of(config) == place_of(theirs) == "mine"
    forget_user_code()
    assert place_of(theirs) == "mine"
