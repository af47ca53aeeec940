"""The reward of Argos: Eq. 9 on a group of responses, and what points off their objects cost."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.errors import CallError, Failure
from rewards.locating import Served
from rewards.recipes.argos import Argos, ArgosSettings
from rewards.recipes.base import Memory
from rewards.registry import SCORERS
from schemas.config import ConfigError
from schemas.geometry import Point

SEES = Served(frozenset({"judge", "detector", "segmenter"}))
DOG = (Point("dog", 3.0, 4.0),)
EQUAL = {"outcome": 1.0, "spatial": 1.0, "reasoning": 1.0}
TAG = '<points x1="3" y1="4" alt="dog">dog</points>'
KENNEL = {"dog": [(10, 10, 20, 20), (50, 10, 60, 20)]}
ASKED = {"question": "What is the dog doing?", "answer_type": "numeric"}


@pytest.mark.parametrize(
    ("answer", "weights", "miss_cost", "reward"),
    [
        # outcome 1, spatial 0 (the label is not found), reasoning 1
        ("2", EQUAL, 0.0, 2 / 3),
        ("2", EQUAL | {"spatial": 3.0}, 0.0, 0.4),
        ("2", {"outcome": 1.0}, 0.0, 1.0),
        # spatial 0 - c * (1 - 0): (1 - 1 + 1) / 3, (1 - 0.5 + 1) / 3, (1 - 3 + 1) / 5, which is below a wrong answer
        ("2", EQUAL, 1.0, 1 / 3),
        ("2", EQUAL, 0.5, 0.5),
        ("2", EQUAL | {"spatial": 3.0}, 1.0, 0.0),
        ("2", {"outcome": 1.0}, 1.0, 1.0),
        # below the gate the outcome stands alone
        ("3", EQUAL, 1.0, 0.0),
    ],
)
def test_argos_eq9_weights_and_the_cost_of_a_miss(run, scripted, case, answer, weights, miss_cost, reward) -> None:
    caller = scripted(detector=['{"boxes": []}'], judge=[json.dumps({"reason": "", "supports": "yes"})])
    text = f"<think>A {TAG}.</think><answer>{answer}</answer>"
    given = case(text, caller, SEES, points=DOG, **ASKED)
    (earned,) = run(Argos(ArgosSettings(weights, miss_cost=miss_cost)).score([given], Memory()))
    assert (earned.reward, earned.outcome) == (pytest.approx(reward), float(answer == "2"))


@pytest.mark.parametrize(
    ("xs", "grounding"),
    [
        ((15, 55), 1.0),
        # g - c * (1 - g): as many right as wrong earn nothing
        ((15, 30), 0.0),
        ((30,), -1.0),
        ((15, 55, 30), 1 / 3),
        ((), 0.0),
    ],
)
def test_guesses_that_are_wrong_more_often_than_right_earn_less_than_not_pointing(
    run, seeing, case, xs, grounding
) -> None:
    points = tuple(Point("dog", x, 15) for x in xs)
    tags = "".join(f'<points x1="{x}" y1="15" alt="dog">dog</points>' for x in xs)
    given = case(
        f"<think>I see {tags}.</think><answer>2</answer>",
        seeing(KENNEL),
        SEES,
        points=points,
        pointable=("dog",),
        **ASKED,
    )
    (earned,) = run(Argos(ArgosSettings()).score([given], Memory()))
    assert earned.reward == pytest.approx((1 + grounding + 1) / 3)


def test_what_is_reported_is_the_grounding_and_not_its_cost(run, seeing, case) -> None:
    given = case(f"<think>A {TAG}.</think><answer>2</answer>", seeing(KENNEL), SEES, points=DOG, **ASKED)
    (earned,) = run(Argos(ArgosSettings()).score([given], Memory()))
    assert earned.value("spatial") == 0.0


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    xs=st.lists(st.sampled_from([15, 16, 30, 55, 90]), max_size=4),
    label=st.sampled_from(["gizmo", "picture", "", "background", "perro"]),
    miss_cost=st.sampled_from([0.0, 0.5, 1.0]),
    pointable=st.sampled_from([(), ("dog",)]),
)
def test_a_point_with_a_label_that_nothing_can_serve_never_pays(
    run, seeing, case, xs, label, miss_cost, pointable
) -> None:
    def reward(*points: Point) -> float:
        tags = "".join(f'<points x1="{p.x}" y1="{p.y}" alt="{p.label}">{p.label}</points>' for p in points)
        text = f"<think>I see {tags}.</think><answer>2</answer>"
        given = case(text, seeing(KENNEL), SEES, points=points, pointable=pointable, **ASKED)
        (earned,) = run(Argos(ArgosSettings(miss_cost=miss_cost)).score([given], Memory()))
        assert earned.reward is not None
        return earned.reward

    points = [Point("dog", x, 15) for x in xs]
    assert reward(*points, Point(label, 55, 15)) <= reward(*points) + 1e-9


def test_a_malformed_response_earns_0(run, seeing, case) -> None:
    texts = [f"<think>A {TAG}. So there are 3.</think><answer>2</answer>", "<think></think><answer>2</answer>", "2"]
    group = [case(text, seeing(KENNEL), SEES, points=DOG, gold="2") for text in texts]
    assert [earned.reward for earned in run(Argos(ArgosSettings()).score(group, Memory()))] == [0.0] * 3


def test_a_server_that_is_down_gives_no_reward(run, scripted, case) -> None:
    caller = scripted(detector=[CallError(Failure.TIMEOUT, "late")], judge=['{"supports": "yes"}'])
    given = case(f"<think>A {TAG}.</think><answer>2</answer>", caller, SEES, points=DOG, **ASKED)
    (earned,) = run(Argos(ArgosSettings()).score([given], Memory()))
    assert (earned.reward, earned.outcome) == (None, 1.0)


def test_without_a_judge_the_reasoning_has_no_part(run, seeing, case) -> None:
    points = (Point("dog", 15, 15), Point("dog", 30, 15))
    tags = "".join(f'<points x1="{p.x}" y1="15" alt="dog">dog</points>' for p in points)
    served = Served(frozenset({"detector", "segmenter"}))
    given = case(f"<think>I see {tags}.</think><answer>2</answer>", seeing(KENNEL), served, points=points, **ASKED)
    (earned,) = run(Argos(ArgosSettings(miss_cost=0.0)).score([given], Memory()))
    assert earned.reward == pytest.approx((1 + 0.5) / 2)


def test_a_group_is_scored_in_order_and_nothing_is_learned(run, seeing, case) -> None:
    recipe = Argos(ArgosSettings())
    texts = [f"<think>I look.</think><answer>{answer}</answer>" for answer in ("2", "3", "2")]
    group = [case(text, seeing(KENNEL), SEES) for text in texts]
    assert [earned.reward for earned in run(recipe.score(group, Memory()))] == [1.0, 0.0, 1.0]
    assert recipe.learn(Memory(), []) == Memory()


@pytest.mark.parametrize(
    ("roles", "skip", "refused"),
    [
        ({"detector", "segmenter"}, (), None),
        ({"pointer", "segmenter"}, (), None),
        (set(), (), ["counting", "spatial"]),
        ({"judge"}, (), ["counting", "spatial"]),
        ({"pointer"}, (), ["counting", "spatial"]),
        ({"segmenter"}, ("spatial",), ["counting"]),
        (set(), ("spatial", "counting"), None),
    ],
)
def test_a_reward_that_cannot_look_is_refused(roles, skip, refused) -> None:
    recipe = Argos(ArgosSettings(skip=skip))
    if refused is None:
        recipe.check_served(roles)
        return
    with pytest.raises(ConfigError) as caught:
        recipe.check_served(roles)
    assert str(caught.value) == (
        "reward.roles.detector must name an endpoint: points are checked with it; or leave that out: "
        f"reward.options.skip = {refused}"
    )


def test_what_is_left_out_pays_nothing(run, seeing, case) -> None:
    given = case(f"<think>A {TAG}.</think><answer>2</answer>", seeing({}), SEES, points=DOG, **ASKED)
    (earned,) = run(Argos(ArgosSettings(skip=("spatial", "counting"))).score([given], Memory()))
    assert earned.reward == 1.0


def test_a_weight_of_no_scorer_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"^weights\.spatail: there is no such scorer; there are outcome, format, spatial"
    ):
        Argos(ArgosSettings({"outcome": 1.0, "spatail": 1.0}))
    with pytest.raises(ConfigError, match=r"^weights\.spatial: there is no such scorer; there are outcome$"):
        Argos(ArgosSettings(), SCORERS[:1])


def test_a_scorer_left_out_that_there_is_none_of_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^skip\.spatail: there is no such scorer"):
        Argos(ArgosSettings(skip=("spatail",)))


def test_a_cost_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match=r"miss_cost must be at least 0, got -0\.5"):
        ArgosSettings(miss_cost=-0.5)
