"""The policy that never looks: answers and places by the wording of a question."""

import json

import pytest

from benchmarks.learning.held import COUNTED
from benchmarks.learning.never_looks import NeverLooks, constant_accuracy
from groundtrace.grading.input_record import InputRecord, parse_record
from groundtrace.schemas.records import RawRecord

LEFT, RIGHT = [10, 10, 50, 50], [80, 10, 120, 50]


def record(number: int, question: str, answer: str, boxes: list[list[int]], scene: int = 0) -> InputRecord:
    made = {
        "id": f"q{number}",
        "source": "scenes",
        "license": "CC0-1.0",
        "media": [f"images/{scene}.png"],
        "question": question,
        "answer": answer,
        "answer_type": "numeric",
        "boxes": [{"label": "red square", "bbox": box} for box in boxes] or None,
    }
    return parse_record(RawRecord(number, json.dumps(made)))


COUNT = "How many red squares are there in the image?"
READ = [
    *(record(n, COUNT, "1", [LEFT]) for n in range(6)),
    *(record(6 + n, COUNT, "2", [LEFT, RIGHT]) for n in range(2)),
    *(record(8 + n, "How many circles are there in the image?", "0", []) for n in range(3)),
]


def test_it_answers_and_points_as_other_scenes_with_this_wording() -> None:
    policy = NeverLooks(READ)
    assert policy.answer(record(0, COUNT, "5", [])) == "1"
    assert policy.answer(record(0, "How many triangles are there in the image?", "5", [])) == "1"
    assert policy.points(COUNT) == {("red square", 0, 0)}, "a second place would be right in a quarter of the scenes"
    assert policy.points("How many circles are there in the image?") == set()


def test_its_counts_are_by_scene() -> None:
    held = [
        record(0, COUNT, "1", [LEFT], 0),
        record(1, COUNT, "2", [LEFT, RIGHT], 1),
        record(2, COUNT, "3", [RIGHT], 1),
    ]
    by_id = {each.id: each for each in held}
    found = [dict(zip(COUNTED, row, strict=True)) for row in NeverLooks(READ).counts(by_id).tolist()]
    shown = ("answers", "right", "boxes", "points", "boxes found", "exact")
    assert [[row[name] for name in shown] for row in found] == [[1, 1, 1, 1, 1, 1], [2, 0, 3, 2, 1, 0]]
    assert len(NeverLooks(READ).counts(by_id, questions=1)) == 1
    assert constant_accuracy(by_id) == pytest.approx(1 / 3)
