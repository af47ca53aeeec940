"""What is added to the options of a job, and what is left as the user gave it."""

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions

from groundtrace.pipelines.running.plan.loading import PipelineError, adopt_file, recipe_file
from groundtrace.pipelines.running.plan.options import pipeline_options
from groundtrace.pipelines.shipping import recipe_code
from groundtrace.pipelines.shipping.ship import shipped
from groundtrace.prompts import loader
from groundtrace.schemas import registry

pytestmark = pytest.mark.slow

FAR = ["--runner=PortableRunner", "--job_endpoint=localhost:1"]
OWN_IMAGE = "europe-docker.pkg.dev/me/mine:1"


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A recipe's file in a folder of its own, with a helper, a package, and things that are no business of a worker."""
    folder = tmp_path_factory.mktemp("mine")
    files = {
        "shipped_recipe.py": "import shipped_helper\nimport shipped_spaces.deep\n",
        "shipped_helper.py": "from groundtrace.schemas.coding import record\n\n\n@record\nclass Kept:\n    name: str\n",
        "shipped_package/__init__.py": "",
        "shipped_package/words.txt": "a",
        "shipped_package/.hidden": "key",
        "shipped_spaces/deep.py": "",
        "prompts/mine.v1.yaml": "id: mine\n",
        "requirements.txt": "emoji\n",
        "notes.txt": "x",
        ".env": "KEY=1",
        "data/big.bin": "x",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    path, modules = list(sys.path), set(sys.modules)
    adopt_file(str(folder / "shipped_recipe.py"))
    yield folder / "shipped_recipe.py"
    sys.path[:] = path
    loader._FOLDERS.clear()
    loader.load_prompt.cache_clear()
    for name in set(sys.modules) - modules:
        if name.startswith("shipped_"):
            recipe_code.RECORD_MODULES.discard(name)
            del sys.modules[name]


def staged(options: PipelineOptions) -> list[str]:
    """The packages of the options, by the names of their distributions."""
    packages = options.view_as(SetupOptions).extra_packages or []
    return [re.sub(r"(?<=_recipe_)\w{12}$", "", Path(package).name.partition("-")[0]) for package in packages]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ([], []),
        (["--direct_num_workers=2", "--direct_running_mode=multi_processing"], []),
        ([*FAR, "--environment_type=LOOPBACK"], []),
        (FAR, ["groundtrace", "groundtrace_recipe_"]),
        ([*FAR, "--environment_type=EXTERNAL", "--environment_config=h:1"], ["groundtrace", "groundtrace_recipe_"]),
        (["--runner=SparkRunner"], ["groundtrace", "groundtrace_recipe_"]),
        ([*FAR, f"--sdk_container_image={OWN_IMAGE}"], ["groundtrace_recipe_"]),
        ([*FAR, f"--environment_config={OWN_IMAGE}"], ["groundtrace_recipe_"]),
        ([*FAR, f"--environment_option=docker_container_image={OWN_IMAGE}"], ["groundtrace_recipe_"]),
        ([*FAR, "--sdk_container_image=apache/beam_python3.11_sdk:2.77.0"], ["groundtrace", "groundtrace_recipe_"]),
        ([*FAR, "--extra_package=/x/my.whl"], ["my.whl", "groundtrace", "groundtrace_recipe_"]),
        ([*FAR, "--extra_package=/x/groundtrace-0.1.0-py3-none-any.whl"], ["groundtrace", "groundtrace_recipe_"]),
    ],
)
def test_what_is_staged(flags: list[str], names: list[str], mine: Path) -> None:
    options = pipeline_options(flags)
    with shipped(options, mine):
        assert staged(options) == names
        written = [Path(package) for package in options.view_as(SetupOptions).extra_packages or ()]
        assert all(package.is_file() for package in written if not str(package).startswith("/x/"))
    assert not any(package.exists() for package in written)


