"""The histograms of scores, counted with DuckDB."""

import math

import duckdb
import pyarrow as pa

from groundtrace.publishing.figures import ScoreBars, score_bars

NAMES = ["final", "spatial", 'odd "name"', "temporal"]
VALUES = {
    "final": [0.0, 0.05, 0.1, 0.3, 0.999, 1.0, None],
    "spatial": [None, math.nan, math.inf, 0.7, 0.7, -0.5, 1.5],
    'odd "name"': [0.55] * 7,
    "temporal": [None] * 7,
}


def test_a_row_without_a_value_is_in_no_bar() -> None:
    kinds = pa.struct([(name, pa.float64()) for name in NAMES])
    rows = [dict(zip(NAMES, values, strict=True)) for values in zip(*VALUES.values(), strict=True)]
    with duckdb.connect(":memory:") as db:
        db.register("sft", pa.table({"scores": pa.array([*rows, None], kinds)}))
        found = score_bars(db, NAMES)
    assert found == [
        ScoreBars("final", (2, 1, 0, 1, 0, 0, 0, 0, 0, 2), 2),
        ScoreBars("spatial", (1, 0, 0, 0, 0, 0, 0, 2, 0, 1), 4),
        ScoreBars('odd "name"', (0, 0, 0, 0, 0, 7, 0, 0, 0, 0), 1),
    ]
