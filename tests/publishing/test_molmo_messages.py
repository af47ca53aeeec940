"""Rows as molmo-utils' messages: the same frames at the same times as molmo-utils picks itself, and back to records."""

import json
from pathlib import Path
from typing import Any

import molmo_utils
import numpy as np
import pytest
from PIL import Image

import groundtrace as gt
from groundtrace.grading.input_record import InvalidRecord, parse_record
from groundtrace.grading.question_text import user_text
from groundtrace.pipelines.running.plan.inputs import find_input
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.records import MediaRef, Question
from groundtrace.stages.plumbing.rows import _frames
from groundtrace.stages.sources.base import RowSettings
from groundtrace.stages.sources.registry import read_source
from groundtrace.vision.checked_medium import check_medium
from groundtrace.vision.clips import VideoSettings
from groundtrace.vision.media import MediaStore
from tests.vision.clips import ClipSpec, number_of, write_clip

SAME = {"max_fps": None, "frame_sample_mode": "uniform_last_frame"}


def row_of(folder: Path, *names: str, frames: int = 8) -> dict[str, Any]:
    """What a run writes of a question about these media."""
    store = MediaStore(str(folder), str(folder / "run"))
    refs = [check_medium(f"input:{name}", store, VideoSettings(max_frames=frames)).ref for name in names]
    media = tuple(ref for ref in refs if isinstance(ref, MediaRef))
    assert len(media) == len(names)
    question = Question("q", "made", "CC0-1.0", media, "What <b>happens</b> in <i>?", "a fall", "text", None)
    images = [{"bytes": store.open_bytes(uri), "path": None} for ref in media for uri in ref.image_uris]
    turns = [{"role": "user", "content": user_text(question)}, {"role": "assistant", "content": "<answer>x</answer>"}]
    return {"id": "q", "messages": turns, "images": images, "frames": _frames(question)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.mp4").write_bytes(write_clip(ClipSpec(ticks=range(90))))
    (tmp_path / "one.mp4").write_bytes(write_clip(ClipSpec(ticks=range(1))))
    Image.new("RGB", (40, 30), (9, 99, 199)).save(tmp_path / "b.png")
    return tmp_path


@pytest.mark.parametrize("wanted", [2, 3, 8, 32])
def test_the_frames_are_those_that_molmo_utils_picks(wanted: int, folder: Path) -> None:
    own, told = molmo_utils.fetch_video({"video": str(folder / "a.mp4"), "num_frames": wanted, **SAME})
    messages = gt.molmo_messages(row_of(folder, "a.mp4", frames=wanted))
    images, [(ours, metadata)], options = molmo_utils.process_vision_info(messages)
    assert images is None
    assert options == {"do_sample_frames": False}
    assert [number_of(frame) for frame in ours] == [number_of(frame) for frame in own]
    assert ours.shape == own.shape
    picked = np.asarray(told["frames_indices"]) / told["fps"]
    said = np.asarray(metadata["frames_indices"]) / metadata["fps"]
    assert np.all(said <= picked + 1e-6), "a frame is on screen from its own time on"
    assert np.all(picked - said < 0.1 + 1e-6)


def test_media_stand_where_their_marks_stood(folder: Path) -> None:
    user, reply = gt.molmo_messages(row_of(folder, "b.png", "a.mp4", "a.mp4", "one.mp4"))
    assert [part["type"] for part in user["content"]] == [
        "image",
        "text",
        "video",
        "text",
        "video",
        "text",
        "image",
        "text",
    ]
    assert [len(part["video"]) for part in user["content"] if part["type"] == "video"] == [8, 8]
    texts = [part["text"] for part in user["content"] if part["type"] == "text"]
    assert [text.splitlines()[0] for text in texts[:3]] == [
        "Medium 2: a video clip, shown as 8 frames, the last at 8.90 s.",
        "Medium 3: a video clip, shown as 8 frames, the last at 8.90 s.",
        "Medium 4: a video clip, shown as its one frame, the last at 0.00 s.",
    ]
    assert "<image>" not in "".join(texts)
    assert texts[3].startswith("What <b>happens</b> in <i>?\n")
    assert reply["content"] == [{"type": "text", "text": "<answer>x</answer>"}]


def test_rows_that_are_none(folder: Path) -> None:
    row = row_of(folder, "b.png")
    for broken in ({"images": []}, {"images": row["images"] * 2}, {"messages": None}, {"images": None}):
        with pytest.raises(UserError):
            gt.molmo_messages(row | broken)


def records(folder: Path, *parts: dict[str, Any]) -> Any:
    turns = [{"role": "user", "content": [*parts, {"type": "text", "text": "What happens?"}]}]
    line = {"messages": [*turns, {"role": "assistant", "content": "a fall"}]}
    (folder / "q.jsonl").write_text(json.dumps(line), "utf-8")
    rows = RowSettings(shape="conversations", constants={"source": "made", "license": "CC0-1.0"})
    found = find_input(str(folder / "q.jsonl"), rows)
    [raw] = read_source(found.sources[0], rows, MediaStore(found.media_root, str(folder / "run")))
    return parse_record(raw)


def test_messages_of_molmo_utils_are_an_input(folder: Path) -> None:
    found = records(
        folder, {"type": "video", "video": "a.mp4", "num_frames": 8, **SAME}, {"type": "image", "image": "b.png"}
    )
    assert (found.media, found.question, found.answer) == (("input:a.mp4", "input:b.png"), "What happens?", "a fall")


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"video": "a.mp4", "clip": [1, 2]}, "a span of a video (clip), which cannot be read: save it"),
        ({"video": ["b.png"], "timestamps": [0.0]}, "a video given as frames, which cannot be read"),
    ],
)
def test_messages_that_are_refused(part: dict[str, Any], said: str, folder: Path) -> None:
    with pytest.raises(InvalidRecord) as refused:
        records(folder, {"type": "video", **part})
    assert said in refused.value.detail
