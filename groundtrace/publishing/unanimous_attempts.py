"""Finds out whether the attempts of the policy were all right, or all wrong, at most questions of the RL rows.

GRPO learns from the differences between the rewards of one question's attempts. If all attempts at a question are
right, or all are wrong, the reward for the answer is the same for each of them, so the policy learns nothing from it.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq

from groundtrace.publishing.rejections import key_prefix
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
    most = 0
    for path in sorted(shards):
        with pq.ParquetFile(path) as file:
            rows = file.read(["pass_rate", "k"]).to_pylist()
        rates.update(row["pass_rate"] for row in rows if row["pass_rate"] is not None)
        most = max([most, *(row["k"] or 0 for row in rows)])
    if rates.total() < MIN_ROWS or 2 * (rates[0.0] + rates[1.0]) <= rates.total():
        return ""
    return (
        f"the pass rate is 0 or 1 in {rates[0.0] + rates[1.0]} of {counted(rates.total(), 'RL row')} (0: {rates[0.0]}, "
        f"1: {rates[1.0]}), so all attempts at a question earn the same reward for the answer, and GRPO learns nothing "
        f"from it: {_remedy(rates, most)}"
    )


def _remedy(rates: Counter[float], most: int) -> str:
    """Return what the user can do about rows with a pass rate of 0 or 1.

    ``rates`` counts the rows by pass rate. ``most`` is the maximum number of scored attempts at a question: with one
    attempt, every pass rate is 0 or 1. The remedy does not advise to leave these rows out if no other rows are left.
    """
    if most == 1:
        return f"each question has one scored attempt: set {key_prefix()}attempt.k to more attempts, such as 4"
    add = "add questions that the policy answers only sometimes"
    if rates[0.0] + rates[1.0] == rates.total():
        return f"{add}, or set {key_prefix()}attempt.k to more attempts"
    keys = " and ".join(f"{key_prefix()}difficulty.{name}" for name in ("include_low", "include_high"))
    return f"{add}, or leave these out ({keys} = false)"
