"""The reward of Argos: Eq. 9 on a group of responses, and the laws of what pointing earns."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundtrace.config.errors import ConfigError
from groundtrace.inference.errors import CallError, Failure
from groundtrace.rewards.locating import ServedRoles
from groundtrace.rewards.pointing_score import PointingSettings
from groundtrace.rewards.recipes.argos import Argos, ArgosSettings
from groundtrace.rewards.recipes.base import Memory
from groundtrace.rewards.scorer_sets import TRACE_SCORERS
from groundtrace.schemas.geometry import Point

SEES = ServedRoles(frozenset({"judge", "detector", "segmenter"}))
DOG = (Point("dog", 3.0, 4.0),)
EQUAL = {"outcome": 1.0, "spatial": 1.0, "reasoning": 1.0}
TAG = '<points x1="3" y1="4" alt="dog">dog</points>'
KENNEL = {"dog": [(10, 10, 20, 20), (50, 10, 60, 20)]}
ASKED = {"question": "What is the dog doing?", "answer_type": "numeric"}


@pytest.mark.parametrize(
    ("answer", "weights", "wrong_cost", "reward"),
    [
        # outcome 1, one wrong point -ε · 1/2, reasoning 1
        ("2", EQUAL, 0.0, 2 / 3),
        ("2", EQUAL | {"spatial": 3.0}, 0.0, 0.4),
        ("2", {"outcome": 1.0}, 0.0, 1.0),
        ("2", EQUAL, 0.1, (1 - 0.05 + 1) / 3),
        ("2", EQUAL | {"spatial": 3.0}, 1.0, (1 - 1.5 + 1) / 5),
        ("2", EQUAL | {"spatial": 9.0}, 1.0, 0.0),
        ("2", {"outcome": 1.0}, 1.0, 1.0),
        # below the gate the outcome stands alone
        ("3", EQUAL, 0.1, 0.0),
    ],
)
def test_argos_eq9_weights_and_what_a_wrong_point_costs(
    run, scripted, case, answer, weights, wrong_cost, reward
) -> None:
    caller = scripted(detector=['{"boxes": []}'], judge=[json.dumps({"reason": "", "supports": "yes"})])
    text = f"<think>A {TAG}.</think><answer>{answer}</answer>"
    given = case(text, caller, SEES, points=DOG, **ASKED)
    settings = ArgosSettings(weights, pointing=PointingSettings(wrong_cost=wrong_cost))
    (earned,) = run(Argos(settings).score([given], Memory()))
    assert (earned.reward, earned.outcome) == (pytest.approx(reward), float(answer == "2"))


PACK = {"dog": [(20 * n, 10, 20 * n + 10, 20) for n in range(8)], "cup": [(300, 10, 310, 20)]}
COUNT = {"question": "How many dogs are there?", "answer_type": "numeric"}


@dataclass(frozen=True)
class Scene:
    """A question on dogs in a row, of which one asks about 0 to 6, and a response's points by name."""

    dogs: int
    asks_count: bool

    def rewarded(self, run, seeing, case, points: Sequence[Point]) -> float:
        tags = "".join(f'<points x1="{p.x}" y1="{p.y}" alt="{p.label}">{p.label}</points>' for p in points)
        answer = str(self.dogs) if self.asks_count else "2"
        seen = {"dog": PACK["dog"][: max(1, self.dogs)], "cup": PACK["cup"]}
        given = case(
            f"<think>I see {tags} here.</think><answer>{answer}</answer>",
            seeing(seen),
            SEES,
            points=tuple(points),
            gold=answer,
            entities=("dog",),
            pointable=("dog",) if self.dogs else (),
            **(COUNT if self.asks_count else ASKED),
        )
        (earned,) = run(Argos(ArgosSettings()).score([given], Memory()))
        assert earned.reward is not None
        return earned.reward


def on_dog(number: int, dx: int = 5) -> Point:
    return Point("dog", 20 * number + dx, 15)


scenes = st.builds(Scene, st.integers(1, 6), st.booleans())
rights = st.lists(st.integers(0, 5), max_size=6)
wrongs = st.lists(st.integers(0, 30).map(lambda n: Point("dog", 200 + 3 * n, 60)), max_size=4, unique=True)
EACH = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CUP = Point("cup", 305, 15)


@EACH
@given(scenes, rights, wrongs, st.integers(0, 5))
def test_a_right_point_never_lowers_the_reward(run, seeing, case, scene, right, wrong, another) -> None:
    points = [on_dog(n % scene.dogs) for n in right] + wrong
    more = [*points, on_dog(another % scene.dogs)]
    assert scene.rewarded(run, seeing, case, more) >= scene.rewarded(run, seeing, case, points) - 1e-12


@EACH
@given(scenes, rights.filter(bool), wrongs)
def test_silence_is_below_every_response_that_points_at_a_target(run, seeing, case, scene, right, wrong) -> None:
    points = [on_dog(n % scene.dogs) for n in right] + wrong
    assert scene.rewarded(run, seeing, case, []) < scene.rewarded(run, seeing, case, points)


@EACH
@given(scenes, rights, wrongs)
def test_a_wrong_point_lowers_the_reward(run, seeing, case, scene, right, wrong) -> None:
    points = [on_dog(n % scene.dogs) for n in right] + wrong
    more = [*points, Point("dog", 390, 90)]
    assert scene.rewarded(run, seeing, case, more) < scene.rewarded(run, seeing, case, points)


@EACH
@given(scenes)
def test_all_targets_and_nothing_wrong_earn_all(run, seeing, case, scene) -> None:
    assert scene.rewarded(run, seeing, case, [on_dog(n) for n in range(scene.dogs)]) == pytest.approx(1.0)


