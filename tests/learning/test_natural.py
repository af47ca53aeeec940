"""Traces sampled from a half-trained model: what each arm takes of them."""

import pytest

from benchmarks.learning.natural import ALL, ARMS, EQUAL, RIGHT_ONLY, VERIFIED, SampledTrace, of_arm
from benchmarks.learning.pool import VerifiedText

TRACES = [
    SampledTrace(f"q{n // 8}", VerifiedText(f"text {n}", n % 2 == 0, n % 4 == 0, "" if n % 4 == 0 else "low"))
    for n in range(80)
]


@pytest.mark.parametrize(("arm", "rows"), [(VERIFIED, 20), (RIGHT_ONLY, 40), (ALL, 80)])
def test_an_arm_has_all_that_its_filter_leaves_or_as_many_rows_as_the_others(arm: str, rows: int) -> None:
    assert len(of_arm(TRACES, arm, 0)) == rows
    equal = of_arm(TRACES, arm + EQUAL, 0)
    assert len(equal) == 20 and set(equal) <= set(of_arm(TRACES, arm, 0))
    assert equal == of_arm(TRACES, arm + EQUAL, 0) and equal == sorted(equal, key=TRACES.index)
    assert arm == VERIFIED or equal != of_arm(TRACES, arm + EQUAL, 1)


def test_the_arms_are_three_filters_twice() -> None:
    assert len(set(ARMS)) == 6 and {arm.removesuffix(EQUAL) for arm in ARMS} == {VERIFIED, RIGHT_ONLY, ALL}
