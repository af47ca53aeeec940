"""A real vLLM server on this machine's CPU, answering from a tiny Qwen3-VL with random weights.

Fixtures: ``vllm_python`` (the interpreter that has vLLM), ``tiny_qwen3vl_dir`` (the model folder) and
``vllm_server`` (the running server); each is made once per session. Nothing here imports vLLM, which lives in an
environment of its own, made by ``make setup-vllm``.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from groundtrace.inference.endpoints.vllm_server import serving
from groundtrace.inference.settings import EndpointSettings, ModelsSettings

from .tiny_qwen3vl import write_model

HERE = Path(__file__).resolve().parent
CONTEXT_TOKENS = 8192
MAX_IMAGES = 8

REPLY_LIMIT = ("--override-generation-config", '{"max_new_tokens": 400}')
"""Of a server that answers a run: noise seldom ends by itself, and a judge's call allows 2,048 tokens of it."""

ROLLOUT_OPTIONS = ("--enable-scale-out", "--logprobs-mode", "processed_logprobs", "--no-mm-device-do-normalize")
"""What :mod:`groundtrace.trainer.vllm_rollouts` asks of a server."""


@dataclass(frozen=True)
class VllmServer:
    """A healthy server: base URL of its OpenAI-compatible API, and the model's name there."""

    base_url: str
    model: str


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    """The interpreter that has vLLM: ``GROUNDTRACE_VLLM_PYTHON``, else the checkout's ``.venv-vllm``."""
    named = os.environ.get("GROUNDTRACE_VLLM_PYTHON")
    python = Path(named) if named else HERE.parents[1] / ".venv-vllm" / "bin" / "python"
    if not python.is_file():
        pytest.fail(
            f"{python} is missing: run `make setup-vllm`, or name an interpreter that has vLLM in"
            " GROUNDTRACE_VLLM_PYTHON",
            pytrace=False,
        )
    return python


@pytest.fixture(scope="session")
def tiny_qwen3vl_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A freshly written model folder (559,360 weights, 2 MB)."""
    out_dir = tmp_path_factory.mktemp("tiny-qwen3vl") / "model"
    assert write_model(out_dir) == 559_360
    return out_dir


@pytest.fixture(scope="session")
def serve_arguments() -> list[str]:
    """What ``vllm serve`` is told of a tiny model on a processor, besides the model, its name and the address."""
    options = {
        "--dtype": "float32",
        "--max-model-len": str(CONTEXT_TOKENS),
        "--max-num-batched-tokens": str(CONTEXT_TOKENS),
        "--max-num-seqs": "64",
        "--limit-mm-per-prompt": f'{{"image": {MAX_IMAGES}, "video": 0}}',
        "--seed": "0",
    }
    pairs = [word for option in options.items() for word in option]
    return [*pairs, "--enforce-eager", "--skip-mm-profiling", "--disable-log-stats"]


@pytest.fixture(scope="session")
def server_variables(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What leads to vLLM and holds it to this machine: offline, with one thread, and with caches for all servers.

    TorchDynamo is off because asking for log-probabilities would otherwise compile C++ for some 15 s, and fail where
    there is no compiler.
    """
    caches = tmp_path_factory.mktemp("caches")
    return {
        "GROUNDTRACE_VLLM": str(vllm_python.with_name("vllm")),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "TORCHDYNAMO_DISABLE": "1",
        "OMP_NUM_THREADS": "1",  # a second one waits by spinning, on the core that a test needs
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_CACHE_ROOT": str(caches / "vllm"),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HOME": str(caches / "hf-home"),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


Serve = Callable[..., AbstractContextManager[VllmServer]]


@pytest.fixture(scope="session")
def serve(
    server_variables: dict[str, str],
    tiny_qwen3vl_dir: Path,
    serve_arguments: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Serve:
    """Starts a server of the tiny model with these options more, and these variables; it ends with the context."""

    @contextlib.contextmanager
    def served(*options: str, **variables: str) -> Iterator[VllmServer]:
        folder = tmp_path_factory.mktemp("server")
        endpoint = EndpointSettings("vllm", str(tiny_qwen3vl_dir), serve_args=(*serve_arguments, *options))
        places = (str(folder / "replies.sqlite"), str(folder), str(folder))
        models = ModelsSettings((("tiny", endpoint),), (("policy", "tiny"),), *places)
        before = set(processes())
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (server_variables | variables | {"XDG_RUNTIME_DIR": str(folder)}).items():
                patch.setenv(name, value)
            patch.delenv("PYTHONPATH", raising=False)  # it belongs to another interpreter
            with serving(models, str(folder)) as running:
                patch.undo()
                base_url = running.endpoint("policy").base_url
                started = {pid for pid, command in processes().items() if "VLLM" in command} - before
                assert started and is_served(base_url), "the engine runs in a process of its own"
                yield VllmServer(base_url, str(tiny_qwen3vl_dir))
        assert not is_served(base_url)
        assert not started & processes().keys(), "leaving stops every process of a server"

    return served


def processes() -> dict[int, str]:
    """The processes on this machine by id, and how they were started; those that have ended are left out."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        # A process may end while it is looked at.
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            found[int(folder.name)] = command
    return {pid: command for pid, command in found.items() if command}


def is_served(base_url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", urlsplit(base_url).port or 0)) == 0


@pytest.fixture(scope="session")
def vllm_server(serve: Serve) -> Iterator[VllmServer]:
    """A server for runs and questions."""
    with serve(*REPLY_LIMIT) as server:
        yield server


@pytest.fixture(scope="session")
def rollout_url(serve: Serve) -> Iterator[str]:
    """A server of the trainer's own, for its weights change: each test syncs what it needs."""
    with serve(*ROLLOUT_OPTIONS, VLLM_SERVER_DEV_MODE="1") as server:
        yield server.base_url
