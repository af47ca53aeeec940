"""A second judge is asked what the first was asked, and changes no verdict."""

import json

import pytest

from groundtrace.rewards.scorers.reasoning import score_reasoning
from groundtrace.rewards.second_judge import ROLE, labels_of, with_second
from groundtrace.schemas.records import Verdict


def test_it_is_asked_the_same_under_its_own_role(run, scripted, question) -> None:
    caller = scripted(judge=['{"supports": "yes"}'], second_judge=['{"supports": "no"}'])
    first = run(score_reasoning(question(), "two of them", "2", caller))
    second = run(score_reasoning(question(), "two of them", "2", caller, ROLE))
    (role, prompt, sampling), (role_2, prompt_2, sampling_2) = caller.asked
    assert (role, role_2) == ("judge", "second_judge")
    assert (prompt, sampling) == (prompt_2, sampling_2)
    assert (first.value, second.value) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("first", "second", "labels"),
    [
        (1.0, 0.0, ("yes", "no")),
        (0.0, 0.0, ("no", "no")),
        (None, 1.0, ("unscored", "yes")),
        (0.49, 0.5, ("no", "yes")),
    ],
)
def test_both_labels_stand_in_the_evidence(first, second, labels) -> None:
    verdict = with_second(Verdict("reasoning", first, "a", ('{"chosen": "b"}',)), Verdict("reasoning", second, "c"))
    assert (verdict.value, verdict.reason) == (first, "a")
    assert labels_of(verdict) == labels
    assert json.loads(verdict.evidence[-1])["reason"] == "c"


def test_with_one_judge_there_is_nothing_to_compare() -> None:
    assert labels_of(Verdict("reasoning", 1.0, "a", ('{"chosen": "b"}',))) is None
