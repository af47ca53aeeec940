"""The reward of RuCL by hand (Eq. 4–9): what is judged, how it is weighed, and what a step teaches."""

import json
from dataclasses import replace

import pytest

from groundtrace.rewards.case import Context
from groundtrace.rewards.curriculum import CurriculumSettings, CurriculumState
from groundtrace.rewards.locating import ServedRoles
from groundtrace.rewards.recipes.base import Earned, Memory, RewardedResponse
from groundtrace.rewards.recipes.rucl import Rucl
from groundtrace.rewards.rubrics import PLACE
from groundtrace.rewards.rubrics import RUBRICS as COLUMN
from groundtrace.schemas.records import Rubric

JUDGED = ServedRoles(frozenset({"judge"}))
RUBRICS = tuple(Rubric(name, "what", "when", 1.0, 0.5, "easy" if name < "c" else "hard") for name in "abcd")
"""a and b are easy, c and d hard."""
RECIPE = Rucl(CurriculumSettings(ramp_steps=4, window=2, growth="linear"))
HALFWAY = Memory(CurriculumState(step=3, window=(1.0, 1.0), started_at=2))
"""λ of step 4: (4 - 2) / 4."""
DONE = Memory(CurriculumState(step=99, window=(1.0, 1.0), started_at=2))


def scores(place: int | None = 1, **given: int | None) -> str:
    given[PLACE.id] = place
    rows = [
        {"id": name, "applicable": score is not None, "rationale": "seen", "score": score}
        for name, score in given.items()
    ]
    return json.dumps({"scores": rows})


CASES = [
    # λ = 0: 0.7 * 1 + 0.3 * (1 + 0) / 2
    ("before the start", Memory(), "2", scores(a=1, b=0, c=1, d=1), 0.85),
    # without a place, the rubrics count nothing: 0.7 * 1
    ("no place", Memory(), "2", scores(place=0, a=1, b=0, c=1, d=1), 0.7),
    ("no place, at the end", DONE, "2", scores(place=0, a=1, b=1, c=1, d=1), 0.7),
    ("no place and a wrong answer", HALFWAY, "3", scores(place=0, a=1, b=1, c=1, d=1), 0.0),
    # as with any rubric: one that does not apply is not met
    ("a place that does not apply", Memory(), "2", scores(place=None, a=1, b=0, c=1, d=1), 0.7),
    # λ = 0.5: 0.7 * 1 + 0.3 * (0.5 * 0.5 + 0.5 * 1)
    ("halfway", HALFWAY, "2", scores(a=1, b=0, c=1, d=1), 0.7 + 0.3 * 0.75),
    # λ = 1: 0.7 * 0 + 0.3 * 0.5
    ("a wrong answer, at the end", DONE, "3", scores(a=1, b=1, c=0, d=1), 0.15),
    # one that does not apply counts 0: easy is 1 of 2
    ("one does not apply", Memory(), "2", scores(a=1, b=None, c=0, d=0), 0.85),
    # no hard one applies: 0.7 + 0.3 * (0.5 * 0.5 + 0.5 * 0)
    ("no hard one applies", HALFWAY, "2", scores(a=1, b=0, c=None, d=None), 0.775),
    ("none applies", HALFWAY, "2", scores(a=None, b=None, c=None, d=None), 0.7),
    ("a judge that fails", HALFWAY, "2", "?", None),
    ("a judge that leaves out the place", HALFWAY, "2", scores(a=1, b=1, c=1, d=1).replace(PLACE.id, "e"), None),
]


@pytest.mark.parametrize(("memory", "answer", "judge", "reward"), [row[1:] for row in CASES], ids=[r[0] for r in CASES])
def test_rucl_eq9_by_hand(run, scripted, case, memory, answer, judge, reward) -> None:
    text = f"<answer>{answer}</answer>"
    given = case(text, scripted(judge=[judge]), JUDGED, context=Context().with_added(COLUMN, RUBRICS))
    (earned,) = run(RECIPE.score([given], memory))
    assert earned.reward == pytest.approx(reward)
    assert [verdict.name for verdict in earned.verdicts] == ["outcome", "rubrics"]


def test_an_unscored_answer_has_no_reward(run, scripted, case) -> None:
    free = {"answer_type": "text", "gold": "since it leans on the one beside it"}
    judge = ["?", scores(a=1, b=1, c=1, d=1)]
    given = case(
        "<answer>who knows why</answer>",
        scripted(judge=judge),
        JUDGED,
        context=Context().with_added(COLUMN, RUBRICS),
        **free,
    )
    assert run(RECIPE.score([given], DONE))[0].reward is None


