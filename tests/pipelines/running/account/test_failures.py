"""A run of which a stage could not do its work for most records: it ends with what went wrong, and replaces nothing."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.pipelines.running.account.failures import MIN_FAILED, check_failures, most_frequent_detail
from groundtrace.pipelines.running.plan.freshness import fresh_since
from groundtrace.pipelines.running.plan.loading import PipelineError
from groundtrace.schemas.arrow import REJECTED_SCHEMA
from groundtrace.schemas.run_summary import Counts, RunSummary, StageFigures
from groundtrace.stages.plumbing.stage import Stage
from groundtrace.stages.plumbing.stage_list import StageList
from groundtrace.stages.verify_traces import STAGE as VERIFY

from ...conftest import PIPELINE


class Chat(BaseHTTPRequestHandler):
    """Answers every chat request with ``server.status``, and where that is 200, with ``server.text``."""

    server: Any

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": [{"id": "m", "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"message": {"role": "assistant", "content": self.server.text}, "finish_reason": "stop"}
        choices = [{"index": index} | message for index in range(body.get("n", 1))]
        reply = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": choices}
        self._send(self.server.status, reply if self.server.status == 200 else {"error": {"message": "out of memory"}})

    def _send(self, status: int, fields: dict[str, Any]) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(fields).encode())

    def log_message(self, *_: object) -> None:
        """Requests are not printed."""


@contextmanager
def serving(status: int, text: str = "") -> Iterator[str]:
    """The base URL of such a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Chat) as http:
        http.status, http.text = status, text  # type: ignore[attr-defined]
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}/v1"
        http.shutdown()


def playing(role: str, url: str) -> list[str]:
    """The options by which the server plays a role."""
    fields = {"kind": "openai", "model": "m", "base_url": url, "max_retries": 0, "repair_attempts": 0, "frame": "px"}
    named = {f"endpoints.odd.{name}": value for name, value in fields.items()} | {f"roles.{role}": "odd"}
    named["allow_embedded"] = "true"
    return [word for name, value in named.items() for word in ("--set", f"{name}={value}")]


RECORDS = 8
ALL_SFT = ("--set", "split.sft_ratio=1.0")


@pytest.fixture
def data(tmp_path: Path, write_questions: Callable[[Path, int], Path]) -> Path:
    return write_questions(tmp_path / "data", RECORDS)


FAILING = {
    "a judge in prose": (
        "judge",
        200,
        "I cannot say.",
        "reasoning could not be checked: judge: the reply is not JSON: 'I cannot say.'",
    ),
    "a detector that is down": ("detector", 500, "", "spatial could not be checked: "),
    "a detector in prose": ("detector", 200, "I see a square.", "spatial could not be checked: "),
}


