"""What a policy earns that never looks, by hand."""

import pytest

from groundtrace.rewards.aggregate import GateSettings
from groundtrace.rewards.blindness import RewardedQuestion, blind_figures, closed_answer, constant_answer
from groundtrace.rewards.recipes.base import BlindShares, Recipe
from groundtrace.rewards.recipes.registry import RECIPES
from groundtrace.schemas.blind_figures import MAX_BLIND_SHARE, BlindFigures
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Question

ARGOS, SAIL_RL, IVGR, RUCL = (RECIPES[name] for name in ("argos", "sail_rl", "ivgr", "rucl"))
HOW_MANY = "How many dogs are there?"


def asked(answer: str, answer_type: str, text: str = "Is it so?", choices=None, boxes=None) -> Question:
    return Question("q", "s", "", (), text, answer, answer_type, choices, gold_boxes=boxes)


def polar(answer: str, pointable: tuple[str, ...] = ("dog",)) -> RewardedQuestion:
    return RewardedQuestion(asked(answer, "bool"), ("dog",), pointable)


def count(answer: str, pointable: tuple[str, ...] = ("dog",)) -> RewardedQuestion:
    return RewardedQuestion(asked(answer, "numeric", HOW_MANY), ("dog",), pointable)


@pytest.mark.parametrize(
    ("question", "closed", "constant"),
    [
        (asked("yes", "bool"), ("bool", "yes"), ("bool", "yes")),
        (asked("red", "mcq", choices=("blue", "red")), ("mcq", "B"), ("mcq", "B")),
        (asked("3", "numeric", HOW_MANY), ("count", "3"), ("count", "3")),
        (asked("3.50", "numeric", "What does it cost?"), None, ("numeric", "3.5")),
        (asked("a dog by the door", "text", "What is it?"), None, None),
        (asked("", "boxes", "Where is it?"), None, None),
    ],
)
def test_the_answers_that_a_constant_can_hit(question, closed, constant) -> None:
    assert (closed_answer(question), constant_answer(question)) == (closed, constant)


def figures_of(rows, reward, settings=None) -> BlindFigures:
    found = blind_figures(rows, reward, settings)
    assert found is not None
    return found


def share(rows, reward=ARGOS, settings=None) -> float:
    found = figures_of(rows, reward, settings).share
    assert found is not None
    return found


def test_argos_pays_a_right_answer_without_points_all_but_the_grounding() -> None:
    assert share([polar("yes")]) == pytest.approx(2 / 3)
    assert share([polar("yes")] * 3 + [polar("no")]) == pytest.approx(3 / 4 * 2 / 3)
    weights = {"outcome": 1.0, "spatial": 2.0, "reasoning": 1.0}
    assert share([polar("yes")], settings=GateSettings(weights)) == pytest.approx(1 / 2)
    assert share([polar("yes")], settings=GateSettings({"outcome": 1.0})) == 1.0


def test_what_has_nothing_to_look_at_pays_all_of_it() -> None:
    assert share([polar("no", ())]) == 1.0
    assert share([count("0")]) == 1.0
    # "no" pays 2 · 1 of four rows, "yes" 2 · 2/3
    assert share([polar("yes")] * 2 + [polar("no", ())] * 2) == pytest.approx(2 / 4)


def test_each_type_has_a_constant_of_its_own() -> None:
    figures = figures_of([polar("yes")] * 2 + [count("2"), count("3"), count("3")], ARGOS)
    assert {kind: (each.answer, each.rows) for kind, each in figures.types.items()} == {
        "bool": ("yes", 2),
        "count": ("3", 3),
    }
    assert figures.share == pytest.approx((2 + 2) / 5 * 2 / 3)


def test_choices_are_hit_by_a_letter_wherever_the_answer_is() -> None:
    rows = [
        RewardedQuestion(asked("red", "mcq", choices=("blue", "red"))),
        RewardedQuestion(asked("dog", "mcq", choices=("cat", "dog", "cow"))),
        RewardedQuestion(asked("cat", "mcq", choices=("cat", "dog"))),
    ]
    figures = figures_of(rows, RUCL)
    assert (figures.types["mcq"].answer, figures.share) == ("B", pytest.approx(2 / 3))


def test_rows_that_only_a_judge_can_grade_are_left_out_and_counted() -> None:
    words = RewardedQuestion(asked("a dog by the door", "text", "What is it?"))
    figures = figures_of([words, polar("yes")], RUCL)
    assert (figures.rows, figures.counted, figures.share) == (2, 1, 1.0)
    assert figures_of([words], RUCL).share is None
    assert not figures_of([words], RUCL).is_high


def test_ivgr_pays_the_boxes_in_the_grounded_stream_alone() -> None:
    question = asked("yes", "bool", boxes=(Box("dog", 1, 2, 3, 4),))
    both = RewardedQuestion(question, streams=("grounded", "textual"))
    assert share([both], IVGR) == pytest.approx((2 / 3 + 1) / 2)
    assert share([RewardedQuestion(asked("yes", "bool"), streams=("grounded",))], IVGR) == 1.0
    assert share([both], SAIL_RL) == 1.0


def test_more_than_a_third_is_much() -> None:
    assert figures_of([polar("yes")], ARGOS).is_high
    assert not BlindFigures("argos", 4, 4, MAX_BLIND_SHARE).is_high


class Formal(Recipe):
    """A reward of a user that pays the form of a response, and says nothing about policies that do not look."""

    name = "formal"


class Declared(Formal):
    @classmethod
    def blind_shares(cls, question, pointable, streams, settings=None) -> BlindShares:
        return BlindShares(right=1.0, wrong=0.9)


def test_a_recipe_that_does_not_declare_its_shares_has_no_figures() -> None:
    assert blind_figures([polar("yes")], Formal) is None


def test_a_recipe_may_also_pay_for_a_wrong_answer() -> None:
    rows = [polar("yes")] * 2 + [polar("no")] * 3
    assert share(rows, Declared) == pytest.approx((3 * 1.0 + 2 * 0.9) / 5)
