"""Stated places against the points: boxes and thirds of an image, and relations between two things."""

import numpy as np
import pytest

from groundtrace.embedded.marked_text import read_marked
from groundtrace.embedded.pointed_places import misplaced
from groundtrace.embedded.scenes import Scene
from groundtrace.grading.responses.tags import format_points_tag

BLACK, YELLOW, GREY, WHITE = (0, 0, 0), (255, 255, 0), (211, 211, 211), (255, 255, 255)
SHAPES = [((20, 20, 40, 40), BLACK), ((60, 60, 80, 80), YELLOW), ((180, 20, 200, 40), YELLOW)]
SHAPES += [((320, 60, 340, 80), BLACK), ((360, 20, 380, 40), BLACK)]


def image(has_bars: bool) -> Scene:
    """Return three grey boxes with white bars between them, or one grey area, with the same shapes."""
    pixels = np.full((100, 400, 3), GREY, np.uint8)
    for x in (100, 250) if has_bars else ():
        pixels[:, x : x + 50] = WHITE
    for (x1, y1, x2, y2), colour in SHAPES:
        pixels[y1:y2, x1:x2] = colour
    return Scene(lambda: pixels)


def tag(label: str, *places: tuple[float, float], inner: str | None = None) -> str:
    return format_points_tag(label, places, inner=inner)


K1, Y1, Y2 = tag("black square", (30, 30)), tag("yellow square", (70, 70)), tag("yellow square", (190, 30))
K2, K3 = tag("black square", (330, 70)), tag("black square", (370, 30))
BOXES, AREA = image(True), image(False)


@pytest.mark.parametrize(
    "reasoning",
    [
        f"The left box has {K1}, {K2} and {K3}, so there are three.",
        f"{K1}, {K2}, {K3}: all 3 black squares are in the left box.",
        f"{K1}, {K2}, {K3}. All of them are in the right box.",
        f"The yellow square {Y2} lies in the left box.",
        f"{K2} is in the middle box.",
        f"{K1}, which sits in the right grey box.",
        f"In the middle box there is {K1}.",
        f"Left box: {K1}, {Y1}. Middle box: {K2}.",
        f"{Y2} in the left box, {K2} in the right box.",
        f"First, in the left box, I see {Y2}.",
        f"The black square in the left box is {K2}.",
    ],
)
def test_wrong_boxes(reasoning: str) -> None:
    assert misplaced(read_marked(reasoning), BOXES) is not None


@pytest.mark.parametrize(
    "reasoning",
    [
        f"The left box has {K1} and {Y1}.",
        f"{K1} in the left box, {K2} and {K3} in the right box.",
        f"In the left box I see {K1} and {Y1}, and {Y2} is in the middle box.",
        f"In the left box there is {K1}, and {K2} in the right box.",
        f"Left box: {K1}, {Y1}. Middle box: {Y2}. Right box: {K2}, {K3}.",
        f"{K1} and {Y2}; the right box contains {K2}.",
        f"{K2} is not in the left box.",
        f"{K2} lies in the left box. Wait, it is in the right one.",
        f"Is {K2} in the left box? No.",
        f"The square next to {Y2} lies in the left box.",
        f"{K1}, {K2}. All small circles are in the left box.",
        f"One in the left box, {K1}, and two in the right box, {K2}, {K3}.",
        f"{tag('black square', (130, 50))} is in the left box.",
        f"{K1} is in the left part of the box, {K3} is in the left corner.",
        f"{tag('black square', (30, 30), (330, 70), inner='black squares')} in the image.",
        f"The right box has {K2} and {K3}. All black squares in the left box: {K1}.",
    ],
)
def test_right_boxes(reasoning: str) -> None:
    assert misplaced(read_marked(reasoning), BOXES) is None


@pytest.mark.parametrize(
    ("reasoning", "is_wrong"),
    [
        (f"{K2} is in the left third of the image.", True),
        (f"{K1} lies in the right half of the picture.", True),
        (f"{K1} lies in the bottom half of the image.", True),
        (f"{K2} is in the left box.", True),
        (f"{Y2} is in the left half of the image.", False),
        (f"{K1} is in the left box.", False),
        (f"{Y2} is in the right box.", False),
        (f"{K1} lies in the top half of the image.", False),
        (f"{Y2} is in the middle box.", False),
    ],
)
def test_thirds_of_an_image_without_boxes(reasoning: str, is_wrong: bool) -> None:
    assert (misplaced(read_marked(reasoning), AREA) is not None) == is_wrong


@pytest.mark.parametrize(
    ("reasoning", "is_wrong"),
    [
        (f"{K1} is right of {Y2}.", True),
        (f"{K2} lies to the left of {K1}.", True),
        (f"{K1} is below {Y1}.", True),
        (f"{Y1} sits directly on top of {K1}.", True),
        (f"{K1} and {Y1}, which is above {K2}. {Y1} is above {K1}.", True),
        (f"{K1} and {Y1}. The black square is below the yellow square.", True),
        (f"{K1} is left of {Y2}.", False),
        (f"{Y1} is below {K1}, so {K1} is above {Y1}.", False),
        (f"{K1} sits on {Y1}, which sits on {tag('blue square', (70, 90))}.", False),
        (f"{K1} is not right of {Y2}.", False),
        (f"The square below {K1} is above {K1}.", False),
        (f"{Y2} is above {K1}.", False),
        (f"{K1}, {K2} and {Y1}. The black square is below the yellow square.", False),
        (f"{K1} and {Y1}. The circle is below the yellow square.", False),
        (f"If {K1} is right of {Y2}, the statement holds.", False),
        (f"{tag('black square', (30, 30), (330, 70))} is right of {Y2}.", False),
        (f"{K1} is left of the yellow square. {Y2}.", False),
    ],
)
def test_relations(reasoning: str, is_wrong: bool) -> None:
    assert (misplaced(read_marked(reasoning), None) is not None) == is_wrong
