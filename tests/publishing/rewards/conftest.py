"""The worlds of :mod:`.worlds` on the disk with a judge that serves them, and rewards that are closed behind a test."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from groundtrace.grading.responses.speech import Speech
from groundtrace.pipelines.commands.serve_reward import started
from groundtrace.pipelines.commands.serving import http_loop
from groundtrace.publishing.rewards import plugin
from groundtrace.publishing.rewards.row_reward import RowReward
from groundtrace.publishing.rewards.server import Bounds
from groundtrace.publishing.rewards.settings import SpeechSettings, load_reward_settings
from groundtrace.trainer.model import load_model
from groundtrace.trainer.settings import ModelSettings

from ...trainer import tiny_qwen25vl
from ...trainer.runs import Judge, judging
from ...vllm import tiny_qwen3vl
from .serving import Served
from .worlds import WORLDS, Written, written

BOUNDS = {
    "qwen3-vl": SpeechSettings(),
    "qwen2.5-vl": SpeechSettings(min_pixels=tiny_qwen25vl.MIN_PIXELS, max_pixels=tiny_qwen25vl.MAX_PIXELS),
}
"""What a config says of the tiny models: the one of Qwen2.5-VL has other bounds than its family."""


@pytest.fixture(scope="session")
def speeches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Speech]:
    """How our own trainer has the tiny models write, as their checkpoints say."""
    home = tmp_path_factory.mktemp("models")
    tiny_qwen3vl.write_model(home / "qwen3-vl")
    tiny_qwen25vl.write_model(home / "qwen2.5-vl", tiny_qwen3vl.build_tokenizer())
    return {name: load_model(ModelSettings(str(home / name), dtype="float32"), "cpu").speech for name in BOUNDS}


@pytest.fixture
def write(speeches: dict[str, Speech], tmp_path: Path) -> Iterator[Callable[..., Written]]:
    """A world on the disk, and its judge at work."""
    with ExitStack() as stack:

        def made(name: str, family: str = "qwen3-vl", *script: tuple[int, str]) -> Written:
            world = WORLDS[name]()
            judge = stack.enter_context(judging(*(script or [(200, world.judge)])))
            return written(world, family, speeches[family], BOUNDS[family], judge.base_url, tmp_path / family / name)

        yield made


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Every test opens rewards of its own."""
    yield
    plugin.close_rewards()


@pytest.fixture
def on_loop() -> Iterator[Callable[..., Any]]:
    with http_loop() as runs:
        yield runs


@pytest.fixture
def serve(on_loop: Callable[..., Any]) -> Iterator[Callable[..., Served]]:
    """Serve the run of a world."""
    opened = []

    def served(found: Written, token: str = "", **bounds: Any) -> Served:
        reward = RowReward(load_reward_settings(str(found.config)), {"run": found.run}, fails_fast=True)
        rows, _ = reward.open_run("run")
        runner, address = on_loop(started(reward, rows, Bounds(**bounds), token, "127.0.0.1", 0))
        opened.append((runner, reward))
        return Served(int(address.rpartition(":")[2]))

    yield served
    for runner, reward in opened:
        on_loop(runner.cleanup())
        reward.close()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A judge that answers when the event is set."""
    event, step = threading.Event(), Judge.step

    def waits(judge: Judge, body: dict[str, Any], key: str) -> tuple[int, str]:
        event.wait(20)
        return step(judge, body, key)

    monkeypatch.setattr(Judge, "step", waits)
    yield event
    event.set()


@pytest.fixture
def closed_port() -> str:
    """Where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
