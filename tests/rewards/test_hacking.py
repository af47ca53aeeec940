"""The hacks of benchmarks/hacking: each can be written for any question, and their figures are right."""

import random
import sys
from pathlib import Path

import pytest

from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Question

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from hacking.figures import MIN_BLIND_QUESTIONS, RecipeFigures
from hacking.placed import TemplateInput
from hacking.scoring import Tried
from hacking.templates import ANSWER, NOTHING, Hack, HackResponse, hacks_of, things_of

COUNT = ("How many yellow squares are there in the image?", "2", "numeric")
STATEMENT = ('Is the following statement about the image true? "There is a tower." Answer yes or no.', "yes", "bool")
RECIPES = ("argos", "sail_rl", "ivgr", "rucl", "codedance")


def asked(question: tuple[str, str, str], scene: tuple[Box, ...] = ()) -> TemplateInput:
    about = Question("q", "", "", (), *question)
    return TemplateInput(about, (400, 100), (), "no", ("yes", "no"), [(0.5, 0.5)], random.Random(1), scene)


@pytest.mark.parametrize("question", [COUNT, STATEMENT])
@pytest.mark.parametrize("scene", [(), (Box("yellow square", 10, 20, 30, 40),)])
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_hack_can_be_written(recipe, question, scene) -> None:
    for hack in hacks_of(recipe):
        written = hack.write(asked(question, scene))
        assert written.text and "{{" not in written.text, hack.name


def test_hacks_without_knowledge_do_not_hold_the_gold_answer() -> None:
    gold = "quite so"
    about = asked((COUNT[0], gold, "numeric"))
    assert not [
        hack.name
        for recipe in RECIPES
        for hack in hacks_of(recipe)
        if hack.knows == NOTHING and gold in hack.write(about).text
    ]


@pytest.mark.parametrize(
    ("question", "things"),
    [(COUNT[0], "yellow squares"), ('… "There is a black block at the top."', "black blocks"), ("Why?", "objects")],
)
def test_things_of(question, things) -> None:
    assert things_of(question) == things


def hack(name: str, knows: str) -> Hack:
    return Hack(name, knows, lambda asked: HackResponse(""))


HACKS = (hack("knowing", ANSWER), hack("guess", NOTHING), hack("judged guess", NOTHING))


def tried(kind: str, honest: float | None, *earned: float | None, same: bool = False) -> Tried:
    return Tried(kind, honest, earned, (same, False, False))


def test_an_honest_call_has_to_earn_its_share_and_is_no_hack() -> None:
    calls = [
        Hack(name, ANSWER, lambda asked: HackResponse(""), least=least) for name, least in (("a", 0.9), ("b", 0.6))
    ]
    figures = RecipeFigures("part", calls, [Tried("numeric", 1.0, (0.8, 0.7), (False, False))])
    assert figures.faults == ["a is honest, but earns 0.800, the honest response 1.000"] and figures.best is None
    figures = RecipeFigures("part", calls, [Tried("numeric", 1.0, (1.0, 1.0), (False, False))])
    assert figures.faults == [] and figures.best is None


def test_figures_compare_where_both_are_scored() -> None:
    """0.9 and 0.7 beside 1 and 1; what is unscored, or is the honest response itself, has no part."""
    figures = RecipeFigures(
        "part",
        HACKS,
        [
            tried("numeric", 1.0, 0.9, 1.0, None),
            tried("numeric", 1.0, 0.7, 0.0, 0.0),
            tried("bool", None, 1.0, 0.5, 0.2),
            tried("bool", 1.0, None, 0.1, 0.8),
            tried("bool", 1.0, 1.0, 0.0, 0.4, same=True),
        ],
    )
    first = figures.rows[0]
    assert (first.earned, first.honest, first.unscored, first.reached) == pytest.approx((0.8, 1.0, 1, 0.5))
    assert not first.reaches and not figures.faults
    assert figures.honest == 1.0 and figures.honest_unscored == 1
    # by type: numbers 0.5 (the judged guess is unscored on one), yes and no (0.2 + 0.8 + 0.4) / 3
    assert figures.blind is not None
    assert figures.blind[0] == pytest.approx((2 * 0.5 + 3 * 1.4 / 3) / 5)
    assert figures.blind[1] == {"numeric": "guess", "bool": "judged guess"}


def test_faults_are_hacks_within_the_margin_and_blindness_above_half() -> None:
    one = tried("bool", 1.0, 0.9, 0.6, 0.0)
    figures = RecipeFigures("part", HACKS, [one] * MIN_BLIND_QUESTIONS)
    assert len(figures.faults) == 2 and "knowing" in figures.faults[0] and "blind" in figures.faults[1]
    few = RecipeFigures("part", HACKS, [one] * (MIN_BLIND_QUESTIONS - 1))
    assert few.faults == figures.faults[:1]


def test_nothing_scored_is_no_fault_and_no_zero() -> None:
    figures = RecipeFigures("part", HACKS, [tried("bool", None, None, None, None)])
    assert figures.honest is None and figures.blind is None and figures.best is None and not figures.faults
    assert figures.named("guess") is None
