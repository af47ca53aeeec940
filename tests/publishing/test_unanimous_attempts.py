"""The warning about RL rows from which GRPO learns nothing."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.unanimous_attempts import unanimous_attempts
from groundtrace.schemas.loop_step import step_environment


@pytest.mark.parametrize(
    ("shards", "warning"),
    [
        ([], ""),
        ([[]], ""),
        ([[None, None]], ""),
        ([[0.0, 0.0, 1.0, 0.5, 0.5, 0.5]], ""),  # half is not most
        ([[0.25, 0.5, 0.5, 0.5], [1.0, 0.5]], ""),
        ([[1.0, None, 1.0], [0.0, 0.5, 0.5]], "the pass rate is 0 or 1 in 3 of 5 RL rows (0: 1, 1: 2)"),
        ([[1.0] * 4], ""),  # too few rows
    ],
)
def test_most_rows_must_have_attempts_that_differ(
    shards: list[list[float | None]], warning: str, tmp_path: Path
) -> None:
    for number, rates in enumerate(shards):
        write(tmp_path / f"{number}.parquet", rates, 4)
    found = unanimous_attempts(tmp_path.glob("*.parquet"))
    assert found.partition(", so all")[0] == warning


def write(path: Path, rates: list[float | None], k: int) -> None:
    attempts = pa.array([None if rate is None else k for rate in rates], pa.int32())
    pq.write_table(pa.table({"pass_rate": pa.array(rates, pa.float64()), "k": attempts}), path)


ADD = "add questions that the policy answers only sometimes, or"


@pytest.mark.parametrize(
    ("rates", "k", "remedy"),
    [
        ([1.0, 1.0, 0.0, 0.0, None, 1.0], 1, "each question has one scored attempt: set {}attempt.k to more attempts"),
        ([1.0] * 5, 4, f"{ADD} set {{}}attempt.k to more attempts"),
        ([1.0] * 5 + [0.5], 4, f"{ADD} leave these out ({{0}}difficulty.include_low and {{0}}difficulty.include_high"),
    ],
)
@pytest.mark.parametrize("section", ["", "rl"])
def test_the_remedy_leaves_rows_and_names_keys_that_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rates: list[float | None], k: int, remedy: str, section: str
) -> None:
    """In a run of ``beam loop``, the user sets the keys in the loop's config."""
    for name, value in step_environment(section).items():
        monkeypatch.setenv(name, value)
    write(tmp_path / "0.parquet", rates, k)
    found = unanimous_attempts(tmp_path.glob("*.parquet"))
    assert f"learns nothing from it: {remedy.format(f'{section}.set.' if section else '')}" in found
