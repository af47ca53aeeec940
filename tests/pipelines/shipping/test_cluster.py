"""Jobs on workers that have the installed packages, what was staged with the job, and nothing else of ours."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.shipping.cluster import Cluster, cluster

pytestmark = pytest.mark.installs

PAGE = (Path(__file__).resolve().parents[3] / "docs/extend.md").read_text("utf-8")
FILES = dict(re.findall(r"^\*\*`([^`]+)`\*\*\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
"""A recipe of a user's with the modules and prompts beside it: those of docs/extend.md."""


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory, write_questions: Callable[[Path, int], Path]) -> Path:
    return write_questions(tmp_path_factory.mktemp("questions"), 6)


def beam_run(recipe: Path, questions: Path, run: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """``beam run`` in a process of its own."""
    command = [sys.executable, "-m", "groundtrace", "run", str(recipe), "--input", str(questions), "--output", str(run)]
    command += ["--", *options] if options else []
    return subprocess.run(command, capture_output=True, text=True, check=False)


def said(workers: Cluster) -> str:
    """What a run that goes well writes to its standard error."""
    return f"runner: PortableRunner, job server {workers.options[1].partition('=')[2]}\n"


def shards(run: Path) -> dict[str, bytes]:
    """The training sets of a run."""
    return {str(file.relative_to(run)): file.read_bytes() for side in ("sft", "rl") for file in run.glob(f"{side}/*")}


def test_a_bundled_recipe_runs_from_the_wheel(
    workers: Cluster, questions: Path, run_beam: Callable[..., Any], tmp_path: Path
) -> None:
    far = run_beam(questions, tmp_path / "far", "--", *workers.options, own_process=True)
    assert (far.code, far.err) == (0, said(workers))
    far.check_balance(6)
    assert [re.sub(r"\+\w{12}-", "+DIGEST-", name) for name in workers.staged()] == [
        "extra_packages.txt",
        "groundtrace-0.1.0+DIGEST-py3-none-any.whl",
        "submission_environment_dependencies.txt",
    ]
    near = run_beam(questions, tmp_path / "near")
    assert near.code == 0 and shards(near.folder) == shards(far.folder) != {}


def test_a_recipe_of_ones_own_runs_with_what_stands_beside_it(
    workers: Cluster, questions: Path, tmp_path: Path
) -> None:
    """Its stage, its scorer, its prompt and its endpoint handler are there; what else stands there is not."""
    mine = tmp_path / "mine"
    for name, text in FILES.items():
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text(text, "utf-8")
    (mine / "secret.env").write_text("KEY=sk-1234", "utf-8")
    done = beam_run(mine / "short_traces.py", questions, tmp_path / "far", *workers.options)
    assert (done.returncode, done.stderr) == (0, said(workers))
    assert [name for name in workers.staged() if name.startswith("groundtrace_recipe_")]
    [installed] = workers.last_worker.glob("installed/groundtrace_recipe_*/files")
    found = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    assert {name for name in found if "__pycache__" not in name} == {
        name for name in FILES if name.endswith((".py", ".yaml"))
    }
    assert beam_run(mine / "short_traces.py", questions, tmp_path / "near").returncode == 0
    assert shards(tmp_path / "near") == shards(tmp_path / "far") != {}
