"""Servers started for a run, with a small real program in vLLM's place: it serves, forks and detaches as vLLM may."""

import json
import os
import socket
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundtrace.inference.endpoints import vllm_server
from groundtrace.inference.endpoints.vllm_server import VllmServerError, find_vllm, serving
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.schemas.safe_files import UnsafeFile

MODEL = "org/tiny"
WAIT_S = 20.0
STAND_IN = Path(__file__).parents[1] / "data/stand_in_vllm.py"


@pytest.fixture
def pids_path(tmp_path: Path) -> Path:
    return tmp_path / "pids"


@pytest.fixture(autouse=True)
def stand_in(tmp_path: Path, pids_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program, named in the environment; locks are under the test's folder."""
    path = tmp_path / "stand-in"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n', "utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("STAND_IN_PIDS", str(pids_path))
    monkeypatch.setenv("GROUNDTRACE_VLLM", str(path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    return path


def vllm(**changes: Any) -> EndpointSettings:
    return EndpointSettings(**{"kind": "vllm", "model": MODEL, "revision": "r1", **changes})


def settings(tmp_path: Path, roles: dict[str, str] | None = None, **endpoints: EndpointSettings) -> ModelsSettings:
    """Models whose role ``policy`` uses the first endpoint, unless told otherwise."""
    endpoints = endpoints or {"tiny": vllm()}
    roles = roles or {"policy": next(iter(endpoints))}
    return ModelsSettings(tuple(endpoints.items()), tuple(roles.items()), ":memory:", str(tmp_path), str(tmp_path))


@pytest.fixture
def log_folder(tmp_path: Path) -> str:
    return str(tmp_path / "run/logs")


def running(pids_path: Path) -> list[int]:
    """Which of the noted processes exist, zombies included."""
    pids = map(int, pids_path.read_text("utf-8").split())
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def get(url: str) -> Any:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=WAIT_S) as reply:
        return json.loads(reply.read())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_the_endpoint_becomes_an_openai_one_that_answers(tmp_path: Path, log_folder: str, pids_path: Path) -> None:
    models = settings(tmp_path, tiny=vllm(serve_args=("--dtype", "float32"), frame="norm1000"))
    with serving(models, log_folder) as served:
        endpoint = served.endpoint("policy")
        assert get(f"{endpoint.base_url}/models")["data"] == [{"id": MODEL}]
        assert replace(endpoint, kind="vllm", base_url="") == models.endpoint("policy")
        assert endpoint.kind == "openai"
        assert len(running(pids_path)) == 3
        port = endpoint.base_url.removeprefix("http://127.0.0.1:").removesuffix("/v1")
    first = (Path(log_folder) / "vllm-tiny.log").read_text("utf-8").splitlines()[0]
    address = ["--host", "127.0.0.1", "--port", port]
    assert json.loads(first) == ["serve", MODEL, *address, "--served-model-name", MODEL, "--dtype", "float32"]
    assert running(pids_path) == []


def test_only_vllm_endpoints_that_a_role_uses_are_served(tmp_path: Path, log_folder: str, pids_path: Path) -> None:
    remote = EndpointSettings("openai", "m", base_url="http://elsewhere/v1")
    models = settings(tmp_path, {"policy": "remote"}, remote=remote, idle=vllm())
    with serving(models, log_folder) as served:
        assert served == models
    assert not pids_path.exists()


def test_endpoints_of_one_model_and_arguments_share_a_server(tmp_path: Path, log_folder: str, pids_path: Path) -> None:
    endpoints = {"b": vllm(frame="norm1000"), "a": vllm(timeout_s=5.0), "c": vllm(serve_args=("--seed", "1"))}
    models = settings(tmp_path, {"policy": "a", "teacher": "b", "judge": "c"}, **endpoints)
    with serving(models, log_folder) as served:
        assert served.endpoint("policy").base_url == served.endpoint("teacher").base_url
        assert served.endpoint("policy").base_url != served.endpoint("judge").base_url
        assert len(running(pids_path)) == 6
    assert sorted(path.name for path in Path(log_folder).iterdir()) == ["vllm-a.log", "vllm-c.log"]
    assert running(pids_path) == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_port_of_the_base_url_is_used(host: str, tmp_path: Path, log_folder: str) -> None:
    port = free_port()
    with serving(settings(tmp_path, tiny=vllm(base_url=f"http://{host}:{port}/v1")), log_folder) as served:
        assert served.endpoint("policy").base_url == f"http://127.0.0.1:{port}/v1"


def test_a_key_in_the_environment_reaches_the_server(
    tmp_path: Path, log_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "sk-recognisable")
    with serving(settings(tmp_path), log_folder) as served:
        assert served.endpoint("policy").kind == "openai"


def test_an_odd_endpoint_name_stays_in_the_log_folder(tmp_path: Path, log_folder: str) -> None:
    odd: dict[str, Any] = {"../a b": vllm()}
    with serving(settings(tmp_path, **odd), log_folder):
        assert [path.name for path in Path(log_folder).iterdir()] == ["vllm-.._a_b.log"]


def test_the_log_is_not_written_through_a_link(tmp_path: Path, log_folder: str) -> None:
    Path(log_folder).mkdir(parents=True)
    (tmp_path / "letter").write_text("precious")
    (Path(log_folder) / "vllm-tiny.log").symlink_to(tmp_path / "letter")
    with pytest.raises(UnsafeFile, match="is a link"), serving(settings(tmp_path), log_folder):
        pass
    assert (tmp_path / "letter").read_text() == "precious"


def test_a_server_that_exits_early_is_reported_with_its_log(
    tmp_path: Path, log_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "dies")
    monkeypatch.setenv("VLLM_API_KEY", "sk-recognisable")
    with pytest.raises(VllmServerError) as caught, serving(settings(tmp_path), log_folder):
        pass
    assert "ended with status 3" in str(caught.value)
    assert "no such model" in str(caught.value)
    assert "sk-recognisable" not in str(caught.value)


@pytest.mark.parametrize("mode", ["sick", pytest.param("other", marks=pytest.mark.faults)])
def test_a_server_that_is_never_healthy_is_stopped(
    mode: str, tmp_path: Path, log_folder: str, pids_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", mode)
    refused = pytest.raises(VllmServerError, match=r"not ready after 1.5 s")
    with refused as caught, serving(settings(tmp_path), log_folder, start_timeout_s=1.5):
        pass
    assert str(Path(log_folder) / "vllm-tiny.log") in str(caught.value)
    assert running(pids_path) == []


def test_an_exception_inside_stops_the_server(tmp_path: Path, log_folder: str, pids_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), serving(settings(tmp_path), log_folder):
        raise KeyboardInterrupt
    assert running(pids_path) == []


def test_a_second_server_that_cannot_start_takes_the_first_along(
    tmp_path: Path, log_folder: str, pids_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        base_url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        endpoints = {"a": vllm(), "b": vllm(model="org/other", base_url=base_url)}
        models = settings(tmp_path, {"policy": "a", "judge": "b"}, **endpoints)
        with pytest.raises(VllmServerError, match=r"port \d+ can't be used"), serving(models, log_folder):
            pass
    assert running(pids_path) == []


def test_a_second_start_of_the_same_model_is_refused_while_the_first_runs(tmp_path: Path, log_folder: str) -> None:
    models = settings(tmp_path)
    with serving(models, log_folder):
        refused = pytest.raises(VllmServerError, match=rf"already serves {MODEL} \(pid {os.getpid()}\)")
        with refused, serving(models, log_folder):
            pass
        with serving(settings(tmp_path, tiny=vllm(serve_args=("--seed", "1"))), log_folder + "2"):
            pass
    with serving(models, log_folder):
        pass


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"serve_args": ("--host", "0.0.0.0")}, "--host, which Groundtrace sets"),
        ({"serve_args": ("--port=80",)}, "--port, which Groundtrace sets"),
        ({"serve_args": ("--served_model_name", "x")}, "--served-model-name, which Groundtrace sets"),
        ({"serve_args": ("--api-key", "sk-recognisable")}, "--api-key, since a config"),
        ({"serve_args": ("--api_key=sk-recognisable",)}, "--api-key, since a config"),
        ({"serve_args": ("--api-key=sk-recognisable",)}, "set the environment variable VLLM_API_KEY"),
        ({"serve_args": ("--hf-token", "sk-recognisable")}, "set the environment variable HF_TOKEN"),
        ({"base_url": "http://gpu-7:8000/v1"}, "can't be at gpu-7"),
        ({"model": "--help"}, "begins with a hyphen"),
    ],
)
def test_settings_that_cannot_be_served(
    changes: dict[str, Any], message: str, tmp_path: Path, log_folder: str, pids_path: Path
) -> None:
    models = settings(tmp_path, tiny=vllm(**changes))
    with pytest.raises(VllmServerError) as caught, serving(models, log_folder):
        pass
    assert message in str(caught.value)
    assert "sk-recognisable" not in str(caught.value)
    assert not pids_path.exists()


