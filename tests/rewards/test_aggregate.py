"""Argos Eq. 9 by hand, with what leaves it and what it does not hold for."""

import dataclasses
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.rewards.aggregate import GateSettings, gated
from groundtrace.schemas.records import Verdict

EQUAL = GateSettings()
NAMES = ("outcome", "spatial", "reasoning")


def weighing(**weights: float) -> dict[str, float]:
    """The default weights with these in place of some."""
    return {**EQUAL.weights, **weights}


@pytest.mark.parametrize(
    ("spatial", "reasoning", "expected"),
    [(1.0, 1.0, 1.0), (0.0, 0.0, 1 / 3), (0.5, 1.0, 2.5 / 3), (0.75, 0.0, 1.75 / 3), (0.0, 1.0, 2 / 3)],
)
def test_argos_eq9_gated_equal_weights(verdicts, spatial, reasoning, expected) -> None:
    scored = verdicts(outcome=1.0, spatial=spatial, reasoning=reasoning)
    assert gated(scored, EQUAL) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("weights", "values", "expected"),
    [
        # (2*1 + 1*0.5 + 1*0) / 4
        ((2.0, 1.0, 1.0), (1.0, 0.5, 0.0), 0.625),
        # (0.5*1 + 0.3*0.4 + 0.2*1) / 1
        ((0.5, 0.3, 0.2), (1.0, 0.4, 1.0), 0.82),
        # a weight of 0 takes its term away: (1*1 + 3*0.2) / 4
        ((1.0, 3.0, 0.0), (1.0, 0.2, 0.0), 0.4),
    ],
)
def test_argos_eq9_gated_weights(verdicts, weights, values, expected) -> None:
    scored = verdicts(outcome=values[0], spatial=values[1], reasoning=values[2])
    assert gated(scored, GateSettings(dict(zip(NAMES, weights, strict=True)))) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("tau", "outcome", "expected"),
    [
        (1.0, 0.0, 0.0),
        (1.0, 0.99, 0.99),
        (0.5, 0.49, 0.49),
        (0.5, 0.5, (0.5 + 1 + 1) / 3),
        (0.5, 0.75, (0.75 + 1 + 1) / 3),
    ],
)
def test_argos_eq9_below_the_gate_the_outcome_stands_alone(verdicts, tau, outcome, expected) -> None:
    scored = verdicts(outcome=outcome, spatial=1.0, reasoning=1.0)
    assert gated(scored, GateSettings(tau=tau)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("spatial", "reasoning", "expected"),
    [
        (None, None, 1.0),
        # (2*1 + 3*0.5) / (2 + 3); reasoning's weight 5 is gone from below the line too
        (0.5, None, 0.7),
        # (2*1 + 5*0) / (2 + 5)
        (None, 0.0, 2 / 7),
    ],
)
def test_argos_eq9_terms_that_do_not_apply_leave_numerator_and_denominator(
    verdicts, spatial, reasoning, expected
) -> None:
    scored = verdicts(outcome=1.0, spatial=spatial, reasoning=reasoning)
    assert gated(scored, GateSettings(dict(zip(NAMES, (2.0, 3.0, 5.0), strict=True)))) == pytest.approx(expected)


def test_argos_eq9_absent_terms_are_as_those_that_do_not_apply(verdicts) -> None:
    assert gated(verdicts(outcome=1.0, spatial=0.0), EQUAL) == pytest.approx(0.5)
    assert gated(verdicts(outcome=1.0), EQUAL) == 1.0


def test_argos_eq9_without_an_outcome_there_is_no_score(verdicts) -> None:
    assert gated(verdicts(outcome=None, spatial=1.0, reasoning=1.0), EQUAL) is None
    assert gated(verdicts(spatial=1.0), EQUAL) is None
    assert gated((), EQUAL) is None


def test_argos_eq9_other_verdicts_do_not_count(verdicts) -> None:
    assert gated(verdicts(outcome=1.0, spatial=0.5, colours=0.0), EQUAL) == pytest.approx(0.75)
    assert gated(verdicts(outcome=1.0, spatial=0.5, format=1.0), EQUAL) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("gates", "values", "expected"),
    [
        (("format",), {"format": 0.0}, 0.0),
        (("format",), {"format": 0.5}, 1.0),
        (("format",), {"format": None}, 1.0),
        (("format",), {}, 1.0),
        (("format", "tone"), {"format": 1.0, "tone": 0.0}, 0.0),
        (("tone",), {"format": 0.0, "tone": 1.0}, 1.0),
        ((), {"format": 0.0}, 1.0),
    ],
)
def test_a_gate_at_0_makes_the_score_0(verdicts, gates, values, expected) -> None:
    scored = verdicts(outcome=1.0, spatial=1.0, reasoning=1.0, **values)
    assert gated(scored, EQUAL, gates) == expected


def test_the_form_is_a_gate_unless_another_is_named(verdicts) -> None:
    assert gated(verdicts(outcome=1.0, spatial=1.0, format=0.0), EQUAL) == 0.0