def test_a_bundled_recipe_is_in_our_own_wheel() -> None:
    options = pipeline_options(FAR)
    with shipped(options, recipe_file("grounded_cot")):
        assert staged(options) == ["groundtrace"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (FAR, "requirements.txt"),
        ([*FAR, "--requirements_file=my.txt"], "my.txt"),
        ([*FAR, f"--sdk_container_image={OWN_IMAGE}"], ""),
    ],
)
def test_the_requirements_beside_the_recipe(flags: list[str], said: str, mine: Path) -> None:
    options = pipeline_options(flags)
    with shipped(options, mine):
        assert Path(options.view_as(SetupOptions).requirements_file or "").name == said


def test_what_of_a_folder_travels(mine: Path, tmp_path: Path) -> None:
    wheel, module = recipe_code.write_recipe_wheel(tmp_path, mine) or pytest.fail("it is not bundled")
    with zipfile.ZipFile(wheel) as archive:
        held = {name.removeprefix(f"{module}/files/") for name in archive.namelist() if "/files/" in name}
        adopting = archive.read(f"{module}/__init__.py").decode()
    assert held == {
        "shipped_recipe.py",
        "shipped_helper.py",
        "shipped_package/__init__.py",
        "shipped_package/words.txt",
        "shipped_spaces/deep.py",
        "prompts/mine.v1.yaml",
    }
    assert "for module in ['shipped_helper']" in adopting


def test_the_recipes_module_is_imported_in_place_of_those_beside_it(mine: Path) -> None:
    options = pipeline_options(FAR)
    with shipped(options, mine):
        plugins = options.view_as(SetupOptions).beam_plugins
    assert plugins[0].startswith("groundtrace_recipe_")
    assert "shipped_helper" not in plugins and "groundtrace.schemas.records" in plugins


def test_a_folder_with_far_too_much_is_refused(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_code, "MAX_BYTES", 20)
    with (
        pytest.raises(PipelineError, match="move what the run does not need to another folder"),
        shipped(pipeline_options(FAR), mine),
    ):
        pass


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A config's plug-in in a folder of its own, with a module that it imports and one that it does not."""
    folder = tmp_path / "plugins"
    files = {
        "shipped_angles/__init__.py": "from shipped_grading import grade\nfrom .types import ANGLE\n",
        "shipped_angles/types.py": "from groundtrace.grading.answers.answer_type import AnswerType\n"
        "from shipped_grading import grade\nANGLE = AnswerType('angle', 'In degrees.', grade)\n",
        "shipped_grading.py": "def grade(predicted, gold, choices): ...\n",
        "shipped_other.py": "",
        "notes.txt": "x",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(registry, "_configured", {})
    registry.use_plugins({"answer_types": {"angle": "shipped_angles:ANGLE"}})
    yield folder
    for name in [name for name in sys.modules if name.startswith(("shipped_angles", "shipped_grading"))]:
        del sys.modules[name]


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("own", [False, True])
def test_a_plugin_travels_and_a_worker_finds_it(own: bool, mine: Path, tmp_path: Path) -> None:
    recipe = mine if own else recipe_file("grounded_cot")
    wheel, module = recipe_code.write_recipe_wheel(tmp_path, recipe) or pytest.fail("nothing is sent")
    with zipfile.ZipFile(wheel) as archive:
        held = {name.removeprefix(f"{module}/files/") for name in archive.namelist() if "/files/" in name}
        archive.extractall(tmp_path / "worker")
    assert {"shipped_angles/__init__.py", "shipped_angles/types.py", "shipped_grading.py"} <= held
    assert ("shipped_recipe.py" in held, "shipped_other.py" in held, "notes.txt" in held) == (own, False, False)
    code = (
        f"import {module}\nfrom groundtrace.grading.answers.registry import ANSWER_TYPES\n"
        "print(ANSWER_TYPES['angle'].form, ANSWER_TYPES['angle'].grade.__code__.co_filename)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "worker")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.startswith(f"In degrees. {tmp_path / 'worker'}"), done.stderr
