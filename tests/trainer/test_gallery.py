"""The rollouts that a run shows: plain lines, and pictures with the points and boxes on them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.rewards.rows.reward import Scored
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.schemas.records import Question, Verdict
from groundtrace.trainer.gallery import as_line, overlay_png, save_rollouts
from groundtrace.trainer.group import Group
from groundtrace.trainer.sampling import Rollout
from groundtrace.vision.decode import decode_image

from .runs import lines_of

POINT = '<points x1="20" y1="30" alt="red">red</points>'
BOX = "<box>[10,10,40,50]</box>"


@pytest.fixture
def row_of(png: Callable[..., bytes]) -> Callable[..., TrainingRow]:
    def made(id: str = "q", pictures: int = 1) -> TrainingRow:
        images = tuple((png(64, 64, seed), f"{seed}.png") for seed in range(pictures))
        return TrainingRow(id, "drawn", (), images, Question(id, "drawn", "", (), "How many?", "3", "numeric"))

    return made


def scored(text: str, reward: float | None = 1.0) -> Scored:
    return Scored(reward, reward, text, (Verdict("outcome", reward, "numeric: same"), Verdict("spatial", None, "none")))


@pytest.mark.parametrize("text", [POINT, BOX, f"{POINT} in {BOX}"])
def test_marks_are_drawn(text: str, row_of: Any) -> None:
    drawn = overlay_png(row_of(), text)
    assert drawn is not None
    pixels = decode_image(drawn).pixels
    original = decode_image(row_of().images[0][0]).pixels
    times = pixels.shape[0] // original.shape[0]  # a picture this small is enlarged, so that figures can be read
    enlarged = original.repeat(times, axis=0).repeat(times, axis=1)
    assert pixels.shape == enlarged.shape
    around = (slice(22 * times, 38 * times), slice(6 * times, 44 * times))
    assert (pixels[around] != enlarged[around]).any(), "something is drawn where the marks are"


@pytest.mark.parametrize("text", ["", "no marks", '<points x1="20" alt="red">red</points>'])
def test_nothing_to_draw(text: str, row_of: Any) -> None:
    assert overlay_png(row_of(), text) is None


def test_no_picture(row_of: Any) -> None:
    assert overlay_png(row_of(pictures=0), POINT) is None


def test_the_first_of_several_pictures(row_of: Any) -> None:
    assert overlay_png(row_of(pictures=2), POINT) == overlay_png(row_of(), POINT)


def test_a_line_of_plain_fields() -> None:
    assert as_line(scored("text", None)) == {
        "reward": None,
        "text": "text",
        "verdicts": {
            "outcome": {"value": None, "reason": "numeric: same"},
            "spatial": {"value": None, "reason": "none"},
        },
    }


def test_the_first_rollouts_of_the_first_groups(row_of: Any, tmp_path: Path) -> None:
    texts = (POINT, "ünmarked ‹line›\n", BOX)
    rollouts = (Rollout((1, 2), False),) * 3
    groups = [
        Group(row_of(f"q{number}"), None, rollouts, tuple(map(scored, texts)))  # type: ignore[arg-type]
        for number in range(3)
    ]
    save_rollouts(tmp_path / "a" / "b", groups)
    lines = lines_of(tmp_path / "a" / "b" / "rollouts.jsonl")
    assert [(line["id"], line["text"], line["overlay"]) for line in lines] == [
        ("q0", POINT, "0-0.png"),
        ("q0", "ünmarked ‹line›\n", None),
        ("q1", POINT, "1-0.png"),
        ("q1", "ünmarked ‹line›\n", None),
    ]
    assert all((line["gold"], line["reward"]) == ("3", 1.0) for line in lines)
    files = {path.name for path in (tmp_path / "a" / "b").iterdir()}
    assert files == {"rollouts.jsonl", "0-0.png", "1-0.png"}


def test_a_step_without_groups(tmp_path: Path) -> None:
    save_rollouts(tmp_path / "step", [])
    assert (tmp_path / "step" / "rollouts.jsonl").read_text("utf-8") == ""
