"""The embedded engine in judge-think-answer: it counts steps, tells what it sees, and judges what arithmetic can."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from groundtrace.embedded.judge_think_answer import HANDLERS, steps_of
from groundtrace.embedded.scenes import Scene
from groundtrace.embedded.sight.language import read_question
from groundtrace.grading.messages import MediaPart
from groundtrace.grading.responses.response import parse_response
from groundtrace.inference.errors import CallError
from groundtrace.prompts.loader import load_prompt

GREY, RED, BLUE = (211, 211, 211), (220, 30, 30), (0, 0, 255)


def scene() -> Scene:
    """Two red squares on the left, a blue one on the right."""
    pixels = np.full((100, 400, 3), GREY, np.uint8)
    for x, colour in ((20, RED), (60, RED), (340, BLUE)):
        pixels[40:60, x : x + 20] = colour
    return Scene(lambda: pixels)


def say(name: str, **variables: str) -> str:
    prompt = load_prompt(name)
    media = {slot: [MediaPart("input:a.png", "a" * 64)] for slot in prompt.media}
    given = dict.fromkeys(prompt.variables, "") | variables
    return HANDLERS[prompt.name.split(".")[0]](prompt.render(media, **given), scene(), np.random.default_rng(0), 0.0)


@pytest.mark.parametrize(
    ("question", "steps"),
    [
        ("How many red squares are there?", 1),
        ("How many red squares are touching the edge?", 2),
        ("Is there a red square?", 1),
        ("What colour is the square?", 1),
        ("What colour is the largest square?", 2),
        ('Is the following statement about the image true? "There are exactly 2 red squares"', 2),
        ('Is the following statement about the image true? "There is a box with a red square and a blue square"', 4),
    ],
)
def test_steps(question: str, steps: int) -> None:
    query = read_question(question)
    assert query is not None
    assert len(steps_of(query)) == steps
    label = json.loads(say("judge_complexity.v1", question=question, mark="m"))["complexity"]
    assert label == ("simple" if steps == 1 else "complex")


def test_what_it_cannot_read_it_cannot_judge() -> None:
    assert json.loads(say("judge_complexity.v1", question="Why is it red?"))["complexity"] == "cannot_judge"
    assert json.loads(say("judge_quality.v1", question="Why is it red?", answer="so"))["quality"] == "cannot_judge"


def test_its_traces_and_judgements_decide_as_the_steps_do() -> None:
    question = 'Is the following statement about the image true? "There are exactly 3 squares"'
    text = say("judged_trace.v1", question=question, answer="no")
    response = parse_response(text)
    assert response.has_format
    assert response.answer == "yes", "the answer that guides others is not read"
    assert "2 red squares, 1 blue square" in (response.think or "")
    decided = json.loads(say("judge_decision.v1", decision=response.judge or ""))
    assert decided["decision"] == "think"
    simple = say("direct_judgement.v1", question="How many squares are there?")
    assert json.loads(say("judge_decision.v1", decision=simple))["decision"] == "direct"


SEEN = "Seen anywhere in the picture: "
Judged = tuple[str, dict[str, str], str, bool | str | float | None]
CASES: list[Judged] = [
    ("judge_decision.v1", {"decision": "No reasoning is needed here."}, "decision", "direct"),
    ("judge_decision.v1", {"decision": "This requires reasoning over two boxes."}, "decision", "think"),
    ("judge_decision.v1", {"decision": "A nice picture."}, "decision", None),
    ("judge_decision.v1", {"decision": "It needs thinking, or can be answered directly."}, "decision", None),
    ("judge_logic.v2", {"reasoning": "1 + 2 = 3, and 3 + 1 + 1 = 5."}, "sound", True),
    ("judge_logic.v2", {"reasoning": "1 + 2 = 3, and 3 + 1 + 1 = 6."}, "sound", False),
    ("judge_logic.v2", {"reasoning": "It stands to reason."}, "sound", None),
    ("judge_grounding.v2", {"reasoning": f"{SEEN}2 red squares, 1 blue square."}, "true_to_sources", True),
    ("judge_grounding.v2", {"reasoning": f"{SEEN}2 squares."}, "true_to_sources", False),
    ("judge_grounding.v2", {"reasoning": f"{SEEN}2 pink squares."}, "true_to_sources", False),
    ("judge_grounding.v2", {"reasoning": f"{SEEN}2 red cats."}, "true_to_sources", None),
    ("judge_grounding.v2", {"reasoning": "There are two red squares."}, "true_to_sources", None),
    ("judge_think_consistency.v2", {"reasoning": "So the answer is no.", "predicted": "no"}, "supported", True),
    ("judge_think_consistency.v2", {"reasoning": "So the answer is no.", "predicted": "yes"}, "supported", False),
    ("judge_think_consistency.v2", {"reasoning": "I looked.", "predicted": "yes"}, "supported", None),
    ("score_logic.v1", {"reasoning": "1 + 2 = 3, and 3 + 1 + 1 = 6."}, "score", 0.0),
    ("score_logic.v1", {"reasoning": "It stands to reason."}, "score", None),
    ("score_grounding.v1", {"reasoning": f"{SEEN}2 red squares, 1 blue square."}, "score", 1.0),
    ("score_think_consistency.v1", {"reasoning": "So the answer is no.", "predicted": "yes"}, "score", 0.0),
    ("judge_quality.v1", {"question": "How many red squares are there?", "answer": "2"}, "quality", "good"),
    ("judge_quality.v1", {"question": "How many red squares are there?", "answer": "3"}, "quality", "wrong_answer"),
    (
        "judge_quality.v1",
        {"question": "What colour is the leftmost square?\nA. blue\nB. red", "answer": "red"},
        "quality",
        "good",
    ),
]


@pytest.mark.parametrize(("name", "variables", "field", "said"), CASES)
def test_judgements(name: str, variables: dict[str, str], field: str, said: bool | str | float | None) -> None:
    asked: Callable[[], Any] = lambda: json.loads(say(name, **variables))[field]  # noqa: E731
    if said is None:
        with pytest.raises(CallError):
            asked()
    else:
        assert asked() == said
