"""A run that begins and does not finish leaves a page that says why, beside the outputs of the run before it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.running.account import failure_report, finishing
from groundtrace.pipelines.running.account.failure_report import payment_lines
from groundtrace.schemas.run_summary import PaidFigures

from ...far_server import asking, right, said, serving

RECORDS = 6
ALL_SFT = ("--set", "split.sft_ratio=1.0")
PRICES = {"usd_per_million_tokens_in": 10.0, "usd_per_million_tokens_out": 30.0}


@pytest.fixture
def data(tmp_path: Path, write_questions: Callable[[Path, int], Path]) -> Path:
    return write_questions(tmp_path / "data", RECORDS)


def banner(run: Path) -> str:
    """The words at the top of the page of a failed run."""
    page = (run / "failed.html").read_text("utf-8")
    words = re.sub(r"<[^>]*>", "", page.split('<aside class="failed"')[1].split("</aside>")[0].split(">", 1)[1])
    return " ".join(words.replace("&#39;", "'").replace("&lt;", "<").replace("&gt;", ">").split())


@pytest.mark.slow
def test_a_run_that_fails_after_a_finished_one(data: Path, tmp_path: Path, run_beam: Callable[..., Any]) -> None:
    good = run_beam(data, tmp_path / "run", *ALL_SFT)
    assert (good.code, good.counts["sft"]) == (0, RECORDS), good.err
    before = (tmp_path / "run/report.html").read_bytes()

    def answer(number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return right(number, body) if number == 0 else said(400, "too <long>")

    with serving(answer) as server:
        bad = run_beam(data, tmp_path / "run", *asking(server.url, max_concurrency=1, **PRICES))
    why = f"the stage attempt rejected 5 of {RECORDS} records as call_failed, most often because: "
    bad.check_refused(2, why)
    cost = "$0.04: 6 requests, 2000 tokens"
    assert f" (paid {cost}; report: {tmp_path / 'run/failed.html'})" in bad.err
    assert (tmp_path / "run/report.html").read_bytes() == before
    told = banner(tmp_path / "run")
    assert told.startswith(f"This run failed {why}")
    assert "too <long>" in told
    assert "What to do Correct the problem that the line above names" in told
    assert f"untouched: {RECORDS} SFT rows, 0 RL rows, 0 rejected, from {data}. See its report." in told
    assert told.endswith("By this run: 6 requests, 2,000 tokens, $0.04."), "the run before it paid nothing"
    page = (tmp_path / "run/failed.html").read_text("utf-8")
    assert "None of it was put in place" in page
    assert "call_failed" in page.split('id="rejections"')[1], "what the run had made is told of in full"

    with serving(lambda *_: said(400, "too <long>")) as server:
        assert run_beam(data, tmp_path / "run", *asking(server.url, max_concurrency=1, **PRICES)).code == 2
    both = "By this run: 5 requests, 0 tokens, $0.00. By all 3 runs of this folder: 11 requests, 2,000 tokens, $0.04."
    assert banner(tmp_path / "run").endswith(both)

    again = run_beam(data, tmp_path / "run", *ALL_SFT)
    assert again.code == 0, again.err
    assert not (tmp_path / "run/failed.html").exists()


def test_a_first_run_that_is_refused(data: Path, tmp_path: Path, run_beam: Callable[..., Any]) -> None:
    with serving(lambda *_: said(401, "Incorrect key"), said(401, "Incorrect key")) as server:
        bad = run_beam(data, tmp_path / "run", *asking(server.url))
    bad.check_refused(2, f" (report: {tmp_path / 'run/failed.html'})")
    told = banner(tmp_path / "run")
    assert "HTTP 401: Incorrect key" in told
    assert "No outputs: no run has finished here." in told
    assert "By this run: nothing, it sent no request." in told
    assert "By all" not in told


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (ValueError("a defect"), 1)])
def test_an_end_that_nobody_foresaw(
    error: BaseException,
    code: int,
    data: Path,
    tmp_path: Path,
    run_beam: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(finishing, "check_failures", broken)
    ran = run_beam(data, tmp_path / "run")
    assert ran.code == code
    assert f"(report: {tmp_path / 'run/failed.html'})" in ran.err
    assert banner(tmp_path / "run").startswith("This run ")


def test_a_page_that_cannot_be_written_hides_nothing(data: Path, tmp_path: Path, run_beam: Callable[..., Any]) -> None:
    (tmp_path / "run").mkdir()
    with serving(lambda *_: said(401, "Incorrect key"), said(401, "Incorrect key")) as server:

        def answer(*_: object) -> tuple[int, dict[str, Any]]:
            (tmp_path / "run/failed.html").mkdir(exist_ok=True)  # where the page is to stand
            return said(401, "Incorrect key")

        server.answer, server.listed = answer, (200, {"data": [{"id": "m"}]})
        ran = run_beam(data, tmp_path / "run", *asking(server.url))
    ran.check_refused(2, "HTTP 401: Incorrect key")
    assert "the report of this failure could not be written: " in ran.err


@pytest.mark.parametrize(("broken", "said"), [(ValueError("1\n 2"), "1 2"), (MemoryError(), "MemoryError")])
def test_a_page_that_cannot_be_made_is_told_on_the_one_line(
    broken: Exception,
    said: str,
    data: Path,
    tmp_path: Path,
    run_beam: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def write(*_: object) -> None:
        raise broken

    monkeypatch.setattr(failure_report, "write_failure", write)
    (data / "records.jsonl").write_text("no record\n")
    bad = run_beam(data, tmp_path / "run")
    bad.check_refused(2, f"(the report of this failure could not be written: {said})")


@pytest.mark.parametrize(
    ("paid", "words"),
    [
        (None, []),
        (PaidFigures(0.0, 9, 0, 1), []),
        (PaidFigures(0.0, 9, 12, 1), ["paid $0.00: 9 requests, 12 tokens"]),
        (PaidFigures(0.0031, 1, 0, 1), ["paid $0.0031: 1 request, 0 tokens"]),
    ],
)
def test_costs_in_words(paid: PaidFigures | None, words: list[str]) -> None:
    assert payment_lines(paid) == words
