"""The reasoning reward: a yes/no of the judge for Argos Eq. 5; all else is unscored."""

import json
import math

import pytest

from inference.errors import CallError, Failure
from inference.request import Continuation
from rewards.scorers.reasoning import score_reasoning
from schemas.quoting import MAX_CHARS


@pytest.mark.parametrize(("supports", "value"), [("yes", 1.0), ("no", 0.0), ("cannot_judge", None)])
def test_argos_eq5_yes_or_no(run, scripted, question, supports, value) -> None:
    caller = scripted(judge=[json.dumps({"reason": "it follows", "supports": supports})])
    verdict = run(score_reasoning(question(), "two of them", "2", caller))
    assert (verdict.name, verdict.value) == ("reasoning", value)
    assert "Eq. 5" in verdict.reason
    assert "it follows" in verdict.reason
    ((role, prompt, _),) = caller.asked
    assert (role, prompt.name) == ("judge", "judge_reasoning.v3")
    assert [part.uri for part in prompt.media] == ["input:scene.png"]


@pytest.mark.parametrize(
    ("reasoning", "predicted"), [(None, "2"), ("", "2"), (" \n", "2"), ("two of them", None), (None, None)]
)
def test_nothing_to_judge_is_unscored_and_asks_nobody(run, scripted, question, reasoning, predicted) -> None:
    caller = scripted()
    assert run(score_reasoning(question(), reasoning, predicted, caller)).value is None
    assert caller.asked == []


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
def test_a_judge_without_a_verdict_is_unscored(run, scripted, question, reply) -> None:
    assert run(score_reasoning(question(), "two of them", "2", scripted(judge=[reply]))).value is None


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


def test_without_log_probabilities_nothing_is_scored(run, scripted, question) -> None:
    assert run(score_reasoning(question(), "two of them", "2", scripted(judge=[()]))).value is None


def test_a_judge_that_fails_to_give_them_leaves_it_unscored(run, scripted, question) -> None:
    caller = scripted(judge=[CallError(Failure.UNSUPPORTED, "no such field"), (0.0,)])
    assert run(score_reasoning(question(), "two of them", "2", caller)).value is None


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
        ("How many yellow squares are there?", POINTS, "3", 0.0),
        ("How many yellow squares are there?", "none at all", "0", 1.0),
        ("What is the man doing?", POINTS, "2", None),
        ("How many yellow squares are there?", POINTS, "two", None),
    ],
)
def test_the_embedded_judge_counts_points(with_models, question, asked, reasoning, predicted, value) -> None:
    verdict = with_models(lambda models: score_reasoning(question(question=asked), reasoning, predicted, models))
    assert verdict.value == value
