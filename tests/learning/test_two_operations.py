"""The toy of two operations: what is hidden, what a response gets, and one short run of the whole."""

import asyncio
from pathlib import Path

import pytest

from benchmarks.learning.two_operations import (
    OPERATIONS,
    Ask,
    asked_for,
    hidden,
    question_row,
    run_seed,
    trajectory_row,
)
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.schemas.records import Question
from groundtrace.trainer.environments.single_turn import NoSettings

IDS = [f"q{number}" for number in range(200)]


def test_only_the_right_operation_has_the_answer() -> None:
    for id in IDS:
        assert hidden(id, "red") != hidden(id, "blue")
        assert question_row(id)["answer"] == str(hidden(id, asked_for(id)))
        assert asked_for(id) in question_row(id)["question"]
    assert 70 < sum(asked_for(id) == "red" for id in IDS) < 130
    answers = [question_row(id)["answer"] for id in IDS]
    assert max(answers.count(each) for each in set(answers)) < 40, "guessing is of little use"


def test_what_a_response_gets() -> None:
    async def play() -> None:
        ask = Ask(NoSettings())
        await ask.reset(TrainingRow("q1", "", (), (), Question("q1", "", "", (), "", "", "numeric")))
        assert (await ask.step("ask red!")).text == str(hidden("q1", "red"))
        assert (await ask.step("ask green!")).text == "unknown"
        assert (await ask.step("<answer>1</answer>")).is_done
        assert (await ask.result()).failed == (False, True, False)

    asyncio.run(play())


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_trajectory_reads_the_result_of_its_call(operation: str) -> None:
    _, call, result, answer = (turn["content"] for turn in trajectory_row("q1", operation)["messages"])
    assert (call, answer) == (f"ask {operation}!", f"<answer>{result}</answer>")


@pytest.mark.slow
def test_a_short_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_seed(tmp_path, 0, sft_steps=2, steps=1, questions=4)
    assert set(found) == {"start", "grpo", "shuffled"}
    assert "seed 0, held out: start" in capsys.readouterr().out