@pytest.mark.faults
@pytest.mark.parametrize(("role", "status", "text", "said"), FAILING.values(), ids=FAILING)
def test_an_endpoint_that_always_fails_ends_the_run(
    role: str, status: int, text: str, said: str, data: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    with serving(status, text) as url:
        ran = run_beam(data, tmp_path / "run", *ALL_SFT, *playing(role, url))
    ran.check_refused(2, f"verify rejected {RECORDS} of {RECORDS} records as unverifiable, most often because: {said}")
    assert not (tmp_path / "run/run.json").exists()
    assert not (tmp_path / "run/sft").exists()


@pytest.mark.slow
def test_what_an_earlier_run_made_stays(data: Path, tmp_path: Path, run_beam: Callable[..., Any]) -> None:
    good = run_beam(data, tmp_path / "run", *ALL_SFT)
    assert (good.code, good.counts["sft"]) == (0, RECORDS), good.err
    before = good.rows("sft")
    with serving(200, "I cannot say.") as url:
        bad = run_beam(data, tmp_path / "run", *ALL_SFT, *playing("judge", url))
    assert bad.code == 2
    assert bad.rows("sft") == before
    assert bad.counts == good.counts


@pytest.mark.slow
def test_fresh_requests_again_after_a_run_that_failed_by_its_replies(
    data: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    with serving(200, "I cannot say.") as url:
        first = run_beam(data, tmp_path / "run", *ALL_SFT, *playing("judge", url), "--fresh")
        assert first.code == 2 and "with --fresh, to get new replies, if the replies are wrong" in first.err
        since = fresh_since(tmp_path / "run")
        again = run_beam(data, tmp_path / "run", *ALL_SFT, *playing("judge", url))
        assert again.code == 2 and "requests sent 0" in again.err, "without --fresh the replies are used"
        assert fresh_since(tmp_path / "run") == since
        last = run_beam(data, tmp_path / "run", *ALL_SFT, *playing("judge", url), "--fresh")
    assert last.code == 2 and "requests sent 0" not in last.err
    assert fresh_since(tmp_path / "run") > since


@pytest.mark.slow
def test_all_records_are_rejected_before_a_stage_that_the_run_before_had(
    data: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    assert run_beam(data, tmp_path / "run", *ALL_SFT).code == 0
    with serving(200, "I cannot say.") as url:
        ran = run_beam(data, tmp_path / "run", *ALL_SFT, *playing("pointer", url))
    assert ran.code == 2 and "records as unparsable_reply" in ran.err


def test_a_run_may_be_allowed_to_fail(data: Path, tmp_path: Path, run_beam: Callable[..., Any]) -> None:
    with serving(200, "I cannot say.") as url:
        ran = run_beam(data, tmp_path / "run", *ALL_SFT, *playing("judge", url), "--set", "max_failed=1.0")
    assert ran.code == 0, ran.err
    ran.check_balance(RECORDS)
    assert set(ran.ends.values()) == {"unverifiable"}


@pytest.mark.slow
def test_what_the_config_leaves_out_does_not_fail(data: Path, tmp_path: Path, run_beam: Callable[..., Any]) -> None:
    with serving(200, "I cannot say.") as url:
        skip = ("--set", 'verify.gate.skip=["reasoning"]', "--set", "leak.ask=none")
        ran = run_beam(data, tmp_path / "run", *ALL_SFT, *playing("judge", url), *skip, pipeline=PIPELINE)
    assert (ran.code, ran.counts["sft"]) == (0, RECORDS), ran.err
    assert {row["scores"]["reasoning"] for row in ran.rows("sft")} == {None}


OTHER = Stage(
    "other", "does something", reasons={"broken": "it broke", "lost": "it was lost"}, failures=("broken", "lost")
)
PLAIN = Stage("plain", "does something", reasons={"unverifiable": "for another reason"})
STAGES = StageList((VERIFY, OTHER, PLAIN))


def summed(rejected: dict[str, dict[str, int]], read: int) -> RunSummary:
    """The summary of a run whose stages read so many records each."""
    counts = Counts(read, 0, 0, rejected)
    figures = {stage.name: StageFigures(read, read - sum(rejected.get(stage.name, {}).values())) for stage in STAGES}
    return RunSummary("r", "in", counts, figures, {}, {}, {}, "now", 1.0, "rev", "sha", False)


def write_rejected(staging: Path, rows: Sequence[tuple[str, str, str | None]]) -> Path:
    """Rejections of a stage, for a reason, with a detail; in two files."""
    (staging / "rejected").mkdir(parents=True)
    for number in range(2):
        named = [
            {"id": f"q{n}", "stage": stage, "reason": reason, "detail": detail}
            for n, (stage, reason, detail) in enumerate(rows)
            if n % 2 == number
        ]
        pq.write_table(
            pa.Table.from_pylist(named, schema=REJECTED_SCHEMA),
            staging / f"rejected/train-{number:05d}-of-00002.parquet",
        )
    return staging


@pytest.mark.parametrize(
    ("rejected", "read", "max_failed", "fails"),
    [
        ({}, 100, 0.25, False),
        ({"verify": {"unverifiable": 25}}, 100, 0.25, False),
        ({"verify": {"unverifiable": 26}}, 100, 0.25, True),
        ({"verify": {"unverifiable": 100}}, 100, 1.0, False),
        ({"verify": {"unverifiable": MIN_FAILED}}, 100, 0.0, True),
        # a few are no sign of anything
        ({"verify": {"unverifiable": MIN_FAILED - 1}}, MIN_FAILED - 1, 0.0, False),
        # what was looked at and is bad is the stage's work
        ({"verify": {"low_grounding": 60, "wrong_answer": 40}}, 100, 0.25, False),
        ({"verify": {"low_grounding": 70, "unverifiable": 30}}, 100, 0.25, True),
        # reasons of one stage count together, those of another do not
        ({"other": {"broken": 14, "lost": 14}}, 100, 0.25, True),
        ({"other": {"broken": 14}, "verify": {"unverifiable": 14}}, 100, 0.25, False),
        ({"plain": {"unverifiable": 90}}, 100, 0.25, False),
        # a reply of another form is a failure of a stage that asks models, and of no other
        ({"verify": {"unparsable_reply": 26}}, 100, 0.25, True),
        ({"plain": {"unparsable_reply": 90}}, 100, 0.25, False),
    ],
)
def test_when_a_run_has_failed(
    rejected: dict[str, dict[str, int]], read: int, max_failed: float, fails: bool, tmp_path: Path
) -> None:
    staging = write_rejected(tmp_path, [("verify", "unverifiable", "no reply"), ("other", "lost", "no reply")])
    if not fails:
        check_failures(STAGES, summed(rejected, read), staging, max_failed)
        return
    (stage,) = rejected
    count = sum(n for reason, n in rejected[stage].items() if reason not in ("low_grounding", "wrong_answer"))
    with pytest.raises(PipelineError) as caught:
        check_failures(STAGES, summed(rejected, read), staging, max_failed)
    reasons = " or ".join(reason for reason in rejected[stage] if reason not in ("low_grounding", "wrong_answer"))
    often = "no reply" if reasons != "unparsable_reply" else "no detail"
    assert str(caught.value) == (
        f"the stage {stage} rejected {count} of {read} records as {reasons}, most often because: "
        f"{often}. No earlier output was replaced, and the models' replies are kept for the next run. Correct this "
        "cause and run the same command again (with --fresh, to get new replies, if the replies are wrong), or raise "
        "the setting max_failed"
    )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("verify", "unverifiable", "a"), ("verify", "unverifiable", "b"), ("verify", "unverifiable", "b")], "b"),
        ([("verify", "low_grounding", "a")] * 3 + [("verify", "unverifiable", "b")], "b"),
        ([("other", "unverifiable", "a")] * 3 + [("verify", "unverifiable", "b")], "b"),
        ([("verify", "unverifiable", "two\nlines  of it")], "two lines of it"),
        ([("verify", "unverifiable", "x" * 500)], "x" * 200),
        ([("verify", "unverifiable", None)], ""),
        ([("verify", "low_grounding", "a")], "no detail"),
    ],
)
def test_what_is_said_most_often(rows: list[tuple[str, str, str | None]], said: str, tmp_path: Path) -> None:
    assert most_frequent_detail(write_rejected(tmp_path, rows), "verify", ("unverifiable",)) == said


def test_a_path_with_wildcards_is_a_path(tmp_path: Path) -> None:
    staging = write_rejected(tmp_path / "run [1]", [("verify", "unverifiable", "late")])
    assert most_frequent_detail(staging, "verify", ("unverifiable",)) == "late"
