"""Endpoints that refuse, are not there or go away: what stands in the run folder stays, and the exit code tells."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ..far_server import LISTED, Answer, asking, right, said, serving

RECORDS = 8
IN_THREADS = pytest.param([], id="threads")
IN_PROCESSES = pytest.param(
    ["--", "--direct_num_workers=2", "--direct_running_mode=multi_processing"], id="processes", marks=pytest.mark.faults
)


NOT_OUTPUTS = (".staging", ".lock", "cache", "ledger", "media", "failed.html")


def held(run: Path) -> dict[str, bytes]:
    """What a finished run is: every output file with its bytes."""
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.is_file() and path.relative_to(run).parts[0] not in NOT_OUTPUTS
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, write_questions: Callable[[Path, int], Path]) -> Path:
    return write_questions(tmp_path_factory.mktemp("data"), RECORDS)


@pytest.fixture(scope="module")
def first_run(data: Path, tmp_path_factory: pytest.TempPathFactory, run_beam: Callable[..., Any]) -> Path:
    """A finished run of the embedded engine, with rows."""
    good = run_beam(data, tmp_path_factory.mktemp("first") / "run", "--set", "split.sft_ratio=1.0")
    assert (good.code, good.counts["sft"]) == (0, RECORDS), good.err
    return good.folder


@pytest.fixture
def finished(first_run: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(first_run, tmp_path / "run"))


def dead_port() -> str:
    with serving(right) as server:
        return server.url


REFUSALS = {
    "a wrong key": (lambda *_: said(401, "Incorrect \x1b[31mkey"), LISTED, r"HTTP 401: Incorrect \x1b[31mkey"),
    "no credit": (
        lambda *_: said(402, "Insufficient credits"),
        LISTED,
        "HTTP 402: Insufficient credits. To go on, check",
    ),
    "no credit, as OpenAI says it": (
        lambda *_: said(429, "You exceeded your current quota", "insufficient_quota"),
        LISTED,
        "HTTP 429: You exceeded your current quota. To go on, check the account",
    ),
    "not allowed": (lambda *_: said(403, "Not yours"), LISTED, "HTTP 403: Not yours. To go on, give a key"),
    "no such model": (lambda *_: said(404, "No model m"), (404, {}), "HTTP 404: No model m. To go on, correct"),
    "a model that is not listed": (right, (200, {"data": [{"id": "other"}]}), "serves ['other'], not 'm'. To go on,"),
    "a key that the list wants": (right, said(401, "Who are you?"), "HTTP 401: Who are you?. To go on, give a key"),
}


@pytest.mark.parametrize(("answer", "listed", "words"), REFUSALS.values(), ids=REFUSALS)
def test_an_endpoint_that_refuses_ends_the_run(
    answer: Answer, listed: Any, words: str, data: Path, finished: Path, run_beam: Callable[..., Any]
) -> None:
    before = held(finished)
    with serving(answer, listed) as server:
        ran = run_beam(data, finished, *asking(server.url))
        ran.check_refused(2, words)
    assert f"endpoint far (policy), model m at {server.url}: " in ran.err
    assert held(finished) == before


@pytest.mark.parametrize("mode", [IN_THREADS, IN_PROCESSES])
def test_a_dead_port_ends_the_run(mode: list[str], data: Path, finished: Path, run_beam: Callable[..., Any]) -> None:
    before, url = held(finished), dead_port()
    ran = run_beam(data, finished, *asking(url), *mode)
    ran.check_refused(2, f"endpoint far (policy), model m at {url}: cannot be reached: connection: ")
    assert "Start the server, or correct endpoints.far.base_url" in ran.err
    assert held(finished) == before


def test_the_judge_is_checked_before_the_policy_is_paid(
    data: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    with serving(right) as server:
        dead = [word.replace("endpoints.far.", "endpoints.gone.") for word in asking(dead_port(), "judge")]
        dead[dead.index("roles.judge=far")] = "roles.judge=gone"
        ran = run_beam(data, tmp_path / "run", *asking(server.url), *dead)
        ran.check_refused(2, "endpoint gone (judge)")
        assert server.seen == []


@pytest.mark.slow
def test_a_run_that_the_cache_answers_needs_no_server(data: Path, tmp_path: Path, run_beam: Callable[..., Any]) -> None:
    with serving(right) as server:
        assert run_beam(data, tmp_path / "run", *asking(server.url)).code == 0
    again = run_beam(data, tmp_path / "run", *asking(server.url))
    assert (again.code, again.counts["sft"]) == (0, RECORDS), again.err


def test_a_server_that_counts_no_tokens_is_not_free(
    data: Path, tmp_path: Path, run_beam: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Its tokens are estimated, so that a budget holds, and the command says so once."""

    def uncounted(number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, fields = right(number, body)
        return status, {name: value for name, value in fields.items() if name != "usage"}

    with serving(uncounted) as server:
        ran = run_beam(data, tmp_path / "run", *asking(server.url), "--budget-tokens", "5000")
    assert ran.code == 0, ran.err
    assert ran.counts["rejected"]["attempt"]["budget"] == RECORDS - len(server.seen) > 0 < len(server.seen)
    assert caplog.text.count(f"m at {server.url} does not report the tokens of its replies") == 1


def test_a_role_that_never_answers_ends_the_run(
    data: Path, finished: Path, tmp_path: Path, run_beam: Callable[..., Any], write_records: Callable[..., Path]
) -> None:
    before = held(finished)
    with serving(lambda *_: said(500, "out of memory")) as server:
        ran = run_beam(data, finished, *asking(server.url), "--set", "max_failed=0.9")
    ran.check_refused(
        2,
        "attempt rejected 8 of 8 records as call_failed, most often because: server_error: HTTP 500: out of",
    )
    assert held(finished) == before


@pytest.mark.slow
@pytest.mark.parametrize(("failing", "code"), [(4, 0), (5, 2)])
def test_a_share_of_failed_calls_is_a_failed_run(
    failing: int, code: int, data: Path, finished: Path, run_beam: Callable[..., Any]
) -> None:
    before = held(finished)

    def answer(number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return said(400, "too long") if number < failing else right(number, body)

    with serving(answer) as server:
        ran = run_beam(data, finished, *asking(server.url), "--set", "max_failed=0.5")
    assert ran.code == code, ran.err
    assert (held(finished) == before) == bool(code)


@contextmanager
def run_until_gone(data: Path, run: Path, run_beam: Callable[..., Any], *more: str, **fields: Any) -> Iterator[Any]:
    """Begin a run whose server goes away after two replies; ``port`` is where it was. Its end is in ``ran`` after."""
    gone, seen = threading.Event(), SimpleNamespace()

    def answer(number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if number >= 2:
            gone.set()
            raise ConnectionAbortedError  # no reply, and no server from now on
        return right(number, body)

    def work() -> None:
        seen.ran = run_beam(
            data, run, *asking(server.url, max_concurrency=2, max_retries=4, **fields), *more, own_process=True
        )

    with serving(answer) as server:
        seen.port, seen.url = server.server_port, server.url
        running = threading.Thread(target=work)
        running.start()
        assert gone.wait(60)
    yield seen
    running.join(90)


@pytest.mark.faults
@pytest.mark.parametrize("mode", [IN_THREADS, IN_PROCESSES])
def test_a_server_that_comes_back_costs_no_record(
    mode: list[str], data: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    with run_until_gone(data, tmp_path / "run", run_beam, *mode) as seen:
        time.sleep(3)
        with serving(right, port=seen.port) as server:
            for _ in range(600):
                if hasattr(seen, "ran"):
                    break
                time.sleep(0.1)
    assert seen.ran.code == 0, seen.ran.err
    assert seen.ran.counts["sft"] == RECORDS
    assert f"for endpoint far (policy), model m at {seen.url}: connection: " in seen.ran.err
    assert "the servers are back" in seen.ran.err
    assert len(server.seen) == RECORDS - 2


@pytest.mark.faults
@pytest.mark.parametrize("mode", [IN_THREADS, IN_PROCESSES])
def test_a_server_that_stays_away_stops_the_run_which_goes_on_later(
    mode: list[str], data: Path, finished: Path, run_beam: Callable[..., Any]
) -> None:
    before = held(finished)
    with run_until_gone(data, finished, run_beam, *mode, outage_timeout_s=1.0) as seen:
        pass
    assert (seen.ran.code, seen.ran.out) == (3, "")
    assert "Traceback" not in seen.ran.err
    last = seen.ran.err.splitlines()[-1]
    assert last.startswith(f"beam: endpoint far (policy), model m at {seen.url}: out of service for 1 s: connection: ")
    assert "run the same command to continue (endpoints.far.outage_timeout_s is the time to wait)" in last
    assert held(finished) == before
    with serving(right, port=seen.port) as server:
        ran = run_beam(data, finished, *asking(seen.url))
        assert (ran.code, ran.counts["sft"]) == (0, RECORDS), ran.err
        assert len(server.seen) == RECORDS - 2, "what was replied before is kept"


@pytest.mark.faults
@pytest.mark.parametrize("status", [502, pytest.param(504, marks=pytest.mark.faults)])
def test_a_gateway_whose_server_went_away_is_waited_for(
    status: int, data: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    back_s = [float("inf")]

    def answer(number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if number == 2:
            back_s[0] = time.monotonic() + 1.5
        if number >= 2 and time.monotonic() < back_s[0]:
            return said(status, "no upstream")
        return right(number, body)

    with serving(answer) as server:
        ran = run_beam(data, tmp_path / "run", *asking(server.url, max_retries=3))
    assert (ran.code, ran.counts["sft"]) == (0, RECORDS), ran.err
