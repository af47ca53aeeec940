"""A server that asks to be left alone (Retry-After), and a run that is stopped while it waits for replies."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..conftest import PIPELINE
from ..far_server import LISTED, asking, right, said, serving

pytestmark = pytest.mark.faults

RECORDS = 4
BUSY = said(429, "slow down")
ASKS = "rate_limited: HTTP 429: slow down (it asks to wait 3600 s)"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, write_questions: Callable[[Path, int], Path]) -> Path:
    return write_questions(tmp_path_factory.mktemp("data"), RECORDS)


@pytest.mark.parametrize("listed", [LISTED, BUSY], ids=["calls", "the start"])
def test_a_server_that_asks_for_an_hour_stops_the_run(
    listed: Any, data: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    with serving(lambda *_: BUSY, listed, retry_after="3600") as server:
        began_s = time.monotonic()
        ran = run_beam(data, tmp_path / "run", *asking(server.url, outage_timeout_s=4.0, max_retries=8))
        took_s = time.monotonic() - began_s
    assert (ran.code, ran.out) == (3, "")
    *shown, last = ran.err.splitlines()
    named = f"endpoint far (policy), model m at {server.url}"
    assert last.startswith(f"beam: {named}: out of service for 4 s: {ASKS}")
    assert "All replies so far are kept: when it answers again, run the same command" in last
    assert f"waiting 0 s (at most 4) for {named}: {ASKS}" in shown
    assert took_s < 60


def test_a_server_that_asks_for_a_second_is_obeyed(data: Path, tmp_path: Path, run_beam: Callable[..., Any]) -> None:
    """Two tries in vain are more than ``max_retries``: those at a server that answers nobody are no tries of a call."""
    times_s: list[float] = []

    def answer(number: int, body: dict[str, Any]) -> Any:
        times_s.append(time.monotonic())
        return BUSY if number < 2 else right(number, body)

    with serving(answer, retry_after="1") as server:
        ran = run_beam(data, tmp_path / "run", *asking(server.url, max_concurrency=1, max_retries=1))
    assert (ran.code, ran.counts["sft"]) == (0, RECORDS), ran.err
    assert times_s[-1] - times_s[0] >= 1.0


def test_validate_shows_it_at_once(data: Path, run_beam: Callable[..., Any], capsys: Any) -> None:
    from groundtrace.pipelines.commands.cli import main

    with serving(right, BUSY, retry_after="3600") as server:
        began_s = time.monotonic()
        code = main(["validate", PIPELINE, "--input", str(data), *asking(server.url)])
        assert time.monotonic() - began_s < 30
    assert code == 2
    assert f"endpoint far (policy): NOT READY: {ASKS}" in capsys.readouterr().out


PROCESSES = ["--", "--direct_num_workers=2", "--direct_running_mode=multi_processing"]


@pytest.mark.parametrize(("number", "options"), [(signal.SIGHUP, []), (signal.SIGTERM, PROCESSES)])
def test_a_stopped_run_sends_nothing_twice(number: int, options: list[str], data: Path, tmp_path: Path) -> None:
    """The signal goes to the whole process group, as a closed terminal and `timeout` send it."""
    came, go_on = threading.Event(), threading.Event()

    def answer(number: int, body: dict[str, Any]) -> Any:
        if len(server.seen) == RECORDS:
            came.set()
        go_on.wait(60)
        return right(number, body)

    with serving(answer) as server:
        command = [sys.executable, "-m", "groundtrace", "run", PIPELINE, "--input", str(data)]
        command += ["--output", str(tmp_path / "run"), *asking(server.url), *options]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            assert came.wait(60)
            os.killpg(process.pid, number)
            os.killpg(process.pid, number)
            threading.Timer(1.5, go_on.set).start()
            _, told = process.communicate(timeout=60)
        finally:
            process.kill()
        lines = [line for line in told.splitlines() if line.startswith("beam: ")]
        assert process.returncode == 130, told
        assert lines[0].startswith("beam: stopping; waiting up to 20 s for in-flight requests")
        assert lines[1].startswith("beam: interrupted; run the same command again to resume")
        assert "Traceback" not in told
        again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert again.returncode == 0, again.stderr
        assert len(server.seen) == RECORDS
