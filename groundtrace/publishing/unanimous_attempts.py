"""Finds out whether the attempts of the policy were all right, or all wrong, at most questions of the RL rows.

GRPO learns from the differences between the rewards of one question's attempts. If all attempts at a question are
right, or all are wrong, the reward for the answer is the same for each of them, so the policy learns nothing from it.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq

from groundtrace.schemas.text import counted

MIN_ROWS = 5
"""The minimum number of rows for a warning: with fewer rows, a share means nothing."""


def unanimous_attempts(shards: Iterable[Path]) -> str:
    """Return a warning for the user if more than half of the RL rows have a pass rate of 0 or 1; "" otherwise.

    The pass rate of a row is the share of the policy's attempts that are right. Rows without a pass rate are not
    counted. The result is "" if fewer than :data:`MIN_ROWS` rows are counted. ``shards`` are the Parquet files with the
    RL rows.
    """
    rates: Counter[float] = Counter()
    for path in sorted(shards):
        with pq.ParquetFile(path) as file:
            rates.update(file.read(["pass_rate"])["pass_rate"].drop_null().to_pylist())
    if rates.total() < MIN_ROWS or 2 * (rates[0.0] + rates[1.0]) <= rates.total():
        return ""
    return (
        f"the pass rate is 0 or 1 in {rates[0.0] + rates[1.0]} of {counted(rates.total(), 'RL row')} (0: {rates[0.0]}, "
        f"1: {rates[1.0]}), so all attempts at a question earn the same reward for the answer, and GRPO learns nothing "
        "from it: add questions that the policy answers only sometimes, or leave these out (difficulty.include_low and "
        "difficulty.include_high = false)"
    )
