"""Drawing by hash: the threshold, the cut at the target, and groups that no draw can change."""

from collections.abc import Callable
from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import equal_to
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.records import Call, Draft
from groundtrace.schemas.usage import Usage
from groundtrace.stages.draw_questions import CutToTarget, DrawQuestions, is_drawn, limit_of
from groundtrace.stages.plumbing.options import Options

from .matching import assert_that

IDS = [f"q{number}" for number in range(40)]
BY_HASH = sorted(IDS, key=order_key)


@pytest.mark.parametrize("below", [None, ""])
def test_without_a_threshold_all_are_drawn(
    below: str | None, check_stage: Callable[..., None], make_draft: Callable[..., Draft]
) -> None:
    check_stage(DrawQuestions(below), [make_draft(i) for i in IDS], kept=IDS, rejected=[])


@pytest.mark.parametrize("drawn", [0, 1, 17, 39])
def test_a_threshold_draws_the_lowest_hashes(
    drawn: int, check_stage: Callable[..., None], make_draft: Callable[..., Draft]
) -> None:
    below = order_key(BY_HASH[drawn])
    rejected = [(i, "draw", "not_drawn") for i in BY_HASH[drawn:]]
    check_stage(DrawQuestions(below), [make_draft(i) for i in IDS], kept=BY_HASH[:drawn], rejected=rejected)


@given(st.text(max_size=8), st.integers(1, 2**64 - 1), st.integers(1, 2**64 - 1))
def test_a_larger_threshold_draws_all_that_a_smaller_one_does(question_id: str, a: int, b: int) -> None:
    small, large = (f"{value:016x}" for value in sorted((a, b)))
    assert is_drawn(question_id, large) or not is_drawn(question_id, small)


@pytest.mark.parametrize(
    ("keys", "target", "last", "limits"),
    [
        (["c", "a", "b"], 2, False, ("b", "b")),
        (["c", "a", "b"], 3, True, ("c", "c")),
        (["a"], 2, True, (None, None)),
        (["a"], 2, False, (None, "")),
        ([], 1, True, (None, None)),
    ],
)
def test_the_limits(keys: list[str], target: int, last: bool, limits: tuple[str | None, str | None]) -> None:
    assert limit_of(keys, target, last) == limits


def cut(stage: CutToTarget, sft: list[Draft], rl: list[Draft], expected: dict[str, list]) -> None:
    with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
        sides = {name: pipeline | name >> beam.Create(drafts) for name, drafts in (("sft", sft), ("rl", rl))}
        for side in sides.values():
            side.element_type = Draft
        ends = sides | stage
        for name in ("sft", "rl"):
            assert_that(ends[name] | f"Ids {name}" >> beam.Map(lambda d: d.id), equal_to(expected[name]), label=name)
        shown = ends["rejected"] | beam.Map(lambda found: (found.id, found.stage, found.reason, found.cost_usd))
        assert_that(shown, equal_to(expected["rejected"]), label="rejected")


CUTS = [
    # target, last, SFT rows kept, RL rows kept; even places of BY_HASH are SFT, odd ones RL
    (None, True, 20, 20),
    (1, True, 1, 0),
    (7, True, 7, 6),
    (7, False, 7, 6),
    (20, True, 20, 19),
    (21, True, 20, 20),
    (21, False, 20, 0),
]


@pytest.mark.parametrize(("target", "last", "sft", "rl"), CUTS)
def test_the_cut(target: int | None, last: bool, sft: int, rl: int, make_draft: Callable[..., Draft]) -> None:
    call = Call("policy", "attempt.v1", "s", "m", ("key",), Usage(calls=1, worth_usd=0.25))
    drafts = [replace(make_draft(i), calls=(call,)) for i in BY_HASH]
    rejected = [(d.id, "cut", "over_quota", 0.25) for d in drafts[::2][sft:]]
    rejected += [(d.id, "cut", "not_drawn", 0.25) for d in drafts[1::2][rl:]]
    ends = {"sft": BY_HASH[::2][:sft], "rl": BY_HASH[1::2][:rl], "rejected": rejected}
    cut(CutToTarget(target, last), drafts[::2], drafts[1::2], ends)


def test_a_cut_of_nothing() -> None:
    cut(CutToTarget(3), [], [], {"sft": [], "rl": [], "rejected": []})


def test_a_target_below_one() -> None:
    with pytest.raises(ValueError, match="target_sft must be at least 1 row, got 0"):
        CutToTarget(0)
