"""What a run says of its end: why there are no rows, what it replaced and what was changed, and what was paid."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.running.account.spending import Spending
from groundtrace.pipelines.running.plan.inputs import find_input
from groundtrace.stages.sources.base import RowSettings
from groundtrace.storage.places import StorageSettings

from ...far_server import asking, right, said, serving

pytestmark = pytest.mark.slow

RECORDS = 4
PRICED = {"usd_per_million_tokens_in": 100.0, "usd_per_million_tokens_out": 150.0}
PAID_USD = 0.25
"""What each request to the server costs: 1,000 tokens in and as many out."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, write_questions: Callable[[Path, int], Path]) -> Path:
    return write_questions(tmp_path_factory.mktemp("data"), RECORDS)


def test_an_empty_input_is_refused(
    tmp_path: Path, data: Path, write_records: Callable[..., Path], run_beam: Callable[..., Any]
) -> None:
    assert run_beam(data, tmp_path / "run").code == 0
    before = (tmp_path / "run/run.json").read_bytes()
    empty = write_records(tmp_path / "empty", [])
    for output, more in (("new", ()), ("run", ("--resume", "never"))):
        message = "empty has no records: set --input to data with records (no earlier output was replaced)"
        run_beam(empty, tmp_path / output, *more).check_refused(2, message)
    assert (tmp_path / "run/run.json").read_bytes() == before


@pytest.mark.parametrize("command", ["run", "preview"])
def test_a_damaged_config_in_the_folder_is_named_before_anything_is_sent(
    data: Path, tmp_path: Path, run_beam: Callable[..., Any], command: str
) -> None:
    found = find_input(str(data), RowSettings(), StorageSettings())
    marker = json.dumps({"input": found.name, "fingerprint": found.fingerprint})
    (tmp_path / "input.json").write_text(marker, "utf-8")
    (tmp_path / "config.toml").write_text("[trace]\nn = = 2\n", "utf-8")
    ran = run_beam(data, tmp_path, command=command)
    ran.check_refused(2, f"{tmp_path}/config.toml is damaged (Invalid value (at line 2, column 5)): move it away, and")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml", "input.json"]


def test_no_rows_are_told_with_their_reasons(data: Path, tmp_path: Path, run_beam: Callable[..., Any]) -> None:
    def answer(*_: object) -> Any:
        return said(400, "too \x1b[31mlong: " + "x" * 200)

    with serving(answer) as server:
        ran = run_beam(data, tmp_path / "run", *asking(server.url), "--set", "max_failed=1.0")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    start = "  call_failed: 4 (most often: bad_request: HTTP 400: too \\x1b[31mlong: xxx"
    assert [line for line in lines if line.startswith(start) and line.endswith("x…)") and len(line) < 200]
    assert "no rows: all records were rejected, 4 of 4 as call_failed" in lines
    details = json.loads((tmp_path / "run/run.json").read_text("utf-8"))["details"]
    assert details["attempt"]["call_failed"].startswith("bad_request: HTTP 400: too ")


def test_a_changed_config_is_told_and_the_outputs_before_it_are_kept(
    data: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    first = run_beam(data, tmp_path / "run")
    again = run_beam(data, tmp_path / "run")
    assert "replaced" not in first.out + again.out, "the same run again changes nothing worth keeping"
    assert not (tmp_path / "run/previous").exists()
    before = (tmp_path / "run/run.json").read_bytes()
    changed = run_beam(data, tmp_path / "run", "--set", "verify.min_score=0.75", "--set", "split.seed=7")
    lines = changed.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("replaced the run of "))
    assert lines[at].endswith(f"which is kept in {tmp_path / 'run/previous'}")
    assert lines[at + 1 : at + 3] == ["  split.seed: 0 → 7", "  verify.min_score: 0.7 → 0.75"]
    assert (tmp_path / "run/previous/run.json").read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "run/previous").iterdir()) == sorted(
        path.name for path in (tmp_path / "run").iterdir()
        if path.name not in ("previous", "cache", "ledger", "media", "input.json", ".lock")
    )  # fmt: skip


