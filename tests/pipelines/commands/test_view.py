"""``beam view`` as a process: its address, its ends, and what it refuses."""

import asyncio
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from groundtrace.pipelines.commands import view
from groundtrace.pipelines.commands.cli import main
from tests.publishing.view.viewed import sft_row, write_run

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.faults), signal.SIGTERM])
def test_it_serves_the_run_until_a_signal(demo: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "groundtrace", "view", str(demo / "runs/demo"), "--at", "?set=rl&view=table"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    address = urlsplit(process.stdout.readline().strip())
    state = parse_qs(address.query)
    assert (state["set"], state["view"]) == (["rl"], ["table"]) and address.hostname == "127.0.0.1"
    connection = HTTPConnection("127.0.0.1", address.port or 0, timeout=20)
    connection.request("GET", f"/?{address.query}")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Location"]) == (303, "/?set=rl&view=table")
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert err.startswith("beam: 120 rows of ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--export", ""], "--export must name a folder on this machine, got ''"),
        (["--export", "s3://bucket/copy"], "--export must name a folder on this machine, got 's3://bucket/copy'"),
        (("--cache", ""), "--cache must name a folder on this machine: '' is not one"),
        (("--cache", "gone"), "--cache must name a folder on this machine: 'gone' is not one"),
        (
            ("--cache", "s3://bucket/cache"),
            "--cache must name a folder on this machine: 's3://bucket/cache' is not one",
        ),
        (("--at", "colour=red"), "--at colour=red cannot be used: the run has no column 'colour'"),
        (("--at", "pass_rate=high"), "or as LOW..HIGH"),
        (("--port", "-1"), "choose another --host or --port"),
        (("--port", "70000"), "choose another --host or --port"),
    ],
)
def test_a_mistake_is_one_line(
    demo: Path, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["view", str(demo / "runs/demo"), *words]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1 and err.startswith("beam: ")


def test_a_run_folder_is_no_cache(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = demo / "runs/demo"
    assert main(["view", str(run), "--cache", str(run)]) == 2
    assert f"write --cache {run}/cache instead" in capsys.readouterr().err


def test_a_second_folder_without_a_finished_run_is_one_line(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["view", str(demo / "runs/demo"), str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert f"{tmp_path} has no run.json" in err and err.count("\n") == 1


def test_the_settings_that_differ_from_those_of_a_second_run_are_on_the_page(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = (write_run(tmp_path / name, demo / "runs/demo", {"sft": [sft_row("a")]}) for name in ("new", "old"))
    config = old / "config.toml"
    config.write_text(config.read_text("utf-8").replace("\nk = 4", "\nk = 2", 1), "utf-8")
    found = list[dict[str, Any]]()

    def serve(app: web.Application, port: int, notes: list[str], query: str) -> None:
        async def use() -> dict[str, Any]:
            async with TestClient(TestServer(app)) as client:
                await client.get(f"/?{query}")
                return await (await client.get("/api/run")).json()

        found.append(asyncio.run(use()))

    monkeypatch.setattr(view, "_serve", serve)
    assert main(["view", str(new), str(old)]) == 0
    assert found[0]["other"]["settings"] == [["attempt.k", "2", "4"]]


def test_a_port_that_is_taken_is_one_line(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["view", str(demo / "runs/demo"), "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot listen on 127.0.0.1" in capsys.readouterr().err


def test_a_folder_without_a_finished_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(tmp_path)]) == 2
    assert "has no run.json" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
