"""A run that keeps no rows: it never takes the place of one that kept some, unless that is asked for."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import groundtrace as gt
from groundtrace.pipelines.running.account.kept_rows import NothingKept, check_kept
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.run_summary import Counts, RunSummary

from ...conftest import PIPELINE
from ...far_server import Answer, asking, right, serving
from ..test_safe_runs import held

pytestmark = pytest.mark.slow

RECORDS = 3


def saying(text: str, finish: str = "stop") -> Answer:
    def answer(number: int, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, fields = right(number, body)
        for choice in fields["choices"]:
            choice |= {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
        return status, fields

    return answer


CUT = "<think>There are thr"
CASES = {
    "a budget too small": (right, "policy", ("--budget-tokens", "1"), "3 of 3 as budget (most often: the budget is"),
    "every attempt is cut off": (
        saying(CUT, "length"),
        "policy",
        (),
        "3 of 3 as ungradable (most often: 0 of 4 attempts could be graded: truncated: ",
    ),
    "every proposal is cut off": (
        saying(CUT, "length"),
        "teacher",
        (),
        "3 of 3 as truncated (most often: the reply was cut off at a limit of tokens: the reply is not JSON",
    ),
    "every proposal is prose": (
        saying("I see."),
        "teacher",
        (),
        "3 of 3 as unparsable_reply (most often: the reply is not JSON",
    ),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, write_questions: Callable[[Path, int], Path]) -> Path:
    return write_questions(tmp_path_factory.mktemp("data"), RECORDS)


@pytest.fixture(scope="module")
def first_run(data: Path, tmp_path_factory: pytest.TempPathFactory, run_beam: Callable[..., Any]) -> Path:
    """A finished run of the embedded engine, with rows, which has replaced one with others."""
    folder = tmp_path_factory.mktemp("first") / "run"
    for ratio in ("0.0", "1.0"):
        good = run_beam(data, folder, "--set", f"split.sft_ratio={ratio}")
    assert (good.code, good.counts["sft"]) == (0, RECORDS), good.err
    assert (folder / "previous/run.json").exists()
    return folder


def rows_of(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for name in ("sft", "rl") for file in (folder / name).glob("*.parquet"))


def test_no_reason_lets_it_take_the_place_of_rows(
    data: Path, first_run: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    """One after the other: what stands there and what was there before it stay to the byte."""
    run = Path(shutil.copytree(first_run, tmp_path / "run"))
    before = held(run)
    for answer, role, more, said in CASES.values():
        with serving(answer) as server:
            asked = asking(server.url, role, repair_attempts=0, model=f"m{len(said)}", check_model="false")
            ran = run_beam(data, run, *asked, *more)
        ran.check_refused(2, f"this run kept no rows: all records were rejected, {said}")
        assert f"The old outputs were not replaced: {run} still holds the run of " in ran.err
        assert f"({RECORDS} sft and 0 rl)" in ran.err and "add --replace" in ran.err
        assert held(run) == before
    page = (run / "failed.html").read_text("utf-8")
    assert "What to do" in page and "this run kept no rows" in page and "unparsable_reply" in page


def test_replace_means_it_and_previous_only_ever_holds_rows(
    data: Path, first_run: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    run = Path(shutil.copytree(first_run, tmp_path / "run"))
    with serving(right) as server:
        nothing = [*asking(server.url), "--budget-tokens", "1"]
        ran = run_beam(data, run, *nothing, "--replace")
        assert (ran.code, ran.counts["sft"], rows_of(run), rows_of(run / "previous")) == (0, 0, 0, RECORDS), ran.err
        assert f"({RECORDS} sft and 0 rl), which is kept in {run / 'previous'}" in ran.out
        # of runs without rows nothing is kept, whatever takes their place
        ran = run_beam(data, run, *nothing, "--set", "split.seed=1")
        assert (ran.code, rows_of(run), rows_of(run / "previous")) == (0, 0, RECORDS), ran.err
        good = run_beam(data, run, *asking(server.url), "--set", "split.seed=3")
    assert (good.code, rows_of(run), rows_of(run / "previous")) == (0, RECORDS, RECORDS), good.err
    assert "(0 sft and 0 rl), which had no rows" in good.out


def test_where_nothing_was_kept_before_it_is_done(data: Path, tmp_path: Path, run_beam: Callable[..., Any]) -> None:
    with serving(saying(CUT, "length")) as server:
        ran = run_beam(data, tmp_path / "run", *asking(server.url, max_tokens_limit=4096))
        assert [body["max_tokens"] for body in server.seen][-1] == 4096
    assert ran.code == 0, ran.err
    said = (
        f"truncated: {4 * RECORDS} of {4 * RECORDS} replies of the policy in attempt, asked for with up to 4096 "
        "tokens: raise endpoints.far.max_tokens_limit, or the server's own limit if lower"
    )
    lines = ran.out.splitlines()
    assert said in lines and f"no rows: all records were rejected, {RECORDS} of {RECORDS} as ungradable" in lines
    assert "include_low" not in ran.out
    told = json.loads((tmp_path / "run/run.json").read_text("utf-8"))["truncated"]
    cut = {"replies": 4 * RECORDS, "truncated": 4 * RECORDS, "max_tokens": 4096}
    assert told == {"policy": {"attempt": cut | {"settings": ["endpoints.far.max_tokens_limit"]}}}
    assert f"of {4 * RECORDS} replies of the policy in attempt" in (tmp_path / "run/report.html").read_text("utf-8")


def test_from_python(data: Path, first_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(first_run, tmp_path / "run"))
    before = held(run)
    empty_band = ["difficulty.high=0.0"]
    with pytest.raises(UserError, match=r"3 of 3 as too_easy: to see traces .*\(replace=True in Python\)"):
        gt.run(PIPELINE, str(data), str(run), overrides=empty_band)
    assert held(run) == before
    assert gt.run(PIPELINE, str(data), str(run), overrides=empty_band, replace=True).summary.counts.kept == 0
    assert rows_of(run / "previous") == RECORDS


NOTHING = RunSummary(
    "r", "in", Counts(3, 0, 0, {"attempt": {"budget": 3}}), {}, {}, {}, {}, "now", 1.0, "rev", "sha", False
)


@pytest.mark.parametrize(
    ("counts", "refused"),
    [
        (Counts(3, 1, 0, {"attempt": {"budget": 2}}), True),
        (Counts(3, 0, 1, {"attempt": {"budget": 2}}), True),
        (Counts(3, 0, 0, {"attempt": {"budget": 3}}), False),
        (None, False),  # no run has finished here
    ],
)
def test_the_rule_is_over_rows(counts: Counts | None, refused: bool, tmp_path: Path) -> None:
    if counts is not None:
        fields = replace(NOTHING, counts=counts).to_fields()
        (tmp_path / "run.json").write_text(json.dumps(fields), "utf-8")
    if refused:
        with pytest.raises(NothingKept):
            check_kept(tmp_path, "run", NOTHING, {})
    else:
        check_kept(tmp_path, "run", NOTHING, {})
    check_kept(tmp_path, "run", replace(NOTHING, counts=Counts(3, 1, 0, {"attempt": {"budget": 2}})), {})


@pytest.mark.parametrize("told", ["missing", "damaged"])
@pytest.mark.parametrize(("rows", "refused"), [(0, False), (2, True), (None, True)])
def test_shards_count_where_no_run_json_can_be_read(rows: int | None, refused: bool, told: str, tmp_path: Path) -> None:
    (tmp_path / "rl").mkdir()
    shard = tmp_path / "rl/train-00000-of-00001.parquet"
    if rows is None:
        shard.write_bytes(b"no Parquet")
    else:
        pq.write_table(pa.table({"id": pa.array(["a"] * rows, pa.string())}), shard)
    if told == "damaged":
        (tmp_path / "run.json").write_text("{", "utf-8")
    if refused:
        with pytest.raises(NothingKept, match=r"of a run whose run\.json is missing or damaged"):
            check_kept(tmp_path, "run", NOTHING, {})
    else:
        check_kept(tmp_path, "run", NOTHING, {})
