"""The prompts of held-out rows: a trajectory is asked from its beginning, without what its code showed later."""

from collections.abc import Mapping
from dataclasses import replace

from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.schemas.records import Question
from groundtrace.trainer.validation.validator import first_prompt

ASKED = Question("q", "drawn", "", (), "How many?", "3", "numeric")


def row_of(*messages: Mapping[str, str], images: int) -> TrainingRow:
    return TrainingRow("q", "drawn", messages, tuple((b"", f"{place}.png") for place in range(images)), ASKED)


def test_an_rl_row_is_asked_as_it_is() -> None:
    row = row_of({"role": "user", "content": "<image><image>How many?"}, images=2)
    assert first_prompt(row) is row


def test_a_trace_is_left_out() -> None:
    ask, answer = {"role": "user", "content": "<image>How many?"}, {"role": "assistant", "content": "3"}
    assert first_prompt(row_of(ask, answer, images=1)) == row_of(ask, images=1)


def test_a_trajectory_begins_anew() -> None:
    turns = (
        {"role": "system", "content": "Look first."},
        {"role": "user", "content": "<image>How many?"},
        {"role": "assistant", "content": "<code>show()</code>"},
        {"role": "user", "content": "<interpreter><image></interpreter>"},
        {"role": "assistant", "content": "3"},
    )
    row = row_of(*turns, images=2)
    assert first_prompt(row) == replace(row, messages=turns[:2], images=row.images[:1])
