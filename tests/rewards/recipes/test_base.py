"""What recipes share: verdicts where a scorer's needs are met, and a memory that can be written down."""

import json
from dataclasses import replace

import pytest

from groundtrace.rewards.case import Context
from groundtrace.rewards.complexity import COMPLEXITY
from groundtrace.rewards.curriculum import CurriculumState
from groundtrace.rewards.locating import ObjectMasks, ServedRoles
from groundtrace.rewards.recipes.base import Earned, Memory, Reference, verdicts_of
from groundtrace.rewards.registry import scorers_named
from groundtrace.schemas.records import Verdict

FULL = Memory(CurriculumState(3, (0.5, 1.0), 2), {"q": Reference("a car", 0.5)})


@pytest.mark.parametrize("memory", [Memory(), FULL])
def test_a_memory_is_written_down_and_read_back(memory) -> None:
    assert Memory.of_plain(memory.as_plain()) == memory
    assert Memory.of_plain(json.loads(json.dumps(memory.as_plain()))) == memory


def test_nothing_written_is_a_fresh_memory() -> None:
    assert Memory.of_plain({}) == Memory()


def test_what_is_earned() -> None:
    earned = Earned(0.5, (Verdict("format", None, ""), Verdict("outcome", 1.0, "")))
    assert (earned.outcome, earned.value("format"), earned.value("boxes")) == (1.0, None, None)


def test_verdicts_stand_in_the_order_asked_for_and_know_the_outcome(run, case, scripted) -> None:
    direct = case("<answer>2</answer>", context=Context().with_added(COMPLEXITY, "simple"))
    scorers = scorers_named("judging", "outcome", "boxes", "thinking")
    found = run(verdicts_of(scorers, direct))
    assert [(verdict.name, verdict.value) for verdict in found[:3]] == [
        ("judging", None),
        ("outcome", 1.0),
        ("boxes", None),
    ]
    assert found[0].reason == found[3].reason == "no judge is configured"
    assert found[2].reason == "no gold boxes"
    # a right direct answer to a simple question has thinking 1: the scorer knows both
    served = replace(direct, masks=ObjectMasks(direct.question, scripted(), ServedRoles(frozenset({"judge"}))))
    assert [verdict.value for verdict in run(verdicts_of(scorers, served))] == [0.0, 1.0, None, 1.0]
