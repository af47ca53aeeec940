"""The kind ``vllm``: a run that starts a real vLLM server itself, and leaves none behind."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from groundtrace.inference.endpoints.vllm_server import serving
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.pipelines.commands import cli

from .conftest import REPLY_LIMIT

pytestmark = pytest.mark.vllm

ROOT = Path(__file__).resolve().parents[2]
RECORDS = 6


@pytest.fixture
def endpoint(
    vllm_python: Path,
    tiny_qwen3vl_dir: Path,
    serve_arguments: list[str],
    server_environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> EndpointSettings:
    """Settings of the tiny model; the environment names the command and holds it to this machine's processor."""
    for name, value in server_environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GROUNDTRACE_VLLM", str(vllm_python.with_name("vllm")))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    arguments = (*serve_arguments, *REPLY_LIMIT)
    return EndpointSettings("vllm", str(tiny_qwen3vl_dir), serve_args=arguments, frame="norm1000")


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


def test_a_run_starts_and_stops_its_own_server(endpoint: EndpointSettings, tmp_path: Path) -> None:
    config = tmp_path / "vllm.toml"
    arguments = ", ".join(json.dumps(argument) for argument in endpoint.serve_args)
    roles = "\n".join(f'{role} = "tiny"' for role in ("policy", "teacher", "pointer", "judge"))
    config.write_text(
        f"""
        allow_embedded = true

        [endpoints.tiny]
        kind = "vllm"
        model = {json.dumps(endpoint.model)}
        serve_args = [{arguments}]
        frame = "norm1000"
        max_tokens_limit = 256

        [roles]
        {roles}

        [attempt]
        max_tokens = 48
        """,
        "utf-8",
    )
    output = tmp_path / "run"
    run = [
        "run",
        str(ROOT / "pipelines/grounded_cot.py"),
        "--input",
        str(ROOT / "data/sample"),
        "--limit",
        str(RECORDS),
    ]
    before = set(processes())  # another test's server of the same model may be among them
    assert cli.main([*run, "--output", str(output), "--config", str(config)]) == 0
    summary = json.loads((output / "run.json").read_text("utf-8"))
    assert summary["counts"]["input"] == RECORDS
    assert summary["ledger"]["policy"]["requests"] > 0
    log = (output / "logs/vllm-tiny.log").read_text("utf-8", "replace")
    assert "Application startup complete" in log
    assert not [command for pid, command in processes().items() if pid not in before and endpoint.model in command]


def test_leaving_stops_every_process_of_the_server(endpoint: EndpointSettings, tmp_path: Path) -> None:
    models = ModelsSettings((("tiny", endpoint),), (("policy", "tiny"),), ":memory:", str(tmp_path), str(tmp_path))
    before = set(processes())
    with serving(models, str(tmp_path / "logs")) as served:
        base_url = served.endpoint("policy").base_url
        assert is_served(base_url)
        started = {pid: command for pid, command in processes().items() if pid not in before and "VLLM" in command}
        assert started, "the engine runs in a process of its own"
    assert not is_served(base_url)
    assert not started.keys() & processes().keys()
