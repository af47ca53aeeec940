"""The wheel takes one name, ``groundtrace``: beside packages and folders with the names of its parts, each works."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .environments import SAMPLE, Installed, add, install
from .runs import rows_of

pytestmark = pytest.mark.installs

OTHERS = {"inference": "inference==1.8.3", "trainer": "trainer==0.0.36"}
"""Packages of the index, Roboflow's and Coqui's, that have the names of two of our own."""
FOLDERS = ("schemas", "stages", "vision", "inference", "rewards", "pipelines")
LOOK = """
import base64, hashlib, importlib.metadata as metadata, importlib.util, json, pathlib
files = {name: list(metadata.distribution(name).files) for name in ("groundtrace", "inference", "trainer")}
changed = [
    str(file) for found in files.values() for file in found
    if file.hash and file.hash.value
    != base64.urlsafe_b64encode(hashlib.sha256(pathlib.Path(file.locate()).read_bytes()).digest()).rstrip(b"=").decode()
]
held = {name: {str(file) for file in found} for name, found in files.items()}
shared = [(one, other) for one in held for other in held if one < other and held[one] & held[other]]
origins = {name: str(pathlib.Path(importlib.util.find_spec(name).origin)) for name in held}
print(json.dumps({"changed": changed, "shared": shared, "origins": origins}))
"""


@pytest.fixture(scope="module")
def beside(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """An environment with the wheel, and then the other packages."""
    env = install(tmp_path_factory.mktemp("beside"), wheel)
    add(env, *OTHERS.values())
    yield env


def test_the_wheel_holds_one_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as held:
        names = held.namelist()
        links = [entry.filename for entry in held.infolist() if entry.external_attr >> 28 == 0o12]
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"groundtrace"}
    assert {"groundtrace/prompts/trace.v1.yaml", "groundtrace/data_cards/card.md.jinja"} <= set(names)
    assert links == []


def test_no_package_overwrites_anothers_files(beside: Installed) -> None:
    found = json.loads(beside.python(LOOK))
    assert (found["changed"], found["shared"]) == ([], [])
    assert all(origin.endswith(f"site-packages/{name}/__init__.py") for name, origin in found["origins"].items())


@pytest.mark.parametrize("own_folders", [False, True], ids=["an empty folder", "a folder with its own packages"])
def test_it_runs_there(own_folders: bool, beside: Installed) -> None:
    for name in FOLDERS if own_folders else ():
        (beside.home / name).mkdir()
        (beside.home / name / "__init__.py").write_text(f"OWN = {name!r}\n", "utf-8")
    run = f"run-{own_folders}"
    beside.run("beam", "run", "grounded_cot", "--input", SAMPLE, "--output", run)
    code = f"import groundtrace as gt; print(gt.open_run({run!r}).summary.counts.input)"
    assert int(beside.python(code)) == rows_of(beside.home / run) + rejected(beside.home / run)
    if own_folders:
        assert beside.python("import groundtrace, schemas; groundtrace.run; print(schemas.OWN)") == "schemas\n"


def rejected(run: Path) -> int:
    counts = json.loads((run / "run.json").read_text("utf-8"))["counts"]["rejected"]
    return sum(number for reasons in counts.values() for number in reasons.values())
