"""Redundancy: the measure by hand, and monotone in thought, answer and threshold."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.traces import read_trace
from groundtrace.schemas.records import Draft
from groundtrace.stages.filter_by_redundancy import FilterByRedundancy, RedundancySettings, overlap


@pytest.mark.parametrize(
    ("thought", "answer", "share"),
    [
        ("The answer is 5.", "5", 1.0),
        ("The answer is five.", "5", 1.0),
        ("So the final answer is obviously 5, 5, 5.", "5", 1.0),
        ("Two circles and three squares make 5.", "5", 1 / 6),
        ("It is a red bus.", "a red bus", 1.0),
        ("It is a red bus on the road.", "red bus", 2 / 3),
        ("", "5", 1.0),
        ("左边两个，右边三个", "5", 0.0),
        ("答案是五", "五", 1 / 4),
    ],
)
def test_the_measure(thought: str, answer: str, share: float) -> None:
    assert overlap(thought, answer) == pytest.approx(share)


WORDS = st.lists(st.sampled_from(["red", "blue", "bus", "car", "tree", "seven", "7", "12", "the", "is"]), max_size=12)


@given(WORDS, WORDS, st.sampled_from(["red", "bus", "7", "the"]))
def test_one_more_word_of_the_answer_never_lowers_it(thought: list[str], answer: list[str], word: str) -> None:
    assert overlap(" ".join(thought), " ".join([*answer, word])) >= overlap(" ".join(thought), " ".join(answer))


@given(WORDS, WORDS)
def test_the_thought_moves_it_towards_what_it_says(thought: list[str], answer: list[str]) -> None:
    before = overlap(" ".join(thought), " ".join(answer))
    for word in answer:
        assert overlap(" ".join([*thought, word]), " ".join(answer)) >= before
    assert overlap(" ".join([*thought, "elsewhere"]), " ".join(answer)) <= before
    assert overlap(" ".join([*thought, *thought]), " ".join(answer)) == before


@given(WORDS, WORDS, st.floats(0, 1), st.floats(0, 1))
def test_a_higher_threshold_keeps_all_that_a_lower_one_keeps(
    thought: list[str], answer: list[str], one: float, other: float
) -> None:
    share = overlap(" ".join(thought), " ".join(answer))
    assert not (share <= min(one, other)) or share <= max(one, other)


def test_the_stage(make_draft: Callable[..., Draft], check_stage: Callable[..., None]) -> None:
    def traced(name: str, thought: str) -> Draft:
        trace = read_trace(0, f"<judge>x</judge>\n<think>\n{thought}\n</think>\n\\boxed{{3}}")
        return replace(make_draft(name), traces=(trace,), best=0)

    drafts = [traced("good", "Two on the left and one on the right."), traced("bad", "It is 3."), traced("empty", "")]
    rejected = [("bad", "redundancy", "redundant")]
    check_stage(FilterByRedundancy(RedundancySettings()), drafts, kept=["good", "empty"], rejected=rejected)
    check_stage(FilterByRedundancy(RedundancySettings(1.0)), drafts, kept=["good", "bad", "empty"], rejected=[])
