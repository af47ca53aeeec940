"""Tags that are called the top or the base of a tower, against the blocks of the image."""

import numpy as np
import pytest

from groundtrace.embedded.marked_text import read_marked
from groundtrace.embedded.scenes import Scene
from groundtrace.embedded.tower_ends import wrong_end_of_tower
from groundtrace.grading.responses.tags import format_points_tag

GREY, WHITE, BLUE, YELLOW = (211, 211, 211), (255, 255, 255), (0, 0, 255), (255, 255, 0)


def towers() -> Scene:
    """Return two boxes: blue on blue on the left; yellow on blue on yellow on the right."""
    pixels = np.full((100, 400, 3), GREY, np.uint8)
    pixels[:, 175:225] = WHITE
    for x, y, colour in [(80, 80, BLUE), (80, 59, BLUE), (300, 80, YELLOW), (300, 59, BLUE), (300, 38, YELLOW)]:
        pixels[y : y + 20, x : x + 20] = colour
    return Scene(lambda: pixels)


def tag(y: float, inner: str | None = None, x: float = 310, label: str = "yellow square") -> str:
    return format_points_tag(label, [(x, y)], inner=inner)


@pytest.mark.parametrize(
    ("reasoning", "is_wrong"),
    [
        (f"The base of the right tower is {tag(48, 'its lowest block')}, which is yellow. So yes.", True),
        (f"The base of the right tower is {tag(48)}.", True),
        (f"{tag(90)} is the top of the right tower.", True),
        (f"I look at {tag(69, 'the topmost block', label='blue square')}.", True),
        (f"{tag(70, x=90, label='blue square')} forms the base of the left tower.", True),
        (f"The base of the right tower is {tag(90, 'its lowest block')}, which is yellow. So yes.", False),
        (f"The top of the right tower is {tag(48)}, its base is {tag(90)}.", False),
        (f"{tag(48, 'the top block of the right tower')} is yellow.", False),
        (f"{tag(69, 'the top blue block', label='blue square')} is in the middle.", False),
        (f"{tag(90)} is not the top of the right tower.", False),
        (f"The block below {tag(48)} is the middle of the tower.", False),
        (f"The block above {tag(69, label='blue square')} is the top. {tag(20, 'the top block')}", False),
        (f"Is {tag(90)} the top of the right tower? No.", False),
    ],
)
def test_ends_of_towers(reasoning: str, is_wrong: bool) -> None:
    assert (wrong_end_of_tower(read_marked(reasoning), towers()) is not None) == is_wrong


def test_nothing_is_checked_without_towers() -> None:
    reasoning = read_marked(f"{tag(90, 'the top block')}.")
    scattered = np.full((100, 400, 3), GREY, np.uint8)
    scattered[80:100, 300:320] = scattered[10:30, 310:330] = YELLOW
    assert wrong_end_of_tower(reasoning, Scene(lambda: scattered)) is None
    assert wrong_end_of_tower(reasoning, None) is None
