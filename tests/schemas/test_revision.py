import importlib.metadata
import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from groundtrace.schemas import revision

VERSION = f"groundtrace {importlib.metadata.version('groundtrace')}"


def git(folder: Path, *arguments: str) -> str:
    own = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    done = subprocess.run(["git", "-C", str(folder), *own, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def module_at(home: Path) -> Any:
    """The module, newly loaded from the folder ``schemas`` of ``home``."""
    spec = importlib.util.spec_from_file_location("revision_elsewhere", home / "schemas/revision.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def revision_at(home: Path) -> str:
    """What a process says in which the module lies there."""
    return module_at(home).code_revision()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder in no git checkout that holds the module and the packages it looks at."""
    home = tmp_path / "project"
    for package in revision.PACKAGES:
        (home / package).mkdir(parents=True)
    shutil.copy(revision.__file__, home / "schemas")
    return home


def committed(folder: Path) -> str:
    """The commit of a new repository that holds what is in the folder."""
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")
    return git(folder, "rev-parse", "HEAD")


def test_a_checkout_has_its_commit_and_says_when_it_is_changed(home: Path) -> None:
    commit = committed(home)
    assert revision_at(home) == commit
    with (home / "schemas/revision.py").open("a") as stream:
        stream.write("# changed\n")
    assert revision_at(home).startswith(f"{commit}+")
    assert len(revision_at(home)) == len(commit) + 1 + 12


def test_what_changes_later_is_not_the_code_that_runs(home: Path) -> None:
    commit, loaded = committed(home), module_at(home)
    assert loaded.code_revision() == commit
    with (home / "schemas/revision.py").open("a") as stream:
        stream.write("# changed\n")
    assert loaded.code_revision() == commit


def test_without_git_it_is_the_version(home: Path) -> None:
    assert revision_at(home) == VERSION


def test_another_projects_commit_is_not_taken(home: Path, tmp_path: Path) -> None:
    committed(tmp_path)
    assert revision_at(home) == VERSION
