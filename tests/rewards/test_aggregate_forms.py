"""SAIL-RL Eq. 1 and its additive baseline, and iVGR Eq. 1 and 3, by hand."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.rewards.aggregate import (
    AdditiveSettings,
    CascadeSettings,
    StreamSettings,
    additive,
    cascading,
    grounded_stream,
    textual_stream,
)
from groundtrace.schemas.records import Verdict

CASCADE, ADDITIVE, STREAMS = CascadeSettings(), AdditiveSettings(), StreamSettings()
UNIT = st.floats(0, 1)


@pytest.mark.parametrize(
    ("judging", "thinking", "outcome", "format", "expected"),
    [
        (1, 1, 1, 1, 1.0),
        # 0.9 * (1 * 2/3 * 1) + 0.1
        (1, 2 / 3, 1, 1, 0.7),
        (1, 1, 1, 0, 0.9),
        # the lucky guess, the empty thinking, the wrong answer: the format alone is left
        (0, 1, 1, 1, 0.1),
        (1, 0, 1, 1, 0.1),
        (1, 1, 0, 1, 0.1),
        (0, 0, 0, 0, 0.0),
    ],
)
def test_sail_eq1_cascading_product(verdicts, judging, thinking, outcome, format, expected) -> None:
    scored = verdicts(judging=judging, thinking=thinking, outcome=outcome, format=format)
    assert cascading(scored, CASCADE) == pytest.approx(expected)


def test_sail_eq1_alpha(verdicts) -> None:
    scored = verdicts(judging=1, thinking=1 / 3, outcome=1, format=1)
    # 0.6 / 3 + 0.4
    assert cascading(scored, CascadeSettings(0.6)) == pytest.approx(0.6)
    assert cascading(scored, CascadeSettings(1.0)) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # nothing known is 0: the product may be anything
        ({"judging": 1.0, "thinking": None, "outcome": 1.0, "format": 1.0}, None),
        ({"judging": 1.0, "outcome": 1.0, "format": 1.0}, None),
        ({"judging": None, "thinking": 1.0, "outcome": 1.0, "format": 1.0}, None),
        ({"judging": 1.0, "thinking": 1.0, "outcome": None, "format": 1.0}, None),
        # a known 0 decides, whatever the rest would be
        ({"judging": 0.0, "thinking": None, "outcome": None, "format": 1.0}, 0.1),
        ({"judging": 1.0, "thinking": None, "outcome": 0.0, "format": 0.0}, 0.0),
        # an unscored format leaves the weighted sum
        ({"judging": 1.0, "thinking": 1.0, "outcome": 1.0, "format": None}, 1.0),
        ({"judging": 1.0, "thinking": 2 / 3, "outcome": 1.0}, 2 / 3),
        ({}, None),
    ],
)
def test_sail_eq1_unscored_factors_and_format(verdicts, values, expected) -> None:
    score = cascading(verdicts(**values), CASCADE)
    assert score is None if expected is None else score == pytest.approx(expected)


def failing(scored: tuple[Verdict, ...], name: str) -> tuple[Verdict, ...]:
    """The verdicts, of which one has failed."""
    return tuple(Verdict(v.name, None, "no reply", failed=True) if v.name == name else v for v in scored)


ALL_RIGHT = {"judging": 1.0, "thinking": 1.0, "outcome": 1.0, "format": 1.0}


@pytest.mark.parametrize("name", ALL_RIGHT)
def test_sail_eq1_what_has_failed_never_passes(verdicts, name) -> None:
    weighed = AdditiveSettings(format_weight=1.0)
    scored = failing(verdicts(**ALL_RIGHT), name)
    assert cascading(scored, CASCADE) is None
    assert additive(scored, weighed) is None


def test_sail_eq1_what_has_no_part_may_fail(verdicts) -> None:
    # a known 0 decides the product, and what has no weight decides nothing
    assert cascading(failing(verdicts(**ALL_RIGHT | {"outcome": 0.0}), "judging"), CASCADE) == pytest.approx(0.1)
    assert cascading(failing(verdicts(**ALL_RIGHT), "format"), CascadeSettings(1.0)) == 1.0
    assert additive(failing(verdicts(**ALL_RIGHT), "format"), ADDITIVE) == 1.0


@settings(max_examples=60)
@given(UNIT, UNIT, UNIT, UNIT, st.floats(0.01, 1))
def test_sail_eq1_never_above_the_additive_mean_of_the_same_terms(judging, thinking, outcome, format, alpha) -> None:
    named = {"judging": judging, "thinking": thinking, "outcome": outcome, "format": format}
    scored = tuple(Verdict(name, value, "") for name, value in named.items())
    product = cascading(scored, CascadeSettings(alpha))
    mean = additive(scored, AdditiveSettings(alpha / 3, alpha / 3, alpha / 3, 1 - alpha))
    assert product is not None and mean is not None
    assert 0 <= product <= mean + 1e-9 <= 1 + 2e-9


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"judging": 1.0, "thinking": 2 / 3, "outcome": 0.0, "format": 0.0}, 5 / 9),
        # the term that leaves takes its weight along
        ({"judging": 1.0, "thinking": None, "outcome": 0.0}, 0.5),
        ({"outcome": 1.0}, 1.0),
        ({"judging": 1.0, "thinking": 1.0, "outcome": None}, None),
        ({}, None),
    ],
)
def test_sail_section45_additive_baseline(verdicts, values, expected) -> None:
    score = additive(verdicts(**values), ADDITIVE)
    assert score is None if expected is None else score == pytest.approx(expected)


def test_sail_section45_additive_weights(verdicts) -> None:
    scored = verdicts(judging=0.0, thinking=1.0, outcome=0.5, format=1.0)
    # (1*0 + 2*1 + 4*0.5 + 1*1) / 8
    assert additive(scored, AdditiveSettings(1.0, 2.0, 4.0, 1.0)) == pytest.approx(5 / 8)


@pytest.mark.parametrize(
    ("stream", "third", "other"),
    [(grounded_stream, "boxes", "consistency"), (textual_stream, "consistency", "boxes")],
)
def test_ivgr_eq1_eq3_stream_totals(verdicts, stream, third, other) -> None:
    def total(**values):
        return stream(verdicts(**values), STREAMS)

    assert total(format=1.0, outcome=1.0, **{third: 0.7}) == pytest.approx(2.7)
    assert total(format=1.0, outcome=0.0, **{third: 0.0}) == pytest.approx(1.0)
    assert total(format=0.0, outcome=0.0, **{third: 0.0}) == 0.0
    # the other stream's term does not count
    assert total(format=1.0, outcome=1.0, **{third: 0.25, other: 1.0}) == pytest.approx(2.25)
    # (1 + 0) / 2 of what there is, on the scale of 3
    assert total(format=1.0, outcome=0.0, **{third: None}) == pytest.approx(1.5)
    assert total(format=1.0, outcome=0.0) == pytest.approx(1.5)
    assert total(outcome=1.0) == pytest.approx(3.0)
    assert total(format=1.0, outcome=None, **{third: 1.0}) is None
    assert total() is None


@pytest.mark.parametrize(("stream", "third"), [(grounded_stream, "boxes"), (textual_stream, "consistency")])
def test_ivgr_eq1_eq3_what_has_failed_never_passes(verdicts, stream, third) -> None:
    scored = verdicts(format=1.0, outcome=1.0, **{third: 1.0})
    assert [stream(failing(scored, name), STREAMS) for name in ("format", "outcome", third)] == [None] * 3
    without = StreamSettings(boxes_weight=0.0, consistency_weight=0.0)
    assert stream(failing(scored, third), without) == pytest.approx(2.0)


def test_ivgr_eq1_eq3_weights(verdicts) -> None:
    weights = StreamSettings(format_weight=0.5, outcome_weight=2.0, boxes_weight=4.0, consistency_weight=0.0)
    scored = verdicts(format=1.0, outcome=1.0, boxes=0.25, consistency=1.0)
    assert grounded_stream(scored, weights) == pytest.approx(0.5 + 2 + 1)
    assert textual_stream(scored, weights) == pytest.approx(0.5 + 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: CascadeSettings(0.0),
        lambda: CascadeSettings(1.1),
        lambda: CascadeSettings(math.nan),
        lambda: AdditiveSettings(judging_weight=-1.0),
        lambda: AdditiveSettings(outcome_weight=0.0),
        lambda: AdditiveSettings(format_weight=math.inf),
        lambda: StreamSettings(boxes_weight=math.nan),
        lambda: StreamSettings(outcome_weight=0.0),
    ],
)
def test_impossible_settings(make) -> None:
    with pytest.raises(ValueError, match=r"(alpha|\w+_weight) must be "):
        make()
