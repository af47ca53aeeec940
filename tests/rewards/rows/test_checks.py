"""What a row must have for a reward, and the notes on a training's start."""

from typing import Any

import pytest

from groundtrace.rewards.case import Context
from groundtrace.rewards.rows.checks import note_start, row_check
from groundtrace.rewards.rows.row import TrainingRow, UnusableRow
from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.rewards.rubrics import RUBRICS
from groundtrace.schemas.records import Question, Rubric

BOTH = (("grounded", "with boxes?"), ("textual", "in words?"))


def row_of(answer_type: str = "numeric", answer: str = "3", streams: Any = (), rubric: str = "") -> TrainingRow:
    rubrics = (Rubric(rubric, "what", "when", 1.0, 0.5, "hard"),) if rubric else ()
    context = Context().with_added(RUBRICS, rubrics)
    question = Question("q", "drawn", "CC0-1.0", (), "?", answer, answer_type)
    prompt = ({"role": "user", "content": "?"},)
    return TrainingRow("q", "drawn", prompt, (), question, streams=streams, context=context)


def settings_of(recipe: str) -> RewardSettings:
    return RewardSettings(recipe=recipe, options={"ramp_steps": 2} if recipe == "rucl" else {})


@pytest.mark.parametrize(
    ("recipe", "row", "said"),
    [
        ("argos", row_of("colour"), "q: the answer type 'colour' is unknown"),
        (
            "argos",
            row_of("text", "the one on the left"),
            "q: the gold answer is free text, which only a judge model can grade",
        ),
        (
            "ivgr",
            row_of(),
            r"q: the row has no streams \(ways to answer: with boxes, or only in words\), but reward.recipe = 'ivgr' "
            "needs them",
        ),
        ("rucl", row_of(rubric="required_place"), "q: a rubric has the id 'required_place', which is reserved"),
    ],
)
def test_rows_that_the_reward_cannot_score(recipe: str, row: TrainingRow, said: str) -> None:
    with pytest.raises(UnusableRow, match=said):
        row_check(settings_of(recipe))(row)


@pytest.mark.parametrize(
    ("recipe", "row"),
    [("argos", row_of(rubric="required_place")), ("ivgr", row_of(streams=BOTH)), ("rucl", row_of(rubric="place"))],
)
def test_rows_that_it_can_score(recipe: str, row: TrainingRow) -> None:
    row_check(settings_of(recipe))(row)


@pytest.mark.parametrize(
    ("reward", "blind", "noted"),
    [(0.2, 0.3, True), (0.3, 0.3, True), (0.4, 0.3, False), (None, 0.3, False), (0.2, None, False)],
)
def test_the_start_is_compared_with_a_policy_that_never_looks(
    reward: float | None, blind: float | None, noted: bool
) -> None:
    assert (note_start(reward, blind) is not None) is noted