@pytest.fixture
def step(run, scripted, case):
    """The responses of a step, judged."""

    def build(*judge: str) -> list[RewardedResponse]:
        context = Context().with_added(COLUMN, RUBRICS)
        earned: list[Earned] = []
        for reply in judge:
            earned += run(
                RECIPE.score([case(caller=scripted(judge=[reply]), served=JUDGED, context=context)], Memory())
            )
        return [RewardedResponse("q", "", context, each) for each in earned]

    return build


def test_rucl_eq7_a_step_enters_its_mean_over_the_easy_rubrics(step) -> None:
    # (1 + 0.5) / 2; what the judge failed on is no part of the mean
    judged = step(scores(a=1, b=1, c=0, d=0), scores(a=1, b=0, c=1, d=1), "?")
    assert RECIPE.learn(Memory(), judged).curriculum == CurriculumState(1, (0.75,), None)


def test_rucl_eq7_the_hard_rubrics_begin_after_a_window_of_good_steps(step) -> None:
    good, memory = step(scores(a=1, b=1, c=0, d=0)), Memory()
    for _ in range(2):
        memory = RECIPE.learn(memory, good)
    assert memory.curriculum == CurriculumState(2, (1.0, 1.0), 2)


def test_a_step_without_verdicts_is_counted_and_proves_nothing(step) -> None:
    before = Memory(CurriculumState(1, (1.0,), None))
    assert RECIPE.learn(before, step("?")) == replace(before, curriculum=CurriculumState(2, (1.0,), None))
    assert RECIPE.learn(before, []).curriculum.step == 2


@pytest.mark.parametrize(("required", "reward"), [(True, 0.7), (False, 0.85)])
def test_a_place_is_required_if_the_settings_say_so(run, scripted, case, required, reward) -> None:
    recipe, caller = (
        Rucl(replace(RECIPE.settings, require_place=required)),
        scripted(judge=[scores(0, a=1, b=0, c=1, d=1)]),
    )
    given = case("<answer>2</answer>", caller, JUDGED, context=Context().with_added(COLUMN, RUBRICS))
    (earned,) = run(recipe.score([given], Memory()))
    assert earned.reward == pytest.approx(reward)
    asked = json.loads(caller.asked[0][1].variable("rubrics"))
    assert [rubric["id"] for rubric in asked] == [*"abcd", *([PLACE.id] if required else [])]


@pytest.mark.parametrize("memory", [Memory(), HALFWAY, DONE])
def test_uniform_averaging(run, scripted, case, memory) -> None:
    """§4.3 (2): 0.7 + 0.3 * 3/4 in every step."""
    uniform = Rucl(replace(RECIPE.settings, aggregation="uniform"))
    context = Context().with_added(COLUMN, RUBRICS)
    given = case("<answer>2</answer>", scripted(judge=[scores(a=1, b=0, c=1, d=1)]), JUDGED, context=context)
    (earned,) = run(uniform.score([given], memory))
    assert earned.reward == pytest.approx(0.7 + 0.3 * 0.75)


@pytest.mark.parametrize(("answer", "reward"), [("2", 1.0), ("3", 0.0)])
def test_vanilla_grpo_asks_no_judge(run, scripted, case, answer, reward) -> None:
    """§4.3 (1): α = 1 is the outcome alone."""
    vanilla, caller = Rucl(replace(RECIPE.settings, alpha=1.0)), scripted(judge=[])
    context = Context().with_added(COLUMN, RUBRICS)
    given = case(f"<answer>{answer}</answer>", caller, JUDGED, context=context)
    (earned,) = run(vanilla.score([given], Memory()))
    assert (earned.reward, [verdict.name for verdict in earned.verdicts]) == (reward, ["outcome"])
    assert caller.asked == []
    step = [RewardedResponse("q", "", context, earned)]
    assert vanilla.learn(Memory(), step).curriculum == CurriculumState(1, (), None)
    assert vanilla.metrics(Memory(), step)["rubrics_all"] is None


def test_the_curves_of_a_step(step) -> None:
    judged = step(scores(a=1, b=1, c=0, d=0), scores(place=0, a=1, b=0, c=1, d=1), "?")
    found = RECIPE.metrics(HALFWAY, judged)
    assert found == {
        "hard_weight": 0.5,
        "rubrics_easy": 0.75,
        "rubrics_hard": 0.5,
        "rubrics_all": 0.625,
        "has_place": 0.5,
    }
    paper = Rucl(replace(RECIPE.settings, require_place=False))
    assert paper.metrics(HALFWAY, judged) == found | {"has_place": None}
    nothing = {"hard_weight": 0.0, "rubrics_easy": None, "rubrics_hard": None, "rubrics_all": None, "has_place": None}
    assert RECIPE.metrics(Memory(), step("?")) == nothing
