"""The figures of a run: read back from its files and from the metrics, and whether they add up."""

from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.metrics.metric import Metrics
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from pipelines.running.counts import agreements, ledger, metric_counters, unbalanced, written_counts
from schemas.arrow import REJECTED_SCHEMA, SFT_SCHEMA
from schemas.run_summary import RoleLedger
from schemas.usage import Usage
from stages.plumbing.options import Options


def write(path: Path, rows: list[dict], schema: pa.Schema) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)


def test_rows_are_counted_in_the_files(tmp_path: Path) -> None:
    write(tmp_path / "sft/train-00000-of-00002.parquet", [{"id": "a"}, {"id": "b"}], SFT_SCHEMA)
    write(tmp_path / "sft/train-00001-of-00002.parquet", [{"id": "c"}], SFT_SCHEMA)
    write(tmp_path / "rl/train-00000-of-00001.parquet", [], SFT_SCHEMA)
    ends = [("verify", "wrong_answer"), ("clean", "control_characters"), ("verify", "wrong_answer")]
    rows = [{"id": str(n), "stage": stage, "reason": reason} for n, (stage, reason) in enumerate(ends)]
    write(tmp_path / "rejected/a.parquet", rows[:2], REJECTED_SCHEMA)
    write(
        tmp_path / "rejected/b.parquet",
        [*rows[2:], {"id": "9", "stage": "verify", "reason": "low_grounding"}],
        REJECTED_SCHEMA,
    )
    rejected = {"clean": {"control_characters": 1}, "verify": {"low_grounding": 1, "wrong_answer": 2}}
    assert written_counts(tmp_path) == (3, 0, rejected)
    assert unbalanced(7, 3, 0, rejected) is None


def test_no_files_no_rows(tmp_path: Path) -> None:
    assert written_counts(tmp_path) == (0, 0, {})


@pytest.mark.parametrize(
    ("read", "sft", "rl", "rejected", "said"),
    [
        (0, 0, 0, {}, None),
        (6, 1, 2, {"a": {"x": 1}, "b": {"x": 1, "y": 1}}, None),
        (7, 1, 2, {"a": {"x": 3}}, "7 records were read, but 6 came out: sft 1, rl 2, rejected 3"),
        (5, 1, 2, {"a": {"x": 3}}, "5 records were read, but 6 came out: sft 1, rl 2, rejected 3"),
    ],
)
def test_conservation(read: int, sft: int, rl: int, rejected: dict, said: str | None) -> None:
    assert unbalanced(read, sft, rl, rejected) == said


def test_the_ledger_by_role_and_stage() -> None:
    counters = {
        ("stage/attempt", "in"): 9,
        ("ledger/judge/attempt", "calls"): 4,
        ("ledger/judge/verify", "calls"): 2,
        ("ledger/judge/verify", "cost_microusd"): 1_250_000,
        ("ledger/judge/attempt", "cost_microusd"): 250_000,
        ("ledger/judge/attempt", "worth_microusd"): 750_000,
        ("ledger/policy/attempt", "tokens_out"): 100,
        ("rejected/verify", "wrong_answer"): 3,
    }
    found = ledger(counters)
    attempt = Usage(calls=4, cost_usd=0.25, worth_usd=0.75)
    assert found == {
        "judge": RoleLedger({"attempt": attempt, "verify": Usage(calls=2, cost_usd=1.25)}),
        "policy": RoleLedger({"attempt": Usage(tokens_out=100)}),
    }
    assert found["judge"].usage == Usage(calls=6, cost_usd=1.5, worth_usd=0.75)


def test_how_far_two_judges_agree() -> None:
    """20 yes/yes, 15 no/no, 5 and 10 mixed: p_o 0.7, p_e 0.5, κ 0.4; what a judge left unscored is left out."""
    counted = {"yes/yes": 20, "no/no": 15, "yes/no": 5, "no/yes": 10, "unscored/yes": 3}
    counters = {("agreement/reasoning", pair): count for pair, count in counted.items()} | {("stage/verify", "in"): 9}
    expected = {"n": 50, "left_out": 3, "observed": 0.7, "kappa": pytest.approx(0.4)}
    assert agreements(counters) == {"reasoning": expected}
    assert agreements({("stage/verify", "in"): 9}) == {}


def test_counters_are_added_up_over_steps() -> None:
    def count(number: int) -> int:
        Metrics.counter("stage/sieve", "in").inc(number)
        return number

    pipeline = beam.Pipeline(FnApiRunner(), Options([]))
    numbers = pipeline | beam.Create([1, 2, 3])
    _ = numbers | "Once" >> beam.Map(count)
    _ = numbers | "Again" >> beam.Map(count)
    counters = metric_counters(pipeline.run().metrics())
    assert counters["stage/sieve", "in"] == 12