@EACH
@given(scenes, rights, wrongs, st.randoms(use_true_random=False))
def test_order_repeats_and_other_things_change_nothing(run, seeing, case, scene, right, wrong, rng) -> None:
    points = [on_dog(n % scene.dogs) for n in right] + wrong
    again = [*points, *(replace(p, x=p.x + 1) for p in points if p.y == 15), CUP]
    rng.shuffle(again)
    assert scene.rewarded(run, seeing, case, again) == pytest.approx(scene.rewarded(run, seeing, case, points))


NOTHING = Scene(0, True)


def test_without_targets_silence_and_points_on_other_things_earn_the_same_and_wrong_points_less(
    run, seeing, case
) -> None:
    silent, neutral, candidate = (NOTHING.rewarded(run, seeing, case, each) for each in ([], [CUP], [on_dog(0)]))
    assert (silent, neutral, candidate) == (1.0, 1.0, 1.0)
    one, two = (NOTHING.rewarded(run, seeing, case, [on_dog(3), on_dog(4)][:n]) for n in (1, 2))
    assert silent > one > two


def test_more_dogs_than_the_answer_says_are_wrong(run, seeing, case) -> None:
    asked = COUNT | {"question": "How many dogs are asleep?"}
    seen = {"dog": PACK["dog"][:4]}

    def reward(count: int) -> float:
        points = tuple(on_dog(n) for n in range(count))
        tags = "".join(f'<points x1="{p.x}" y1="15" alt="dog">dog</points>' for p in points)
        text = f"<think>I see {tags} here.</think><answer>2</answer>"
        given = case(text, seeing(seen), SEES, points=points, entities=("dog",), pointable=("dog",), **asked)
        (earned,) = run(Argos(ArgosSettings()).score([given], Memory()))
        assert earned.reward is not None
        return earned.reward

    assert [reward(n) for n in range(5)] == pytest.approx(
        [2 / 3, (2 + 0.75) / 3, 1.0, (2 + 2 / 3) / 3, (2 + 1 / 2) / 3]
    )


@pytest.mark.parametrize("entities", [(), None])
def test_a_row_without_entities_does_not_make_silence_pay(run, seeing, case, entities) -> None:
    """What is counted is read off the question."""
    text = "<think>I look. So there are 2.</think><answer>2</answer>"
    given = case(text, seeing({"dog": PACK["dog"][:2]}), SEES, entities=entities, **COUNT)
    (earned,) = run(Argos(ArgosSettings()).score([given], Memory()))
    assert (earned.value("spatial"), earned.reward) == (0.0, pytest.approx(2 / 3))


@EACH
@given(
    xs=st.lists(st.sampled_from([15, 16, 30, 55, 90]), max_size=4),
    label=st.sampled_from(["gizmo", "picture", "", "background", "perro"]),
    wrong_cost=st.sampled_from([0.0, 0.1, 1.0]),
    pointable=st.sampled_from([(), ("dog",)]),
)
def test_a_point_with_a_label_that_nothing_can_serve_never_pays(
    run, seeing, case, xs, label, wrong_cost, pointable
) -> None:
    options = ArgosSettings(pointing=PointingSettings(wrong_cost=wrong_cost))

    def reward(*points: Point) -> float:
        tags = "".join(f'<points x1="{p.x}" y1="{p.y}" alt="{p.label}">{p.label}</points>' for p in points)
        text = f"<think>I see {tags}.</think><answer>2</answer>"
        given = case(text, seeing(KENNEL), SEES, points=points, pointable=pointable, **ASKED)
        (earned,) = run(Argos(options).score([given], Memory()))
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
    asked = ASKED | {"pointable": ("dog",)}
    tags = "".join(f'<points x1="{p.x}" y1="15" alt="dog">dog</points>' for p in points)
    served = ServedRoles(frozenset({"detector", "segmenter"}))
    given = case(f"<think>I see {tags}.</think><answer>2</answer>", seeing(KENNEL), served, points=points, **asked)
    (earned,) = run(Argos(ArgosSettings()).score([given], Memory()))
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
        (set(), (), '["spatial"]'),
        ({"judge"}, (), '["spatial"]'),
        ({"pointer"}, (), '["spatial"]'),
        ({"segmenter"}, ("spatial",), None),
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
        "reward.roles.detector names no endpoint, so points cannot be checked: set it to the name of an endpoint, or "
        f"skip this check with reward.options.skip = {refused}"
    )


def test_what_is_left_out_pays_nothing(run, seeing, case) -> None:
    given = case(f"<think>A {TAG}.</think><answer>2</answer>", seeing({}), SEES, points=DOG, **ASKED)
    (earned,) = run(Argos(ArgosSettings(skip=("spatial",))).score([given], Memory()))
    assert earned.reward == 1.0


def test_what_gates_or_weighs_is_shown() -> None:
    assert Argos(ArgosSettings()).shown == ("outcome", "spatial", "format", "reasoning")
    assert Argos(ArgosSettings({"outcome": 1.0, "spatial": 0.0})).shown == ("outcome", "spatial", "format")


def test_a_weight_of_no_scorer_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"^weights\.spatail: the scorer is unknown: use one of outcome, format, spatial"
    ):
        Argos(ArgosSettings({"outcome": 1.0, "spatail": 1.0}))
    with pytest.raises(ConfigError, match=r"^weights\.spatial: the scorer is unknown: use one of outcome$"):
        Argos(ArgosSettings(), TRACE_SCORERS[:1])


def test_a_scorer_left_out_that_there_is_none_of_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^skip\.spatail: the scorer is unknown"):
        Argos(ArgosSettings(skip=("spatail",)))
