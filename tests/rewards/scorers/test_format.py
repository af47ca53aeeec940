"""The format reward and gate: whether a response is of the form that it was asked for."""

import pytest

from groundtrace.rewards.form import BOXED_FORM, GROUNDED_FORM, TEXTUAL_FORM
from groundtrace.rewards.scorers.format import SCORER
from groundtrace.schemas.records import Verdict

POINT = '<points x1="45" y1="35" alt="yellow square">yellow square</points>'
BOX = "<box>[1,2,3,4]</box>"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<judge>simple</judge><think>\n\n</think>\\boxed{2}", 0.0),
        ("<judge>complex</judge><think>steps</think><answer>2</answer>", 1.0),
        ("<think>steps</think><answer>2</answer>", 1.0),
        ("<think>steps</think>2", 0.0),
        ("<answer>2</answer>", 0.0),
        ("", 0.0),
    ],
)
def test_sail_rl_eq1_format(run, case, text, value) -> None:
    verdict = run(SCORER.score(case(text)))
    assert (verdict.name, verdict.value) == ("format", value)


@pytest.mark.parametrize(
    ("form", "inside", "value"),
    [
        (GROUNDED_FORM, f"I see {POINT}.", 1.0),
        (GROUNDED_FORM, f"I see {BOX}.", 0.0),
        (GROUNDED_FORM, "", 0.0),
        (BOXED_FORM, f"I see {BOX}.", 1.0),
        (BOXED_FORM, f"I see {POINT}.", 0.0),
        (TEXTUAL_FORM, "I see two.", 1.0),
        (TEXTUAL_FORM, f"I see {BOX}.", 0.0),
    ],
)
def test_a_response_has_the_form_that_it_was_asked_for(run, case, form, inside, value) -> None:
    verdict = run(SCORER.score(case(f"<think>{inside}</think><answer>2</answer>", form=form)))
    assert (verdict.value, verdict.failed) == (value, False)
    assert verdict.reason


RIGHT, WRONG = Verdict("outcome", 1.0, ""), Verdict("outcome", 0.0, "")


@pytest.mark.parametrize(
    ("concluded", "answer", "outcome", "value"),
    [
        ("2", "2", RIGHT, 1.0),
        ("3", "2", RIGHT, 0.0),
        # a wrong answer is held against itself, so that a form is not the answer once more
        ("3", "3", WRONG, 1.0),
        ("2", "3", WRONG, 0.0),
        ("3", "3", None, 1.0),
        ("2", "3", None, 0.0),
    ],
)
def test_what_the_reasoning_concludes_is_the_answer(run, case, concluded, answer, outcome, value) -> None:
    text = f"<think>I look. So there are {concluded}.</think><answer>{answer}</answer>"
    assert run(SCORER.score(case(text, outcome=outcome))).value == value


def test_it_is_a_gate_with_a_floor() -> None:
    assert (SCORER.is_gate, SCORER.floor, SCORER.needs, SCORER.asks) == (True, 1.0, (), ())
