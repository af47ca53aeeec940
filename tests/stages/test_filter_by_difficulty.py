"""The band of pass rates: its edges, the papers' bands, and where each side leaves."""

from collections.abc import Callable
from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.schemas.records import Attempt, Call, Draft
from groundtrace.schemas.usage import Usage
from groundtrace.stages.filter_by_difficulty import DifficultySettings, FilterByDifficulty, filter_draft, side_of_band
from groundtrace.stages.plumbing.options import Options
from groundtrace.stages.plumbing.stage import Reject

from .matching import assert_that

EASY, HARD = "too_easy", "too_hard"
SAIL_RL = DifficultySettings()
IVGR = DifficultySettings(low=0.2, high=0.4, include_low=True, include_high=True)

EDGES = [
    (SAIL_RL, 4, [HARD, None, None, None, EASY]),
    (IVGR, 5, [HARD, None, None, EASY, EASY, EASY]),
    (DifficultySettings(0.25, 0.75), 4, [HARD, HARD, None, EASY, EASY]),
    (DifficultySettings(0.25, 0.75, include_low=True), 4, [HARD, None, None, EASY, EASY]),
    (DifficultySettings(0.25, 0.75, include_high=True), 4, [HARD, HARD, None, None, EASY]),
    (DifficultySettings(include_low=True), 4, [None, None, None, None, EASY]),
    (DifficultySettings(include_low=True, include_high=True), 4, [None] * 5),
    (DifficultySettings(0.5, 0.5, include_low=True, include_high=True), 4, [HARD, HARD, None, EASY, EASY]),
]


@pytest.mark.parametrize(("band", "k", "sides"), EDGES)
def test_the_side_of_each_count(band: DifficultySettings, k: int, sides: list[str | None]) -> None:
    assert [side_of_band(right / k, band) for right in range(k + 1)] == sides


@settings(max_examples=80)
@given(st.tuples(*[st.floats(0, 1)] * 3), st.booleans(), st.booleans())
def test_sides_lie_in_order(numbers: tuple[float, float, float], low: bool, high: bool) -> None:
    floor, ceiling = sorted(numbers[:2])
    band = DifficultySettings(floor, ceiling, low, high)
    side = side_of_band(numbers[2], band)
    assert side != HARD or numbers[2] <= floor
    assert side != EASY or numbers[2] >= ceiling
    assert side is not None or floor <= numbers[2] <= ceiling


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"low": 0.5, "high": 0.4}, r"low must be at most high = 0\.4, got 0\.5"),
        ({"low": -0.1}, "low must be at least 0, got -0.1"),
        ({"high": 1.1}, "high must be at most 1, got 1.1"),
        ({"high": float("nan")}, "high must be a finite number, got nan"),
        ({"route": ("too_easy", "easy")}, "route\\[1\\] must be 'too_easy' or 'too_hard', got 'easy'"),
    ],
)
def test_bands_that_make_no_sense(wrong: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        DifficultySettings(**wrong)


def drafts(make_draft: Callable[..., Draft], k: int) -> list[Draft]:
    """One draft for each count of right answers of ``k``; each cost a quarter dollar and has an unscored attempt."""
    call = Call("policy", "attempt.v1", "s", "m", ("key",), Usage(calls=1, worth_usd=0.25))
    found = []
    for right in range(k + 1):
        scored = [Attempt("t", "5", number < right, "exact", "") for number in range(k)]
        attempts = (*scored, Attempt("t", None, None, "judge", "unsure"))
        found.append(Draft(make_draft(f"{right} right").question, attempts=attempts, calls=(call,)))
    return found


def test_the_stage_rejects_with_rate_and_cost(
    check_stage: Callable[..., None], make_draft: Callable[..., Draft]
) -> None:
    check_stage(
        FilterByDifficulty(IVGR),
        drafts(make_draft, 5),
        kept=["1 right", "2 right"],
        rejected=[
            (f"{right} right", "difficulty", side, f"the pass rate is {right / 5:.2f} over 5 attempts, {bound}", 0.25)
            for right, side, bound in (
                (0, HARD, "below difficulty.low = 0.2; 5 of 5 attempts answered '5'"),
                (3, EASY, "above difficulty.high = 0.4"),
                (4, EASY, "above difficulty.high = 0.4"),
                (5, EASY, "above difficulty.high = 0.4"),
            )
        ],
        show_rejected=lambda found: (found.id, found.stage, found.reason, found.detail, found.cost_usd),
    )


@pytest.mark.parametrize(
    ("right", "bound"),
    [
        (
            0,
            "0.00 over 4 attempts, equal to difficulty.low = 0.0, with difficulty.include_low = false"
            "; 4 of 4 attempts answered '5'",
        ),
        (3, "0.75 over 4 attempts, above difficulty.high = 0.7"),
    ],
)
def test_the_bound_that_rejected_is_named(right: int, bound: str, make_draft: Callable[..., Draft]) -> None:
    with pytest.raises(Reject) as rejected:
        filter_draft(drafts(make_draft, 4)[right], DifficultySettings(high=0.7))
    assert rejected.value.detail == f"the pass rate is {bound}"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["1", "1", "1", "1"], "; 4 of 4 attempts answered '1'"),
        (["2", "1", "1", "3"], "; 2 of 4 attempts answered '1'"),
        (["2", "1", "1", "2"], "; 2 of 4 attempts answered '2'"),  # of two that are as frequent, the first
        (["A  dog", "cat", "a Dog", "cow"], "; 2 of 4 attempts answered 'A  dog'"),
        (["1", "2", "3", "4"], ""),
        (["1", None, None, None], ""),
        ([None] * 4, ""),
        (["x" * 200] * 4, f"; 4 of 4 attempts answered '{'x' * 76}..."),
    ],
)
def test_the_answer_on_which_the_attempts_of_a_hard_question_agree(
    wrong: list[str | None], said: str, make_draft: Callable[..., Draft]
) -> None:
    attempts = tuple(Attempt("t", answer, False, "exact", "") for answer in wrong)
    unscored = Attempt("t", "1", None, "judge", "unsure")
    with pytest.raises(Reject) as rejected:
        filter_draft(replace(make_draft("q", answer_type="text"), attempts=(unscored, *attempts)), SAIL_RL)
    assert rejected.value.detail.removeprefix("the pass rate is 0.00 over 4 attempts, equal to ") == (
        f"difficulty.low = 0.0, with difficulty.include_low = false{said}"
    )