def test_what_was_paid_survives_failed_runs_and_reruns(
    data: Path, tmp_path: Path, run_beam: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    def half(number: int, body: dict[str, Any]) -> Any:
        return right(number, body) if number < 2 else said(401, "expired")

    with serving(half) as server:
        failed = run_beam(data, tmp_path / "run", *asking(server.url, max_concurrency=1, **PRICED))
    assert failed.code == 2
    with serving(right, port=server.server_port):
        done = run_beam(data, tmp_path / "run", *asking(server.url, **PRICED))
    assert done.code == 0, done.err
    worth, paid = 2 * PAID_USD, RECORDS * PAID_USD
    assert f"worth ${worth:.2f}; paid for this output in 2 runs: ${paid:.2f}" in done.out
    again = run_beam(data, tmp_path / "run", *asking(server.url, **PRICED))
    said_again = f"replies from the cache were worth ${paid:.2f}; paid for this output in 3 runs: ${paid:.2f}"
    assert said_again in again.out.splitlines()
    figures = json.loads((tmp_path / "run/run.json").read_text("utf-8"))["paid"]
    assert figures.pop("requests") > RECORDS, "those that were refused count too"
    assert figures == {"usd": paid, "tokens": 2000 * RECORDS, "runs": 3}
    assert f"paid for this output in 3 runs, failed and stopped ones among them: ${paid:.2f}" in " ".join(
        (tmp_path / "run/report.html").read_text("utf-8").replace("Paid", "paid").split()
    )
    assert main(["inspect", str(tmp_path / "run")]) == 0
    assert said_again in capsys.readouterr().out


def test_a_killed_run_is_summed_up_by_the_next(tmp_path: Path) -> None:
    line = {"id": "a", "role": "policy", "requests": 1, "tokens_in": 3, "tokens_out": 4, "cost_usd": 0.5}
    with pytest.raises(ZeroDivisionError), Spending(tmp_path).run() as notes:
        (notes / "paid-1.jsonl").write_text(json.dumps(line) + "\n" + json.dumps(line) + "\n{", "utf-8")
        shutil.copytree(notes, notes.with_name("20200101T000000-0123abcd"))
        _ = 1 / 0
    assert Spending(tmp_path).total().runs == 2
    with Spending(tmp_path).run():
        total = Spending(tmp_path).total()
    assert (total.usd, total.requests, total.tokens, total.runs) == (1.0, 2, 14, 3)
    assert sorted(path.suffix for path in (tmp_path / "ledger").iterdir()) == [".json"] * 3


def test_a_folder_that_no_run_has_made_stays(tmp_path: Path) -> None:
    for folder in (tmp_path / "elsewhere", tmp_path / "ledger/mine"):
        folder.mkdir(parents=True)
        (folder / "letter.txt").write_text("precious")
    (tmp_path / "ledger/20200101T000000-0123abcd").symlink_to(tmp_path / "elsewhere")
    with Spending(tmp_path).run():
        pass
    assert Spending(tmp_path).total().runs == 1
    assert (tmp_path / "ledger/mine/letter.txt").exists() and (tmp_path / "elsewhere/letter.txt").exists()


def test_what_workers_pay_after_their_run_has_failed_is_counted(tmp_path: Path) -> None:
    """They have their files open, and note in them until the next run begins; its own notes are others."""
    line = '{{"id": "{}", "role": "policy", "requests": 1, "tokens_in": 3, "tokens_out": 4, "cost_usd": 0.5}}\n'
    with pytest.raises(ZeroDivisionError), Spending(tmp_path).run() as notes:
        worker = (notes / "paid-1.jsonl").open("a")
        print(line.format("a"), end="", file=worker, flush=True)
        _ = 1 / 0
    with worker:
        print(line.format("b"), end="", file=worker, flush=True)
    assert (Spending(tmp_path).total().usd, Spending(tmp_path).total().runs) == (1.0, 1)
    with Spending(tmp_path).run() as own:
        (own / "paid-2.jsonl").write_text(line.format("c"), "utf-8")
        assert not notes.exists()
    notes.mkdir()  # by a worker that goes on even now
    (notes / "reached-x").touch()
    with Spending(tmp_path).run():
        total = Spending(tmp_path).total()
    assert (total.usd, total.requests, total.runs) == (1.5, 3, 3)
    told = json.loads(notes.with_name(f"{notes.name}.json").read_text("utf-8"))
    assert (told["outcome"], told["requests"]) == ("ZeroDivisionError", 2)


@pytest.mark.parametrize("own_cache", [False, True])
def test_a_run_does_not_pay_again_for_its_preview(
    own_cache: bool, data: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    with serving(right) as server:
        asked = asking(server.url, **PRICED)
        assert run_beam(data, tmp_path / "look", *asked, "--limit", "3", command="preview").code == 0
        assert len(server.seen) == 3
        more = ("--cache", str(tmp_path / "mine/cache")) if own_cache else ()
        ran = run_beam(data, tmp_path / "mine", *asked, *more)
        assert ran.code == 0, ran.err
        assert len(server.seen) == 3 + (RECORDS if own_cache else RECORDS - 3)
        shutil.rmtree(tmp_path / "look")
        again = run_beam(data, tmp_path / "mine", *asked)
        assert (again.code, again.rows("sft")) == (0, ran.rows("sft"))
        assert len(server.seen) == 3 + (RECORDS if own_cache else RECORDS - 3), "what was taken over is kept"
