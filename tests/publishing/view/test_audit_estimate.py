"""Precision and recall from judgements: cases by hand, laws, and the coverage of the intervals in simulated audits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.publishing.view.audit_estimate import KEPT, Judged, estimate, reasons_without_width

AUDITS = 1000


@pytest.mark.parametrize(
    ("strata", "precision", "recall"),
    [
        ([Judged(KEPT, 100, 9, 1), Judged("a", 50, 1, 9)], 0.9, 90 / 95),
        ([Judged(KEPT, 100, 10, 0)], 1.0, None),
        ([Judged(KEPT, 100, 0, 10), Judged("a", 50, 5, 5)], 0.0, 0.0),
        ([Judged(KEPT, 100, 9, 1), Judged("a", 50, 0, 0, unclear=4)], 0.9, None),
        ([Judged(KEPT, 100, 0, 0, open=5), Judged("a", 50, 1, 1)], None, None),
        ([Judged(KEPT, 10, 0, 10), Judged("a", 5, 0, 5)], 0.0, None),
        ([Judged("a", 5, 0, 5)], None, None),
        ([], None, None),
    ],
)
def test_the_estimates_weigh_each_stratum_by_its_rows(
    strata: list[Judged], precision: float | None, recall: float | None
) -> None:
    found = estimate(strata)
    assert (found.precision and found.precision.value) == precision
    assert (None if found.recall is None else found.recall.value) == (None if recall is None else pytest.approx(recall))


def test_what_was_judged_whole_is_exact() -> None:
    found = estimate([Judged(KEPT, 10, 8, 2), Judged("a", 4, 2, 2)])
    assert found.precision is not None and found.recall is not None
    assert (found.precision.low, found.precision.high) == (0.8, 0.8)
    assert (found.recall.low, found.recall.high) == pytest.approx((0.8, 0.8))


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=4))
def test_intervals_hold_the_estimate_and_are_shares(drawn: list[tuple[int, int, int]]) -> None:
    strata = [
        Judged(KEPT if not n else f"reason {n}", more + right + wrong, right, wrong)
        for n, (more, right, wrong) in enumerate(drawn)
    ]
    found = estimate(strata)
    for share in (found.precision, found.recall):
        assert share is None or 0 <= share.low <= share.value <= share.high <= 1
    assert found == estimate(strata)


def audited(generator: np.random.Generator) -> tuple[list[Judged], float, float]:
    """Returns the judgements of a run with planted wrong verdicts, and its true precision and recall."""
    shares = [generator.uniform(0.6, 0.99), *generator.uniform(0.01, 0.5, generator.integers(1, 4))]
    strata, right_rows = list[Judged](), list[int]()
    for n, share in enumerate(shares):
        rows = int(generator.integers(60, 3000))
        right = int(generator.binomial(rows, share))
        sample = int(min(rows, generator.integers(20, 101)))
        found = int(generator.hypergeometric(right, rows - right, sample))
        strata.append(Judged(f"reason {n}" if n else KEPT, rows, found, sample - found))
        right_rows.append(right)
    return strata, right_rows[0] / strata[0].rows, right_rows[0] / sum(right_rows)


@pytest.mark.slow
def test_in_95_percent_of_1000_simulated_audits_the_interval_holds_the_truth() -> None:
    generator, held = np.random.default_rng(0), {"precision": 0, "recall": 0}
    for _ in range(AUDITS):
        strata, precision, recall = audited(generator)
        found = estimate(strata)
        assert found.precision is not None and found.recall is not None
        held["precision"] += found.precision.low <= precision <= found.precision.high
        held["recall"] += found.recall.low <= recall <= found.recall.high
    assert all(0.93 * AUDITS <= each <= 0.97 * AUDITS for each in held.values()), held


@pytest.mark.parametrize(
    ("kept", "rejected", "reasons"),
    [
        ((100, 9, 1), (30, 1, 4), {}),
        ((10, 9, 1), (30, 1, 4), {"precision": "all kept rows (10) were judged: the figure does not depend"}),
        ((100, 8, 0), (2, 0, 2), {"recall": "all rejected rows (2) were judged and none is right: no right row"}),
        ((2, 0, 2), (9, 1, 1), {"precision": "all kept", "recall": "all kept rows (2) were judged and none is right."}),
        ((10, 8, 2), (4, 2, 2), {"precision": "all kept rows (10)", "recall": "all rows (14) were judged: the figure"}),
        ((5001, 5000, 0), (1, 0, 1), {"precision": "nearly all kept rows (5,001)", "recall": "all rejected rows (1)"}),
    ],
)
def test_an_interval_without_width_has_a_reason(
    kept: tuple[int, int, int], rejected: tuple[int, int, int], reasons: dict[str, str]
) -> None:
    strata = [Judged(KEPT, *kept), Judged("verify: low_score", *rejected)]
    found = reasons_without_width(strata, estimate(strata))
    assert found.keys() == reasons.keys()
    assert all(f"It has no width, because {said}" in found[name] for name, said in reasons.items())