@pytest.mark.parametrize(
    ("question", "wrong", "named"),
    [
        ({}, ["cannot read"] * 3 + ["4"], ""),
        ({}, ["cannot read", "cannot read", "4", "4"], "; 2 of 4 attempts answered '4'"),
        ({}, ["many"] * 4, ""),
        ({"answer_type": "bool", "answer": "yes"}, ["17"] * 2 + ["no"] * 2, "; 2 of 4 attempts answered 'no'"),
        ({"answer_type": "text", "answer": "red"}, ["I cannot tell"] * 4, ""),
        ({"answer_type": "boxes"}, ["red"] * 4, ""),
        ({"answer_type": "mcq", "answer": "cat", "choices": ("cat", "unknown")}, ["cow"] * 4, ""),
        (
            {"answer_type": "mcq", "answer": "cat", "choices": ("cat", "unknown")},
            ["unknown"] * 4,
            "; 4 of 4 attempts answered 'unknown'",
        ),
    ],
)
def test_an_answer_that_no_gold_answer_can_be_is_not_named(
    question: dict, wrong: list[str], named: str, make_draft: Callable[..., Draft]
) -> None:
    attempts = tuple(Attempt("t", answer, False, "exact", "") for answer in wrong)
    with pytest.raises(Reject) as rejected:
        filter_draft(replace(make_draft("q", **question), attempts=attempts), SAIL_RL)
    assert rejected.value.detail.partition("include_low = false")[2] == named


def test_right_attempts_are_not_named(make_draft: Callable[..., Draft]) -> None:
    with pytest.raises(Reject) as rejected:
        filter_draft(drafts(make_draft, 4)[2], DifficultySettings(low=0.7))
    assert rejected.value.detail.endswith("below difficulty.low = 0.7; 2 of 4 attempts answered '5'")


@pytest.mark.parametrize(
    ("route", "easy", "hard", "rejected"),
    [
        ((), [], [], ["0 right", "2 right"]),
        (("too_easy",), ["2 right"], [], ["0 right"]),
        (("too_easy", "too_hard"), ["2 right"], ["0 right"], []),
    ],
)
def test_routed_sides(
    route: tuple[str, ...], easy: list[str], hard: list[str], rejected: list[str], make_draft: Callable[..., Draft]
) -> None:
    with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        created = pipeline | beam.Create(drafts(make_draft, 2))
        outputs = created | FilterByDifficulty(DifficultySettings(route=route))
        expected = {"kept": ["1 right"], "too_easy": easy, "too_hard": hard, "rejected": rejected}
        for name, ids in expected.items():
            found = outputs[name] | f"Ids of {name}" >> beam.Map(lambda element: element.id)
            assert_that(found, equal_to(ids), label=name)


def test_ungraded_attempts_are_a_defect(check_stage: Callable[..., None], make_draft: Callable[..., Draft]) -> None:
    with pytest.raises(Exception, match="q1: FilterByDifficulty needs graded attempts"):
        check_stage(FilterByDifficulty(SAIL_RL), [make_draft("q1")], [], [])
