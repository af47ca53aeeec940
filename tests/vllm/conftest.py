"""A real vLLM server on this machine's CPU, answering from a tiny Qwen3-VL with random weights.

Fixtures: ``vllm_python`` (the interpreter that has vLLM), ``tiny_qwen3vl_dir`` (the model folder) and
``vllm_server`` (the running server); each is made once per session. Nothing here imports vLLM, which lives in an
environment of its own, made by ``make setup-vllm``.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from groundtrace.inference.endpoints.vllm_server import serving
from groundtrace.inference.settings import EndpointSettings, ModelsSettings

from .tiny_qwen3vl import write_model

HERE = Path(__file__).resolve().parent
MODEL_NAME = "tiny-qwen3-vl"
CONTEXT_TOKENS = 8192
MAX_IMAGES = 8
START_LIMIT_S = 240.0
STOP_LIMIT_S = 20.0
LOG_TAIL_LINES = 60

ROLLOUT_OPTIONS = ("--enable-scale-out", "--logprobs-mode", "processed_logprobs", "--no-mm-device-do-normalize")
"""What :mod:`groundtrace.trainer.vllm_rollouts` asks of a server."""

# Reads until its standard input closes, which happens however the test run ends, then kills the group.
WATCHDOG = (
    "import contextlib, os, signal, sys\n"
    "sys.stdin.read()\n"
    "with contextlib.suppress(ProcessLookupError):\n"
    "    os.killpg(int(sys.argv[1]), signal.SIGKILL)\n"
)


@dataclass(frozen=True)
class VllmServer:
    """A healthy server: base URL of its OpenAI-compatible API, the model's name there, and the log file."""

    base_url: str
    model: str
    log_path: Path


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
def vllm_server(
    vllm_python: Path, tiny_qwen3vl_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VllmServer]:
    """The server, healthy; its whole process group is gone when the session ends, however it ends."""
    work_dir = tmp_path_factory.mktemp("vllm-server")
    log_path = work_dir / "server.log"
    port = _free_port()
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            _serve_command(vllm_python, tiny_qwen3vl_dir, port),
            cwd=work_dir,
            env=_server_environment(work_dir),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    with _killed_at_the_end(process):
        _await_health(process, f"http://127.0.0.1:{port}/health", log_path)
        yield VllmServer(base_url=f"http://127.0.0.1:{port}/v1", model=MODEL_NAME, log_path=log_path)


@pytest.fixture(scope="session")
def serve_arguments() -> list[str]:
    """What ``vllm serve`` is told of a tiny model on a processor, besides the model, its name and the address."""
    return _serve_arguments()


@pytest.fixture(scope="session")
def rollout_url(
    vllm_python: Path, tiny_qwen3vl_dir: Path, serve_arguments: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A server of the trainer's own, for its weights change: each test syncs what it needs."""
    folder = tmp_path_factory.mktemp("rollouts")
    endpoint = EndpointSettings("vllm", str(tiny_qwen3vl_dir), serve_args=(*serve_arguments, *ROLLOUT_OPTIONS))
    environment = _changes(_server_environment(folder)) | {"VLLM_SERVER_DEV_MODE": "1", "OMP_NUM_THREADS": "1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setenv("GROUNDTRACE_VLLM", str(vllm_python.with_name("vllm")))
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        patch.delenv("PYTHONPATH", raising=False)
        places = (str(folder / "replies.sqlite"), str(folder), str(folder))
        models = ModelsSettings((("tiny", endpoint),), (("policy", "tiny"),), *places)
        with serving(models, str(folder)) as served:
            patch.undo()
            yield dict(served.endpoints)["tiny"].base_url


@pytest.fixture
def server_environment(tmp_path: Path) -> dict[str, str]:
    """What a server's environment has besides this process's."""
    return _changes(_server_environment(tmp_path))


def _changes(environment: dict[str, str]) -> dict[str, str]:
    """The variables that differ from this process's."""
    inherited = os.environ.items()
    return {name: value for name, value in environment.items() if (name, value) not in inherited}


def _serve_command(python: Path, model_dir: Path, port: int) -> list[str]:
    """``vllm serve`` by module name, so that it doesn't depend on where a console script was put."""
    address = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", MODEL_NAME]
    command = [str(python), "-m", "vllm.entrypoints.cli.main", "serve", str(model_dir)]
    return [*command, *address, *_serve_arguments()]


def _serve_arguments() -> list[str]:
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


def _server_environment(work_dir: Path) -> dict[str, str]:
    """This process's environment, but offline, with few threads and with the caches under ``work_dir``.

    Python paths are left out, for they belong to another interpreter. TorchDynamo is off because asking for
    log-probabilities would otherwise compile C++ for some 15 s, and fail where there is no compiler.
    """
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    return kept | {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "TORCHDYNAMO_DISABLE": "1",
        "OMP_NUM_THREADS": str(min(2, os.cpu_count() or 1)),
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_CACHE_ROOT": str(work_dir / "vllm-cache"),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HOME": str(work_dir / "hf-home"),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _free_port() -> int:
    """A TCP port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _await_health(process: subprocess.Popen[bytes], url: str, log_path: Path) -> None:
    """Return once ``url`` answers 200; fail with the log's tail when the server dies or takes too long."""
    # Without proxies: a proxy named in the environment can't reach this machine's loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline_s:
        if _answers(opener, url):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(timeout=0.5)
            pytest.fail(f"vllm serve ended with status {status}:\n{_tail(log_path)}", pytrace=False)
    pytest.fail(f"vllm serve was not healthy after {START_LIMIT_S:.0f} s:\n{_tail(log_path)}", pytrace=False)


def _answers(opener: urllib.request.OpenerDirector, url: str) -> bool:
    """Whether ``url`` answers 200; an unreachable server or another status does not."""
    try:
        with opener.open(url, timeout=5) as reply:
            return reply.status == 200
    except (OSError, http.client.HTTPException):
        return False


def _tail(log_path: Path) -> str:
    """The last lines of the server's log."""
    lines = log_path.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-LOG_TAIL_LINES:])


@contextlib.contextmanager
def _killed_at_the_end(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop ``process`` and its group on leaving; a watchdog does so even if this process is itself killed."""
    watchdog = subprocess.Popen(
        [sys.executable, "-c", WATCHDOG, str(process.pid)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield
    finally:
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=STOP_LIMIT_S)
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
        watchdog.communicate()


def _signal_group(group: int, signal_number: signal.Signals) -> None:
    """Send a signal to a process group that may be gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal_number)
