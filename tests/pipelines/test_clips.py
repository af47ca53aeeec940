"""Clips through the whole pipeline, with models that look at the frames they are sent."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from .clip_server import FRAMES, HEIGHT, HZ, WIDTH, ClipWorld, find, serving, write_clip

ROLES = ("policy", "teacher", "pointer", "judge", "detector", "segmenter")


@dataclass(frozen=True)
class ClipRun:
    """A finished run and the world that served it."""

    ran: Any
    world: ClipWorld


@pytest.fixture(scope="module")
def clip_run(
    tmp_path_factory: pytest.TempPathFactory, write_records: Callable[..., Path], run_beam: Callable
) -> ClipRun:
    """A run over two clips whose only traces are three: points off, right, and the wrong direction."""
    home = tmp_path_factory.mktemp("clips")
    (home / "data").mkdir()
    write_clip(home / "data" / "moving.mp4")
    write_clip(home / "data" / "moving.avi", "avi", "mpeg4")
    rows = [
        {"id": f"clip-{n}", "media": name, "question": "Does the red square move to the right?", "answer": "yes"}
        for n, name in enumerate(["moving.mp4", "moving.avi"])
    ]
    data = write_records(home / "data", [row | {"answer_type": "bool", "source": f"s{row['id']}"} for row in rows])
    world = ClipWorld()
    with serving(world) as url:
        endpoint = f'[endpoints.seeing]\nkind = "openai"\nbase_url = "{url}"\nmodel = "seeing"\nfamily = "plain"\n'
        roles = "".join(f'{role} = "seeing"\n' for role in ROLES)
        (home / "config.toml").write_text(f"allow_self_judging = true\n{endpoint}[roles]\n{roles}", "utf-8")
        settings = ["trace.n=3", "split.sft_ratio=1.0", "dedup.near=false", "video.max_frames=8"]
        words = [word for setting in (*settings, "leak.ask=none") for word in ("--set", setting)]
        ran = run_beam(data, home / "run", "--config", str(home / "config.toml"), *words)
    assert ran.code == 0, ran.err
    return ClipRun(ran, world)


def test_clips_become_rows(clip_run: ClipRun) -> None:
    assert clip_run.ran.ends == {"clip-0": "sft", "clip-1": "sft"}
    assert {"propose_video", "extract_video", "judge_segment", "detect", "segment"} <= set(clip_run.world.asked)


def test_a_row_has_its_frames_with_numbers_and_times(clip_run: ClipRun) -> None:
    for row in clip_run.ran.rows("sft"):
        assert [frame["frame"] for frame in row["frames"]] == list(range(1, 9))
        times = [frame["t_s"] for frame in row["frames"]]
        assert (times[0], times[-1]) == (0.0, pytest.approx((FRAMES - 1) / HZ))
        assert len(row["images"]) == 8
        asked = row["messages"][0]["content"]
        assert asked.count("<image>") == 8
        assert "Frame 8 (2.30 s): <image>" in asked
        for frame, image in zip(row["frames"], row["images"], strict=True):
            box = find(decoded(image["bytes"]), "red")
            assert box is not None
            assert box[0] == pytest.approx(10 + 4 * HZ * frame["t_s"], abs=3)


def test_only_the_right_trace_is_kept(clip_run: ClipRun) -> None:
    for row in clip_run.ran.rows("sft"):
        assert "moves to the right" in row["messages"][1]["content"]
        assert row["scores"]["temporal"] == 1.0
        assert row["scores"]["spatial"] is None
        for point in row["points"]:
            assert point["t_s"] == row["frames"][point["frame"] - 1]["t_s"]
            assert point["x"] == pytest.approx(20 + 4 * HZ * point["t_s"], abs=3)
            assert point["y"] == pytest.approx(30, abs=3)


def test_overlays_are_of_the_frames_with_points(clip_run: ClipRun) -> None:
    for row in clip_run.ran.rows("sft"):
        assert len(row["overlays"]) == 8
        originals = [decoded(image["bytes"]) for image in row["images"]]
        for overlay, original in zip(row["overlays"], originals, strict=True):
            drawn = decoded(overlay["bytes"])
            scale = drawn.shape[0] // original.shape[0]
            assert drawn.shape == (HEIGHT * scale, WIDTH * scale, 3)


def test_the_report_shows_frames_with_their_times(clip_run: ClipRun) -> None:
    page = (clip_run.ran.folder / "report.html").read_text("utf-8")
    assert "frame 1 (0.00 s)" in page
    assert "data:image/" in page


def test_run_json_balances(clip_run: ClipRun) -> None:
    clip_run.ran.check_balance(2)
    summary = json.loads((clip_run.ran.folder / "run.json").read_text("utf-8"))
    assert summary["counts"]["sft"] == 2


def decoded(data: bytes) -> np.ndarray:
    return cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
