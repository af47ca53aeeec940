"""A folder with records as rows to ask: in the words of the shards, and each broken one with its reason."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from groundtrace.grading.question_text import user_text
from groundtrace.rewards.rows.records import Records
from groundtrace.rewards.rows.row import UnusableRow
from groundtrace.rewards.rows.shards import ShardError
from groundtrace.schemas.records import MediaRef

from ...trainer.runs import SAMPLE, Command, records, write_records

MEDIA = "images/dev-662-1-0.png"


def test_a_record_as_a_row() -> None:
    rows = Records(SAMPLE)
    assert len(rows) == 120
    found = rows[2]
    assert (found.id, found.source) == ("nlvr-dev-662-1-0-c0", "lil-lab/nlvr")
    assert (found.question.answer, found.question.answer_type, found.question.choices) == ("1", "numeric", None)
    assert found.images == (((SAMPLE / MEDIA).read_bytes(), f"input:{MEDIA}"),)
    assert found.question.gold_boxes is not None
    [box] = found.question.gold_boxes
    assert (box.label, box.x1, box.y1, box.x2, box.y2) == ("blue triangle", 7, 46, 27, 66)
    assert (found.entities, found.pointable) == (("blue triangle",), ("blue triangle",))


def test_the_words_are_those_of_the_shards() -> None:
    """A model that was trained on the pipeline's rows is asked in the same words."""
    row = Records(SAMPLE)[2]
    medium = MediaRef("run:media/x.png", "image", "", "", "", 400, 100, 1, 1)
    [turn] = row.messages
    assert turn == {"role": "user", "content": user_text(dataclasses.replace(row.question, media=(medium,)))}
    assert turn["content"].startswith("<image>How many blue triangles")


def test_choices_and_several_pictures(tmp_path: Path) -> None:
    (record,) = records("662-1-0-c0")
    changed = {"media": [MEDIA, "images/dev-3949-1-0.png"], "answer": "red", "choices": ["red", "blue"], "boxes": None}
    row = Records(write_records(tmp_path, [record | changed | {"answer_type": "mcq"}]))[0]
    assert row.messages[0]["content"].startswith("<image><image>")
    assert "A. red\nB. blue" in row.messages[0]["content"]
    assert len(row.images) == 2
    assert row.pointable == ()


BROKEN: list[tuple[dict[str, Any] | str, str]] = [
    ("{", "line 2: the record is not JSON"),
    ("[1]", "line 2: the record must be a JSON object"),
    ({"id": ""}, "line 2: id: the value is missing or empty"),
    ({"question": None}, "line 2: question: the value is missing or empty"),
    ({"answer_type": "colour"}, "line 2: answer_type: 'colour' is not one of"),
    ({"media": []}, "line 2: media: expected one or more paths"),
    ({"media": ["images/gone.png"]}, "line 2: no such file: 'input:images/gone.png'"),
    ({"media": ["../secret.png"]}, "line 2: 'input:../secret.png' is not a path inside the data folder"),
    ({"media": ["/etc/hostname"]}, "line 2: 'input:/etc/hostname' is not a path inside the data folder"),
    ({"media": ["images"]}, "line 2: no such file: 'input:images'"),
]


@pytest.mark.parametrize(("broken", "reason"), BROKEN)
def test_broken_records(broken: Any, reason: str, tmp_path: Path) -> None:
    """Each has its reason, and the records around it are read."""
    (record,) = records("662-1-0-c0")
    (tmp_path / "secret.png").write_bytes((SAMPLE / MEDIA).read_bytes())
    line = broken if isinstance(broken, str) else record | broken
    rows = Records(write_records(tmp_path / "data", [record, line, record | {"id": "last"}]))
    with pytest.raises(UnusableRow) as caught:
        rows[1]
    assert str(caught.value).startswith(reason)
    assert [rows[0].id, rows[2].id] == [record["id"], "last"]


def test_an_image_file_that_is_too_large(tmp_path: Path) -> None:
    """A sparse file of a few bytes on the disk would fill the memory; it is not read."""
    (record,) = records("662-1-0-c0")
    rows = Records(write_records(tmp_path, [record]))
    with (tmp_path / MEDIA).open("r+b") as stream:
        stream.truncate(2**40)
    with pytest.raises(
        UnusableRow, match=r"line 1: too_large: the file has 1099511627776 bytes, the limit is 268435456"
    ):
        rows[0]


def test_videos_are_left_out(tmp_path: Path) -> None:
    writer = cv2.VideoWriter(str(tmp_path / "clip.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 5, (32, 32))
    for _ in range(3):
        writer.write(np.full((32, 32, 3), 211, np.uint8))
    writer.release()
    (record,) = records("662-1-0-c0")
    rows = Records(write_records(tmp_path, [record | {"media": ["clip.avi"], "boxes": None}]))
    with pytest.raises(UnusableRow, match=r"nlvr-dev-662-1-0-c0: the record has a video, which cannot be evaluated"):
        rows[0]


def test_blank_lines_count_as_lines_and_not_as_records(tmp_path: Path) -> None:
    (record,) = records("662-1-0-c0")
    folder = write_records(tmp_path, [record, "", " \r", "{"])
    rows = Records(folder)
    assert len(rows) == 2
    with pytest.raises(UnusableRow, match="line 4"):
        rows[1]


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_written_on_windows(ending: str, tmp_path: Path, write: Callable[..., None]) -> None:
    write(tmp_path, "\ufeff", ending)
    assert Records(tmp_path)[0].id == "nlvr-dev-662-1-0-c0"


@pytest.fixture
def write() -> Callable[..., None]:
    def written(folder: Path, start: str, ending: str) -> None:
        write_records(folder, records("662-1-0-c0"))
        text = (folder / "records.jsonl").read_text("utf-8").replace("\n", ending)
        (folder / "records.jsonl").write_bytes((start + text).encode())

    return written


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_no_records(text: str, tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text(text, "utf-8")
    with pytest.raises(ShardError, match=r"records\.jsonl holds no records"):
        Records(tmp_path)


@pytest.mark.parametrize("folder", ["data", "named"])
def test_records_elsewhere(folder: str, tmp_path: Path, run: Command) -> None:
    """A stranger may have sent the folder, in which the file is a link to a private one."""
    data = write_records(tmp_path / "data", records("662-1-0-c0"))
    (tmp_path / "named").symlink_to("data")
    (data / "records.jsonl").rename(data / "lines.jsonl")
    (data / "records.jsonl").symlink_to("lines.jsonl")
    assert len(Records(tmp_path / folder)) == 1
    (data / "lines.jsonl").rename(tmp_path / "private.jsonl")
    (data / "records.jsonl").unlink()
    (data / "records.jsonl").symlink_to("../private.jsonl")
    said = f"{tmp_path / folder}/records.jsonl is a link to a file outside its folder: copy this file into the folder"
    with pytest.raises(ShardError) as refused:
        Records(tmp_path / folder)
    assert str(refused.value) == said
    run("eval", tmp_path / folder).check_refused(2, said)
