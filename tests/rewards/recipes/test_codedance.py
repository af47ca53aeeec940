"""The reward of CodeDance by hand (Eq. 1, 2, 5): a group of trajectories, and the advantages of their turns."""

from dataclasses import replace

import pytest

from groundtrace.grading.responses.turns import Turn
from groundtrace.rewards.locating import ServedRoles
from groundtrace.rewards.recipes.base import Memory
from groundtrace.rewards.recipes.codedance import CodeDance, form_verdict
from groundtrace.rewards.scorers.tool_calls import ToolCallSettings
from groundtrace.rewards.trajectory import Execution, Trajectory

RECIPE = CodeDance(ToolCallSettings())
WELL, FAILED, PRETENDED = Execution(True), Execution(False), Execution(True, "shows nothing")
RIGHT, WRONG = "<think>so</think><answer>2</answer>", "<think>so</think><answer>3</answer>"


@pytest.fixture
def rewards(run, case):
    """The rewards of a group of (text, trajectory)."""

    def build(*group) -> list[float | None]:
        cases = [replace(case(text), trajectory=trajectory) for text, trajectory in group]
        return [earned.reward for earned in run(RECIPE.score(cases, Memory()))]

    return build


def test_codedance_eq1_a_group_half_of_which_is_right(rewards) -> None:
    """d(0.5) = 0.3; w_a * outcome - w_f * [bad form] + c * n_ok / n * d; general: w_a 1, w_f .2, c 1.5 for right and
    .5 for wrong ones; math: 1.2, .4, 2 and 1.
    """
    group = [
        (RIGHT, Trajectory((WELL, None, FAILED, WELL, WELL))),
        (WRONG, Trajectory((WELL, WELL))),
        (RIGHT, Trajectory((None,))),
        (WRONG, Trajectory((FAILED,))),
        (RIGHT, Trajectory((WELL,), "math")),
        ("<think>3<answer>3</answer>", Trajectory((None, None))),
        ("<think>3<answer>3</answer>", Trajectory((None, None), "math")),
        (RIGHT, Trajectory((PRETENDED, WELL))),
    ]
    expected = [1 + 1.5 * 0.75 * 0.3, 0.5 * 0.3, 1, 0, 1.2 + 2 * 0.3, -0.2, -0.4, 1 + 1.5 * 0.5 * 0.3]
    assert rewards(*group) == pytest.approx(expected)


def test_codedance_eq5_where_all_are_right_calls_cost(rewards) -> None:
    """d(1) = (1 + tanh(-2)) / 2 - 0.2 = -0.182014."""
    found = rewards((RIGHT, Trajectory((WELL,))), (RIGHT, Trajectory((None,))))
    assert found == pytest.approx([1 - 1.5 * 0.182014, 1], abs=1e-5)


def test_codedance_eq5_calls_that_fail_or_pretend_cost_as_much_where_all_are_right(rewards) -> None:
    turns = ((WELL,), (FAILED,), (FAILED, WELL), (PRETENDED,))
    found = rewards(*((RIGHT, Trajectory(each)) for each in turns))
    assert found == pytest.approx([1 - 1.5 * 0.182014] * 4, abs=1e-5)


def test_calls_earn_by_what_they_looked_at(rewards) -> None:
    first, last = Execution(True, looked_at=frozenset({0})), Execution(True, looked_at=frozenset({0, 2}))
    elsewhere = Execution(True, "shows something else each time", frozenset({1, 2, 3}))
    group = [
        (RIGHT, Trajectory((first, last), groups=4)),
        (RIGHT, Trajectory((elsewhere, first), groups=4)),
        (WRONG, Trajectory((None,), groups=4)),
        (WRONG, Trajectory((None,), groups=4)),
    ]
    assert rewards(*group) == pytest.approx([1 + 1.5 * 0.3 * 0.5, 1 + 1.5 * 0.3 * 0.5 * 0.25, 0, 0])