def test_one_server_cannot_be_at_two_ports(tmp_path: Path, log_folder: str) -> None:
    endpoints = {"a": vllm(base_url="http://localhost:8001/v1"), "b": vllm(base_url="http://localhost:8002/v1")}
    models = settings(tmp_path, {"policy": "a", "judge": "b"}, **endpoints)
    refused = pytest.raises(VllmServerError, match=r"a, b share one server but have the ports \[8001, 8002\]")
    with refused, serving(models, log_folder):
        pass


def test_a_log_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = pytest.raises(VllmServerError, match=r"vllm-tiny\.log can't be written")
    with refused, serving(settings(tmp_path), str(tmp_path / "file/logs")):
        pass


def test_the_executable_is_the_named_one_else_beside_python_else_on_the_path(
    tmp_path: Path, stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_vllm() == str(stand_in)
    monkeypatch.delenv("GROUNDTRACE_VLLM")
    for folder in ("bin", "path"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(VllmServerError, match="GROUNDTRACE_VLLM"):
        find_vllm()
    for folder in ("path", "bin"):
        (tmp_path / folder / "vllm").symlink_to(stand_in)
        assert find_vllm() == str(tmp_path / folder / "vllm")


@pytest.mark.parametrize("name", ["missing", "run.toml", "."])
def test_a_named_executable_must_be_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.toml").touch()
    monkeypatch.setenv("GROUNDTRACE_VLLM", str(tmp_path / name))
    with pytest.raises(VllmServerError, match="not an executable file"):
        find_vllm()


def test_a_server_may_take_a_quarter_of_an_hour_to_start() -> None:
    assert vllm_server.START_TIMEOUT_S == 900
