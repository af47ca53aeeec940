"""A tiny model's processor, exports of a real run, and the caches of the trainers in a folder of tests."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.publishing.exports.chat_template import with_tools
from tests.publishing.exports.made_runs import coded_run, exported

Export = Callable[[str], Path]


@pytest.fixture(scope="session", autouse=True)
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No trainer writes into the user's caches; they read these variables when they are imported."""
    home = str(tmp_path_factory.mktemp("caches"))
    names = ("HF_HOME", "HF_DATASETS_CACHE", "MODELSCOPE_CACHE", "XDG_CACHE_HOME")
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setenv(name, os.path.join(home, name))  # noqa: PTH118 (a text for the environment)
        patch.setenv("DISABLE_VERSION_CHECK", "1")  # LLaMA-Factory's: requirements.txt
        yield


@pytest.fixture(scope="session")
def export(sample_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Export:
    """The folder of the sample run in a format, exported when first asked for."""
    made: dict[str, Path] = {}

    def folder(form: str) -> Path:
        if form not in made:
            made[form] = tmp_path_factory.mktemp(form) / "out"
            exported(sample_run, form, made[form])
        return made[form]

    return folder


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3-VL."""
    from groundtrace.trainer.tiny_model import make_tiny_model

    folder = tmp_path_factory.mktemp("model")
    make_tiny_model(folder, ["I find squares. There are 3 yellow squares."], seed=0)
    return folder


@pytest.fixture(scope="session")
def processor(model_folder: Path) -> Any:
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(model_folder)


@pytest.fixture
def tool_processor(model_folder: Path) -> Any:
    """The tiny model's processor, with a chat template that has tools."""
    from transformers import AutoProcessor

    return with_tools(AutoProcessor.from_pretrained(model_folder))


@pytest.fixture
def called(tmp_path: Path) -> Export:
    """The folder of a run with a trajectory in a format, rendered as tool calls."""

    run = coded_run(tmp_path / "run")

    def folder(form: str) -> Path:
        exported(run, form, tmp_path / form, turns="tools", replace=True)
        return tmp_path / form

    return folder