def test_an_overview_costs_nothing_if_it_is_first_and_a_later_call_looks(rewards) -> None:
    """1.5 * 0.3 * n_ok / n, where n is without the first overview; a further one, or one alone, is a failed call."""
    overview = Execution(True, "shows the image as it is", is_overview=True)
    calls = [
        (overview, WELL),
        (WELL,),
        (overview, overview, WELL),
        (WELL, overview),
        (overview, FAILED, WELL),
        (overview,),
    ]
    group = [(RIGHT, Trajectory(each)) for each in calls] + [(WRONG, Trajectory((None,)))] * len(calls)
    shares = [1, 1, 1 / 2, 1 / 2, 1 / 2, 0]
    assert rewards(*group)[: len(calls)] == pytest.approx([1 + 1.5 * 0.3 * share for share in shares])


def test_an_overview_before_a_look_costs_as_much_as_other_calls_where_all_are_right(rewards) -> None:
    overview = Execution(True, "shows the image as it is", is_overview=True)
    found = rewards((RIGHT, Trajectory((overview, WELL))), (RIGHT, Trajectory((WELL,))))
    assert found == pytest.approx([1 - 1.5 * 0.182014] * 2, abs=1e-5)


def test_a_pretence_earns_what_no_call_earns(rewards) -> None:
    found = rewards((RIGHT, Trajectory((PRETENDED, None))), (RIGHT, Trajectory((None,))), (WRONG, Trajectory((None,))))
    assert found[0] == found[1] == 1


def test_what_cannot_be_told_is_unscored(rewards) -> None:
    assert rewards((RIGHT, None), (RIGHT, Trajectory((None,)))) == [None, 1.0]


def test_what_a_judge_failed_on_is_unscored(run, case, scripted) -> None:
    free = {"answer_type": "text", "gold": "since it leans on the one beside it"}
    asked = case(
        "<think>so</think><answer>it fell</answer>", scripted(judge=["?"]), ServedRoles(frozenset({"judge"})), **free
    )
    (earned,) = run(RECIPE.score([replace(asked, trajectory=Trajectory((WELL,)))], Memory()))
    assert earned.reward is None


def test_codedance_eq2_advantages_of_turns_by_hand() -> None:
    """Returns of the calls: the first -0.52, -0.1 and -0.5, the second 0; mean -0.28, squares of the deviations 0.0576,
    0.0324, 0.0484 and 0.0784. Final turns, and a trajectory without calls, have A_seq alone.
    """
    trajectories = [Trajectory((FAILED, WELL, FAILED, None)), Trajectory((WELL, None)), Trajectory((None,))]
    found = RECIPE.advantages([1.0, -1.0, 0.5], trajectories)
    deviation = (0.2168 / 4) ** 0.5
    first = [1 + 0.2 * each / deviation for each in (-0.24, 0.18, -0.22)]
    second = [-1 + 0.2 * 0.28 / deviation]
    assert [list(turns) for turns in found] == [pytest.approx([*first, 1.0]), pytest.approx([*second, -1.0]), [0.5]]


FORMS = {
    "directly": (("<answer>2</answer>",), True),
    "after a thought": (("<think>a</think>\n<answer>2</answer>",), True),
    "after a call": (("<think>a</think>", "<answer>2</answer>"), True),
    "without tags": (("2",), False),
    "with two answers": (("<answer>2</answer><answer>2</answer>",), False),
    "with an answer before the end": (("<answer>2</answer>", "<answer>2</answer>"), False),
    "with a thought that is not closed": (("<think>a", "<answer>2</answer>"), False),
}


@pytest.mark.parametrize(("texts", "is_good"), FORMS.values(), ids=FORMS)
def test_the_form_is_that_of_trajectories(case, texts: tuple[str, ...], is_good: bool) -> None:
    *called, last = texts
    written = (*(Turn(text, "x()", "ok", "2") for text in called), Turn(last))
    trajectory = Trajectory((*(WELL for _ in called), None), written=written)
    assert form_verdict(replace(case("<answer>2</answer>"), trajectory=trajectory)).value == is_good


@pytest.mark.parametrize(
    ("turns", "calls", "succeeded", "failed"),
    [
        ((), 0, 0, ()),
        ((None, None), 0, 0, (False, False)),
        ((WELL, None, FAILED), 2, 1, (False, False, True)),
        ((PRETENDED, WELL), 2, 1, (False, False)),
    ],
)
def test_a_trajectory_counts_its_executions(turns, calls, succeeded, failed) -> None:
    found = Trajectory(turns)
    assert (found.calls, found.succeeded, found.failed) == (calls, succeeded, failed)
