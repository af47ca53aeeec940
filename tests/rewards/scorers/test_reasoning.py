"""The reasoning reward: Argos Eq. 5 or a yes/no of the judge; none at all is 0, and a judge that fails fails it."""

import json
import math

import pytest

from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import Continuation
from groundtrace.rewards.locating import ServedRoles
from groundtrace.rewards.scorers.reasoning import SCORER, score_reasoning
from groundtrace.schemas.quoting import MAX_CHARS


@pytest.mark.parametrize(("supports", "value"), [("yes", 1.0), ("no", 0.0), ("cannot_judge", None)])
def test_argos_eq5_yes_or_no(run, scripted, question, supports, value) -> None:
    caller = scripted(judge=[json.dumps({"reason": "it follows", "supports": supports})])
    verdict = run(score_reasoning(question(), "two of them", "2", caller))
    assert (verdict.name, verdict.value, verdict.failed) == ("reasoning", value, value is None)
    assert "Eq. 5" in verdict.reason
    assert "it follows" in verdict.reason
    ((role, prompt, _),) = caller.asked
    assert (role, prompt.name) == ("judge", "judge_reasoning.v3")
    assert [part.uri for part in prompt.media] == ["input:scene.png"]


@pytest.mark.parametrize(
    ("reasoning", "predicted"), [(None, "2"), ("", "2"), (" \n", "2"), ("two of them", None), (None, None)]
)
def test_no_reasoning_and_no_answer_are_0_and_ask_nobody(run, scripted, question, reasoning, predicted) -> None:
    caller = scripted()
    verdict = run(score_reasoning(question(), reasoning, predicted, caller))
    assert (verdict.value, verdict.failed, verdict.reason) == (0.0, False, "there is no reasoning, or no answer")
    assert caller.asked == []


@pytest.mark.parametrize("text", ["<answer>2</answer>", "<think> \n</think><answer>2</answer>"])
def test_a_response_without_reasoning_is_0(run, scripted, case, text) -> None:
    verdict = run(SCORER.score(case(text, scripted(), ServedRoles(frozenset({"judge"})))))
    assert (verdict.value, verdict.failed) == (0.0, False)


@pytest.mark.parametrize(
    "reply",
    [
        "yes",
        "{}",
        '{"supports": true}',
        '{"supports": "maybe"}',
        '{"supports": null}',
        '{"supports": ["yes"]}',
        CallError(Failure.TIMEOUT, "no reply in time"),
    ],
)
def test_a_judge_without_a_verdict_fails_it(run, scripted, question, reply) -> None:
    verdict = run(score_reasoning(question(), "two of them", "2", scripted(judge=[reply])))
    assert (verdict.value, verdict.failed) == (None, True)
    assert verdict.reason.startswith("judge: ")


def test_the_judge_sees_no_endless_reasoning(run, scripted, question) -> None:
    caller = scripted(judge=['{"supports": "yes"}'])
    run(score_reasoning(question(), "x" * 100_000, "2", caller))
    shown = caller.asked[0][1].variable("reasoning")
    assert shown.count("x") == MAX_CHARS
    assert f"CUT {caller.asked[0][1].variable('mark')}" in shown


def test_argos_eq5_is_the_probability_of_the_whole_answer(run, scripted, question) -> None:
    """ln 0.5 + ln 0.8 + ln 0.5: P = 0.2."""
    caller = scripted(judge=[(math.log(0.5), math.log(0.8), math.log(0.5))])
    verdict = run(score_reasoning(question(), "two of them", "2", caller))
    assert verdict.value == pytest.approx(0.2)
    assert "Eq. 5" in verdict.reason
    ((role, prompt, _),) = caller.asked
    assert (role, prompt.name) == ("judge", "answer_after_reasoning.v1")
    assert caller.continued == [Continuation("<think>two of them</think> <answer>", "2</answer>")]


def test_rounding_above_a_probability_of_one_counts_as_one(run, scripted, question) -> None:
    assert run(score_reasoning(question(), "two of them", "2", scripted(judge=[(0.0, 1e-9)]))).value == 1.0


@pytest.mark.parametrize(
    ("first", "said"),
    [((), "no log-probabilities came back"), (CallError(Failure.UNSUPPORTED, "no such field"), "no such field")],
)
def test_a_judge_that_gives_no_log_probabilities_fails_it(run, scripted, question, first, said) -> None:
    verdict = run(score_reasoning(question(), "two of them", "2", scripted(judge=[first, (0.0,)])))
    assert (verdict.value, verdict.failed) == (None, True)
    assert said in verdict.reason


def test_reasoning_too_long_to_show_is_left_to_the_question(run, scripted, question) -> None:
    caller = scripted(judge=['{"supports": "no"}', (0.0,)])
    assert run(score_reasoning(question(), "x" * (MAX_CHARS + 1), "2", caller)).value == 0.0


POINTS = (
    '<points x1="45" y1="35" alt="yellow square">a</points> <points x1="215" y1="65" alt="yellow square">b</points>'
)


@pytest.mark.parametrize(
    ("asked", "reasoning", "predicted", "value"),
    [
        ("How many yellow squares are there?", POINTS, "2", 1.0),
        ("How many yellow squares are there?", POINTS, "3", 1.0),  # how many places there are is the points' check
        ("How many yellow squares are there?", f"{POINTS} So there are 2.", "3", 0.0),
        ("How many yellow squares are there?", "none at all", "0", 1.0),
        ("What is the man doing?", POINTS, "2", None),
        ("How many yellow squares are there?", POINTS, "two", 1.0),
        ("What is the man doing?", "The man is riding. So the answer is riding.", "riding", 1.0),
        ("Is there a square?", "I see one. So the answer is no.", "yes", 0.0),
        ("Is there a square?", "I see one.", "yes", None),
    ],
)
def test_the_embedded_judge_reads_conclusions_and_counts_no_places(
    with_models, question, asked, reasoning, predicted, value
) -> None:
    verdict = with_models(lambda models: score_reasoning(question(question=asked), reasoning, predicted, models))
    assert (verdict.value, verdict.failed) == (value, value is None), verdict.reason
