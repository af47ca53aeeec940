"""The prompts of a row with several streams, and which of them are scored together."""

from typing import Any

import pytest

from groundtrace.rewards.case import Context
from groundtrace.rewards.rows.row import TrainingRow, per_stream, together
from groundtrace.schemas.records import Question

TURN = {"role": "user", "content": "?"}
BOTH = (("grounded", "with boxes?"), ("textual", "in words?"))


def row_of(id: str = "q", stream: str | None = None, streams: Any = ()) -> TrainingRow:
    question = Question(id, "drawn", "CC0-1.0", (), "?", "3", "numeric")
    return TrainingRow(id, "drawn", (TURN,), (), question, context=Context(stream=stream), streams=streams)


def test_a_row_is_asked_once_in_each_stream() -> None:
    assert per_stream(row_of()) == [row_of()]
    found = per_stream(row_of(streams=BOTH))
    assert [(each.context.stream, each.messages[0]["content"]) for each in found] == list(BOTH)
    assert all(each.streams == () for each in found)
    assert [each.context.stream for each in per_stream(row_of(streams=BOTH), ["textual"])] == ["textual"]
    assert per_stream(row_of(streams=BOTH[1:]), ["grounded"]) == []


@pytest.mark.parametrize(
    ("prompts", "places"),
    [
        ("", []),
        ("q", [[0]]),
        ("q q", [[0], [1]]),
        ("qg qt", [[0, 1]]),
        ("qg qt qg qt", [[0, 1], [2, 3]]),
        ("qt rt rg q", [[0], [1, 2], [3]]),
        ("qt q qg", [[0], [1], [2]]),
    ],
)
def test_neighbours_that_ask_one_question_in_different_streams_are_scored_together(
    prompts: str, places: list[list[int]]
) -> None:
    streams = {"": None, "g": "grounded", "t": "textual"}
    assert together([row_of(each[0], streams[each[1:]]) for each in prompts.split()]) == places
