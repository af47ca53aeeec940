"""SAIL-RL's judging and format rewards: what a judge section decides, against the label of the question."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.case import Context
from rewards.scorers.judging import MAX_JUDGE_CHARS, SCORER, decision_of, score_judging
from schemas.responses.response import parse_response

DECISIONS = [
    ("This question needs no reasoning; a glance at the picture is enough.", "simple"),
    ("No reasoning is needed, since the colour can be seen.", "simple"),
    ("No need to think about this one.", "simple"),
    ("Reasoning is not required here.", "simple"),
    ("Reasoning isn't necessary.", "simple"),
    ("Thinking is unnecessary.", "simple"),
    ("It doesn't require any step-by-step reasoning.", "simple"),
    ("It doesn’t need thinking.", "simple"),
    ("The question can be answered directly.", "simple"),
    ("The question can be answered without further reasoning.", "simple"),
    ("This is a simple question.", "simple"),
    ("This is not a complex question, so it can be answered directly.", "simple"),
    ("SIMPLE", "simple"),
    ("direct", "simple"),
    ("no thinking", "simple"),
    ("Reasoning is required because prices have to be compared.", "complex"),
    ("Careful multi-step reasoning is needed.", "complex"),
    ("The task requires several steps of deduction.", "complex"),
    ("One needs to think step by step.", "complex"),
    ("This is **complex**.", "complex"),
    ("It is not a simple lookup: reasoning is needed.", "complex"),
    ("It cannot be answered directly.", "complex"),
    ("More than simple reading: it requires calculation.", "complex"),
    ("think", "complex"),
    ("Ｃｏｍｐｌｅｘ", "complex"),
    ("com\u200bplex", "complex"),
    ("It looks simple. Still, reasoning is needed.", None),
    ("simple complex", None),
    ("The picture shows a hydrant.", None),
    ("yes", None),
    ("", None),
    (None, None),
    ("complex " * (MAX_JUDGE_CHARS // 8 + 1), None),
]


@pytest.mark.parametrize(("judge", "decision"), DECISIONS, ids=lambda value: str(value)[:40])
def test_sail_rl_3_2_the_decision_of_a_judge_section(judge, decision) -> None:
    assert decision_of(judge) == decision


@settings(max_examples=150)
@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert decision_of(text) in {"simple", "complex", None}


def response(judge: str | None, think: str = "steps"):
    section = "" if judge is None else f"<judge>{judge}</judge>"
    return parse_response(f"{section}<think>{think}</think><answer>2</answer>")


@pytest.mark.parametrize(
    ("judge", "complexity", "value"),
    [
        ("Reasoning is needed.", "complex", 1.0),
        ("Reasoning is needed.", "simple", 0.0),
        ("No reasoning is needed.", "simple", 1.0),
        ("No reasoning is needed.", "complex", 0.0),
        ("A hydrant.", "simple", 0.0),
        ("simple and complex", "simple", 0.0),
        ("", "complex", 0.0),
        (None, "simple", 0.0),
        ("Reasoning is needed.", None, None),
        (None, None, None),
    ],
)
def test_sail_rl_3_2_judging_reward(judge, complexity, value) -> None:
    verdict = score_judging(response(judge), complexity)
    assert (verdict.name, verdict.value) == ("judging", value)
    assert verdict.reason


@pytest.mark.parametrize("judge", ["A hydrant.", "simple and complex", "", None])
def test_a_malformed_judge_section_says_so(judge) -> None:
    assert score_judging(response(judge), "simple").reason.startswith("malformed: ")


def test_sail_rl_3_2_only_the_decision_counts() -> None:
    """Thinking after deciding not to is not punished by this reward."""
    assert score_judging(response("simple", "long thoughts"), "simple").value == 1.0


def test_a_section_inside_think_is_no_decision() -> None:
    inside = parse_response("<think><judge>simple</judge></think><answer>2</answer>")
    assert score_judging(inside, "simple").value == 0.0


@pytest.mark.parametrize("complexity", ["hard", "", "Simple"])
def test_an_unknown_label_is_a_defect(complexity) -> None:
    with pytest.raises(ValueError, match="simple or complex"):
        score_judging(response("simple"), complexity)


@pytest.mark.parametrize(("complexity", "value"), [("simple", 1.0), ("complex", 0.0)])
def test_the_scorer_reads_the_label_of_the_question(run, case, complexity, value) -> None:
    labelled = case("<judge>simple</judge><think></think>\\boxed{2}", context=Context(complexity=complexity))
    assert run(SCORER.score(labelled)) == score_judging(labelled.response, complexity)
    assert run(SCORER.score(labelled)).value == value
