"""A thought for complex questions, and only for them."""

import asyncio
from typing import Any

import pytest

from groundtrace.rewards.case import Case, Context
from groundtrace.rewards.complexity import COMPLEXITY
from groundtrace.rewards.scorers.think_section import SCORER
from groundtrace.schemas.records import Question

QUESTION = Question("q", "drawn", "CC0-1.0", (), "How many?", "3", "numeric")


@pytest.mark.parametrize(
    ("text", "complexity", "value"),
    [
        ("<judge>Simple.</judge><think>\n\n</think>\\boxed{3}", "simple", 1),
        ("<judge>Simple.</judge><think>One, two, three.</think>\\boxed{3}", "simple", 0),
        ("<judge>Complex.</judge><think>One, two, three.</think>\\boxed{3}", "complex", 1),
        ("<judge>Complex.</judge><think> \n </think>\\boxed{3}", "complex", 0),
        ("<judge> </judge><think>One, two, three.</think>\\boxed{3}", "complex", 0),
        ("<think>One, two, three.</think><answer>3</answer>", "complex", 0),
    ],
)
def test_the_think_section_is_as_the_complexity_says(text: str, complexity: str, value: float) -> None:
    masks: Any = None
    case = Case(QUESTION, text, "3", (), (), masks, context=Context().with_added(COMPLEXITY, complexity))
    assert asyncio.run(SCORER.score(case)).value == value


@pytest.mark.parametrize(
    "thought",
    [
        "\u200b",
        "\u200d\ufeff\u2060",
        "\u2800",
        "\u3164",
        "...",
        "🤔🤔🤔",
        "1 2 3",
        "<!-- no thought here -->",
        "&nbsp;&nbsp;&nbsp;",
        "Hmm",
        "N/A",
        "<br> <br> <br>",
        "—",
    ],
)
def test_what_holds_no_words_is_no_thought_for_a_complex_question(thought: str) -> None:
    masks: Any = None
    text = f"<judge>Complex.</judge><think>{thought}</think>\\boxed{{3}}"
    case = Case(QUESTION, text, "3", (), (), masks, context=Context().with_added(COMPLEXITY, "complex"))
    assert asyncio.run(SCORER.score(case)).value == 0


@pytest.mark.parametrize("thought", ["2 + 3 makes 5", "左边有二个", "On the left 2, on the right 1."])
def test_a_short_thought_is_one(thought: str) -> None:
    masks: Any = None
    text = f"<judge>Complex.</judge><think>{thought}</think>\\boxed{{3}}"
    case = Case(QUESTION, text, "3", (), (), masks, context=Context().with_added(COMPLEXITY, "complex"))
    assert asyncio.run(SCORER.score(case)).value == 1


def test_without_a_complexity_it_does_not_apply() -> None:
    masks: Any = None
    case = Case(QUESTION, "", "3", (), (), masks)
    assert [said for holds, said in SCORER.needs if not holds(case)] == ["the question has no complexity label"]
