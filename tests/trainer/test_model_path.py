"""Model paths that are neither a folder nor a model of the Hub: one line, and at most one request."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import logging

from groundtrace.config.settings import load_config
from groundtrace.rewards.rows.settings import CONFIGS, config_file
from groundtrace.trainer.checkpoint import STATE
from groundtrace.trainer.model import load_model
from groundtrace.trainer.model_path import TINY, ModelError, check_model_path
from groundtrace.trainer.outline import outline_of
from groundtrace.trainer.settings import ModelSettings, TrainerSettings

from .runs import Command


@dataclass
class Hub:
    """Answers each request with the next status, or hangs up if it is 0; at the end of the script, with the last."""

    script: deque[int] = field(default_factory=lambda: deque([404]))
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A scripted Hub; its cache and the working folder are empty folders."""
    scripted = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            status = 404
            if "/resolve/" in self.path:  # huggingface_hub also asks for names of agents
                scripted.asked.append(self.path)
                status = scripted.script.popleft() if len(scripted.script) > 1 else scripted.script[0]
            if status:
                self.send_response(status)
                self.send_header("content-length", "0")
                if status == 404:
                    self.send_header("X-Error-Code", "RepoNotFound")
                self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_port}"
    for name, value in {
        "ENDPOINT": url,
        "HUGGINGFACE_CO_URL_TEMPLATE": url + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_CACHE": str(tmp_path / "hub-cache"),
        "HF_HUB_OFFLINE": False,
    }.items():
        monkeypatch.setattr(constants, name, value)
    (tmp_path / "here" / "runs").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield scripted
    server.shutdown()
    thread.join()
    server.server_close()


def load(settings: ModelSettings) -> Any:
    return load_model(settings, device="cpu")


@pytest.mark.parametrize("opened", [load, outline_of])
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("runs/none", ": the folder runs/ exists, but runs/none does not: correct model.path, or first download the "
                      "Hub model of this name (`hf download runs/none`)"),
        ("runs/sft/model", ", because {folder} does not exist: correct model.path"),
        ("./none", ", because {folder} does not exist: correct model.path"),
        ("/none", ", because {folder} does not exist: correct model.path"),
        ("../none", ", because {folder} does not exist: correct model.path"),
        ("a name", ", because {folder} does not exist: correct model.path"),
        (
            "~/none",
            ", because {folder} does not exist: write the full path in model.path, because ~ is not expanded"),
        (TINY, ", because {folder} does not exist: make this folder with `trainer tiny runs/tiny/model --data RUN`, or "
               "name yours with --set model.path=FOLDER"),
        ("n" * 300, ": File name too long: correct model.path"),
    ],
)  # fmt: skip
def test_a_folder_that_is_missing(opened: Callable[[ModelSettings], Any], path: str, said: str, hub: Hub) -> None:
    with pytest.raises(ModelError) as refused:
        opened(ModelSettings(path))
    said = said.replace("{folder}", f"the folder {Path.cwd() / path}")
    assert str(refused.value) == f"cannot load {path}{said}"
    assert not hub.asked


@pytest.mark.parametrize("opened", [load, outline_of])
def test_a_checkpoint_is_no_model(opened: Callable[[ModelSettings], Any], tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "step-000002"
    folder.mkdir(parents=True)
    (folder / STATE).write_bytes(b"")
    with pytest.raises(ModelError) as refused:
        opened(ModelSettings(str(folder)))
    assert str(refused.value) == (
        f"cannot load {folder}, because this folder is a checkpoint of a training, not a model: set model.path to the "
        "folder `model` in the output folder of this training, or make a model of the checkpoint with `trainer export "
        f"{folder} OUT --model BASE`, where BASE is the model from which the training started"
    )


@pytest.mark.parametrize("path", ["none/such", "none"])
def test_a_hub_that_cannot_be_reached_is_asked_once(path: str, hub: Hub) -> None:
    hub.script = deque([0])
    with pytest.raises(ModelError) as refused:
        load(ModelSettings(path, revision="v1"))
    assert str(refused.value).startswith(
        f"cannot load {path}: the folder {Path.cwd() / path} does not exist, and the Hub cannot be reached ("
    )
    assert str(refused.value).endswith("): check model.path and the network")
    assert hub.asked == [f"/{path}/resolve/v1/config.json"]


@pytest.mark.parametrize("is_offline", [False, True])
def test_an_estimate_without_the_hub(is_offline: bool, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.script = deque([0])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", is_offline)
    with pytest.raises(ModelError) as refused:
        outline_of(ModelSettings("none/such"))
    reason = "HF_HUB_OFFLINE is set: correct model.path, or unset HF_HUB_OFFLINE" if is_offline else "and the network"
    assert str(refused.value).startswith(
        f"cannot load none/such: the folder {Path.cwd() / 'none/such'} does not exist, "
    )
    assert str(refused.value).endswith(
        f"{reason}. To estimate the memory without the Hub, put the model's config.json into a folder and set "
        "model.path to this folder, or set model.path to one of these models: "
        "Qwen/Qwen2.5-VL-3B-Instruct, Qwen/Qwen2.5-VL-7B-Instruct, Qwen/Qwen3-VL-2B-Instruct, "
        "Qwen/Qwen3-VL-4B-Instruct, Qwen/Qwen3-VL-8B-Instruct, Qwen/Qwen3-VL-32B-Instruct"
    )
    assert len(hub.asked) == (0 if is_offline else 1)


def test_a_model_that_the_hub_does_not_have(hub: Hub) -> None:
    with pytest.raises(ModelError, match=r"cannot load none/such: none/such .*: check model\.path"):
        load(ModelSettings("none/such"))


def test_retries_are_not_printed(hub: Hub, run: Command, sft_data: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A Hub that is busy is asked again by huggingface_hub, after a second, and it logs a line for each attempt."""
    logging.set_verbosity_warning()
    hub.script = deque([503] * 3 + [404])
    run("sft", sft_data, "model.path=none/such").check_refused(2, "cannot load none/such: ")
    assert len(hub.asked) > 3
    assert not [record for record in caplog.records if record.name.startswith("huggingface_hub")]


def test_a_model_that_may_be_there(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, a model in the Hub's cache beside a folder of its name, and any id where the Hub must not be asked."""
    Path("runs/mine").mkdir()
    check_model_path(ModelSettings("runs/mine"))
    check_model_path(ModelSettings(str(Path("runs/mine").resolve())))
    cached = tmp_path / "hub-cache" / "models--runs--cached"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("0" * 40, "utf-8")
    (cached / "snapshots" / ("0" * 40)).mkdir(parents=True)
    (cached / "snapshots" / ("0" * 40) / "config.json").write_text("{}", "utf-8")
    check_model_path(ModelSettings("runs/cached"))
    with pytest.raises(ModelError, match=": the folder runs/ exists, but runs/cached does not"):
        check_model_path(ModelSettings("runs/cached", revision="other"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    check_model_path(ModelSettings("none/such"))
    assert not hub.asked


def test_the_model_of_the_config_tiny_is_the_one_whose_command_is_named() -> None:
    assert load_config(TrainerSettings, config_file("tiny"), [], CONFIGS).model.path == TINY
