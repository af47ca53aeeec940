"""The warning about RL rows from which GRPO learns nothing."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.unanimous_attempts import unanimous_attempts


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
        pq.write_table(pa.table({"pass_rate": pa.array(rates, pa.float64())}), tmp_path / f"{number}.parquet")
    found = unanimous_attempts(tmp_path.glob("*.parquet"))
    assert found.partition(", so all")[0] == warning