FAILED = [Verdict(name, None, "no reply", failed=True) for name in ("spatial", "temporal", "reasoning", "counting")]


@pytest.mark.parametrize("failed", FAILED, ids=lambda verdict: verdict.name)
def test_with_a_verdict_that_failed_there_is_no_score(verdicts, failed) -> None:
    """Whether it has a weight or not."""
    assert gated((*verdicts(outcome=1.0, spatial=1.0, reasoning=1.0), failed), EQUAL) is None


@pytest.mark.parametrize("failed", FAILED, ids=lambda verdict: verdict.name)
def test_what_is_wrong_or_malformed_is_so_whatever_failed(verdicts, failed) -> None:
    assert gated((*verdicts(outcome=0.0), failed), EQUAL) == 0.0
    assert gated((*verdicts(outcome=1.0, format=0.0), failed), EQUAL) == 0.0


def test_an_outcome_that_failed_has_no_score(verdicts) -> None:
    assert gated((Verdict("outcome", None, "no judge", failed=True), *verdicts(spatial=1.0)), EQUAL) is None


UNIT = st.floats(0, 1)
STATES = st.tuples(UNIT | st.none(), st.booleans())


@settings(max_examples=150)
@given(UNIT, st.dictionaries(st.sampled_from([*NAMES[1:], "temporal", "counting", "format", "own"]), STATES))
def test_what_failed_never_passes(outcome, states) -> None:
    judged = tuple(
        Verdict(name, value, "", failed=value is None and failed) for name, (value, failed) in states.items()
    )
    score = gated((Verdict("outcome", outcome, ""), *judged), EQUAL)
    if any(verdict.failed for verdict in judged):
        assert score is None or score < EQUAL.tau
        assert score in (None, 0.0) or score == outcome
    else:
        assert score is not None


@settings(max_examples=150)
@given(UNIT, UNIT | st.none(), UNIT | st.none(), st.tuples(*[st.floats(0.01, 10)] * 3), st.floats(0.01, 1))
def test_argos_eq9_stays_between_its_terms(outcome, spatial, reasoning, weights, tau) -> None:
    named = {"outcome": outcome, "spatial": spatial, "reasoning": reasoning}
    gate = GateSettings(dict(zip(NAMES, weights, strict=True)), tau)
    score = gated(tuple(Verdict(name, value, "") for name, value in named.items()), gate)
    values = [value for value in named.values() if value is not None]
    assert score is not None
    assert min(values) - 1e-9 <= score <= max(values) + 1e-9
    assert outcome >= tau or score == outcome


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"weights": weighing(outcome=0.0)}, "weights.outcome must be greater than 0, got 0.0"),
        ({"weights": weighing(outcome=-1.0)}, "weights.outcome must be at least 0, got -1.0"),
        ({"weights": weighing(spatial=-0.1)}, "weights.spatial must be at least 0, got -0.1"),
        ({"weights": weighing(reasoning=-0.1)}, "weights.reasoning must be at least 0, got -0.1"),
        ({"weights": {"spatial": 1.0}}, "weights.outcome must be greater than 0, got None"),
        ({"tau": 0.0}, "tau"),
        ({"tau": 1.1}, "tau"),
        ({"tau": float("nan")}, "tau"),
        ({"weights": weighing(spatial=float("nan"))}, "weights.spatial must be .*, got nan"),
    ],
)
def test_impossible_settings(fields, said) -> None:
    with pytest.raises(ValueError, match=said):
        GateSettings(**fields)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        # the weight of the grounding: (1*1 + 3*0.2) / 4
        (weighing(spatial=3.0), 0.4),
        # its own: (1*1 + 2*0.2) / 3
        (weighing(spatial=3.0, temporal=2.0), 1.4 / 3),
        (weighing(temporal=0.0), 1.0),
        ({"outcome": 1.0}, 1.0),
    ],
)
def test_argos_eq9_the_grounding_of_a_clip_is_temporal(verdicts, weights, expected) -> None:
    assert gated(verdicts(outcome=1.0, temporal=0.2), GateSettings(weights)) == pytest.approx(expected)


def test_a_scorer_of_ones_own_counts_by_its_weight(verdicts) -> None:
    scored = verdicts(outcome=1.0, spatial=0.5, colours=0.0)
    # (1*1 + 1*0.5 + 2*0) / 4
    assert gated(scored, GateSettings(weighing(colours=2.0))) == pytest.approx(0.375)


def test_the_settings_are_hashable_and_pickle() -> None:
    assert hash(GateSettings()) == hash(GateSettings())
    assert pickle.loads(pickle.dumps(GateSettings(weighing(spatial=2.0)))) == GateSettings(weighing(spatial=2.0))
    assert GateSettings() != GateSettings(weighing(spatial=2.0))


def test_former_names_have_successors() -> None:
    fields = {field.name for field in dataclasses.fields(GateSettings)}
    assert not fields & set(GateSettings.RENAMED)
    assert {name.partition(".")[0] for name in GateSettings.RENAMED.values()} <= fields
