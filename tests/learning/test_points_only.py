"""The reward of pointing alone, by the embedded engine on a rendered scene."""

import contextlib
from pathlib import Path

import numpy as np
import pytest

from benchmarks.learning.scenes import IMAGE_PX, write_scenes
from groundtrace.grading.responses.response import format_point
from groundtrace.grading.responses.speech import Speech
from groundtrace.rewards.rows.records import Records
from groundtrace.rewards.rows.reward import Reward
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.schemas.coordinates import CoordinateFrame
from groundtrace.schemas.geometry import Box, Point

RECIPE = "benchmarks.learning.points_only:PointsOnly"


def text(row: TrainingRow, boxes: tuple[Box, ...], answer: str) -> str:
    points = [Point(box.label, (box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2) for box in boxes]
    shown = ", ".join(format_point(point) for point in points) or "nothing"
    return (
        f"<think>I find {shown}. Looking over the whole picture, there are {answer}.</think>\n<answer>{answer}</answer>"
    )


def test_pointing_earns_the_same_whether_the_answer_is_right_or_wrong(tmp_path: Path) -> None:
    write_scenes(tmp_path / "scenes", 12, seed=5, prefix="s")
    records = Records(tmp_path / "scenes")
    rows = [records[index] for index in range(len(records))]
    row = next(r for r in rows if r.question.answer_type == "numeric" and len(r.question.gold_boxes or ()) >= 2)
    empty = next(r for r in rows if r.question.answer_type == "numeric" and r.question.answer == "0")
    boxes = tuple(row.question.gold_boxes or ())
    corner = Box(boxes[0].label, 0, 0, 4, 4)
    gold, other = row.question.answer, str(int(row.question.answer) + 1)
    texts = [
        *(text(row, boxes, answer) for answer in (gold, other)),
        *(text(row, boxes[:1], answer) for answer in (gold, other)),
        *(text(row, (), answer) for answer in (gold, other)),
        text(row, (*boxes, corner), gold),
        text(row, (corner,), gold),
        text(row, boxes, gold).replace("</think>", ""),
    ]
    speech = Speech(CoordinateFrame.MOLMO100, 1)
    said = [speech.to_model(each, [(IMAGE_PX, IMAGE_PX)]) for each in texts]
    with contextlib.closing(Reward(RewardSettings(recipe=RECIPE), tmp_path / "out")) as reward:
        scored, nothing = reward.score(speech, [row, empty], [said, [text(empty, (), "3")]])
    found = np.array([each.reward for each in scored])
    assert found[:2] == pytest.approx([1.0, 1.0]) and 0.5 < found[2] == found[3] < 1
    assert found[4:6].tolist() == [0.0, 0.0] and 0.5 < found[6] < 1 and found[7:].tolist() == [0.0, 0.0]
    assert [each.outcome for each in scored[:4]] == [1.0, 0.0, 1.0, 0.0]
    assert (nothing[0].reward, nothing[0].outcome) == (1.0, 0.0)
