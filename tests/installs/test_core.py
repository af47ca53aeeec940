"""The light install: the wheel without extras, used away from the checkout."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from groundtrace.pipelines.running.plan.loading import bundled_names
from groundtrace.publishing.exports.registry import FORMATS
from groundtrace.publishing.rewards.reference import COLUMN

from ..pipelines.far_server import asking, right, serving
from ..test_imports import extras_of
from .environments import SAMPLE, Failed, Installed, checkout, modules_in, python_of, run_command
from .runs import EMBEDDED, KEEP_EASY, rows_of

pytestmark = pytest.mark.installs

NEXT_PYTHON = "3.13"
"""The last Python that pyproject.toml allows."""
OTHER_TRAINERS = ("swift", "verl")
"""The trainers whose own packages our tools for their rollouts import."""
IMPORTS = """
import importlib
for name in {names!r}:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, error.name)
"""


def test_core_imports(core: Installed, wheel: Path) -> None:
    """Every module can be imported, but those that need an extra, or that only another trainer's process imports."""
    names = [name for name in modules_in(wheel) if not name.endswith("__main__")]
    said = core.python(IMPORTS.format(names=names))
    lacking = dict(line.split() for line in said.splitlines())
    assert {n: lacks for n, lacks in lacking.items() if not extras_of(n) and lacks not in OTHER_TRAINERS} == {}


OF_AN_EXTRA = "executable_cot"
"""The recipe that needs the extra sandbox; tests/installs/test_extras.py runs it."""


def test_core_names_the_extra_that_a_recipe_needs(core: Installed) -> None:
    with pytest.raises(
        Failed, match=r"ended with 2:\s+beam: this machine cannot run a sandbox.*pip install 'groundtrace\[sandbox\]'"
    ):
        core.run("beam", "run", OF_AN_EXTRA, "--input", SAMPLE, "--output", "refused")
    assert not (core.home / "refused").exists()


@pytest.mark.parametrize("recipe", [name for name in bundled_names() if name != OF_AN_EXTRA])
def test_core_demo(recipe: str, core: Installed, request: pytest.FixtureRequest) -> None:
    folder = core.home / f"demo-{recipe}"
    if recipe == "grounded_cot":
        folder = request.getfixturevalue("demo")
    else:
        core.run("beam", "run", recipe, "--input", SAMPLE, "--output", folder)
    assert rows_of(folder) > 0


@pytest.mark.parametrize("command", ["validate", "run"])
def test_core_openai(command: str, core: Installed) -> None:
    """A server with OpenAI's API plays the policy; it answers "3" to all that it is asked."""
    with serving(right) as server:
        output = ["--output", "openai"] if command == "run" else []
        done = core.run("beam", command, "grounded_cot", "--input", SAMPLE, *output, *asking(server.url), *KEEP_EASY)
    if command == "validate":
        assert "serves m" in done.stdout
    else:
        assert server.seen
        assert rows_of(core.home / "openai") > 0


@pytest.mark.usefixtures("demo")
def test_core_publish(core: Installed) -> None:
    done = core.run("beam", "publish", "demo", "--repo", "me/set", "--dry-run")
    assert "dry run: nothing was sent to me/set" in done.stdout


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.usefixtures("demo")
def test_core_export(name: str, core: Installed) -> None:
    run = "demo"
    if name == "dpo":  # pairs a kept trace with a worse one: the teacher has to see badly
        run = "demo-traces"
        told = ["--set", "write.other_traces=true", "--set", "roles.teacher=coarse"]
        core.run("beam", "run", "grounded_cot", "--input", SAMPLE, "--output", run, *told)
    core.run("beam", "export", run, "--format", name, "--output", f"as-{name}", "--family", "qwen3-vl")
    assert json.loads((core.home / f"as-{name}/export.json").read_text("utf-8"))["format"] == name


@contextmanager
def reward_server(core: Installed, *words: str) -> Iterator[HTTPConnection]:
    """``beam serve-reward``, and a connection to it."""
    process = subprocess.Popen(
        [str(core.venv / "bin" / "beam"), "serve-reward", "--port", "0", *words],
        cwd=core.home,
        env=core.environment({}),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        found = re.search(r"on http://127\.0\.0\.1:(\d+);", said)
        assert found, said
        yield HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.usefixtures("demo")
def test_core_serve_reward(core: Installed) -> None:
    core.run("beam", "export", "demo", "--format", "trl", "--output", "to-score", "--family", "qwen3-vl")
    [row, *_] = pq.read_table(core.home / "to-score/rl.parquet").to_pylist()
    answers = (json.loads(row[COLUMN])["answer"], "77")
    items = [
        {"reference": row[COLUMN], "response": f"<think>I look.</think><answer>{each}</answer>"} for each in answers
    ]
    (core.home / "reward.toml").write_text(EMBEDDED, "utf-8")
    with reward_server(core, "--config", "reward.toml", "--data", "demo") as server:
        server.request("POST", "/score", json.dumps({"items": items}), {"Content-Type": "application/json"})
        answer = server.getresponse()
        found = json.loads(answer.read())
    assert answer.status == 200, found
    assert [scored["outcome"] for scored in found["scores"]] == [1.0, 0.0]
    assert found["scores"][0]["reward"] > found["scores"][1]["reward"]


def test_make_demo_on_the_next_python(tmp_path: Path) -> None:
    """What the first line of the README does, in a clone."""
    clone = checkout(tmp_path / "clone")
    run_command("make", "demo", f"PYTHON={python_of(NEXT_PYTHON)}", folder=clone)
    assert rows_of(clone / "runs/demo") > 0
    shutil.rmtree(clone)
