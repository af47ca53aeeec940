import json

import pytest

from inference.families.base import Family
from inference.families.registry import family_of
from inference.grounding import BadReply
from schemas.coordinates import CoordinateFrame
from schemas.geometry import Box, Point
from schemas.records import MediaRef
from schemas.responses.pointing import NoPoints, RawPoint

WIDTH, HEIGHT = 560, 280
IMAGE = MediaRef("input:a.png", "image", "s", "p", "d", WIDTH, HEIGHT, 1, 1)
POINTS = {  # (140, 70) as each family writes it
    "plain": '<point x="140" y="70" alt="dog">dog</point>',
    "molmo": '<point x="25.0" y="25.0" alt="dog">dog</point>',
    "molmo2": '<points coords="1 1 250 250">dog</points>',
    "qwen2.5-vl": '<point x="140" y="70" alt="dog">dog</point>',  # 560x280 stays as it is
    "qwen3-vl": '<point x="250" y="250" alt="dog">dog</point>',
    "gemini": '<point x="250" y="250" alt="dog">dog</point>',
}
BOXES = {  # (140, 70, 280, 140) as each family writes it
    "plain": [140, 70, 280, 140],
    "molmo": [25, 25, 50, 50],
    "molmo2": [250, 250, 500, 500],
    "qwen2.5-vl": [140, 70, 280, 140],
    "qwen3-vl": [250, 250, 500, 500],
    "gemini": [250, 250, 500, 500],
}


@pytest.mark.parametrize("name", POINTS)
def test_points_are_read_into_pixels(name: str) -> None:
    assert family_of(name).points(POINTS[name], "red dog", IMAGE, 2) == (Point("red dog", 140.0, 70.0, 2),)


@pytest.mark.parametrize("name", BOXES)
def test_boxes_are_read_into_pixels(name: str) -> None:
    reply = json.dumps({"boxes": [BOXES[name]]})
    assert family_of(name).boxes(reply, "dog", IMAGE, 0) == (Box("dog", 140.0, 70.0, 280.0, 140.0, media_index=0),)


def test_gemini_writes_y_first() -> None:
    reply = json.dumps({"boxes": [[0, 250, 1000, 500]]})
    (box,) = family_of("gemini").boxes(reply, "dog", IMAGE, 0)
    assert (box.x1, box.y1, box.x2, box.y2) == (140.0, 0.0, 280.0, 280.0)


def test_qwen25_writes_pixels_of_the_resized_image() -> None:
    large = MediaRef("input:a.png", "image", "s", "p", "d", 8000, 4000, 1, 1)  # resized to 5068x2520
    (point,) = family_of("qwen2.5-vl").points('<point x="2534" y="1260" alt="dog">dog</point>', "dog", large, 0)
    assert (point.x, point.y) == (pytest.approx(4000), pytest.approx(2000))


@pytest.mark.parametrize("name", POINTS)
def test_none_and_nonsense_are_told_apart(name: str) -> None:
    assert family_of(name).points("There are none.", "dog", IMAGE, 0) == ()
    for read in (family_of(name).points, family_of(name).boxes):
        with pytest.raises(BadReply):
            read("I would rather not say.", "dog", IMAGE, 0)


def test_a_family_may_read_replies_in_its_own_way() -> None:
    def points(text: str) -> tuple[RawPoint, ...] | NoPoints:
        return tuple(RawPoint("", *map(float, pair.split())) for pair in text.split(";")) if text else NoPoints(text)

    def boxes(text: str) -> list[list[str]]:
        return [row.split() for row in text.split(";")]

    own = Family("own", CoordinateFrame.UNIT, read_points=points, read_boxes=boxes)
    assert own.points("0.5 0.5;1 0", "dog", IMAGE, 0) == (Point("dog", 280.0, 140.0, 0), Point("dog", 560.0, 0.0, 0))
    assert own.points("", "dog", IMAGE, 0) == ()
    assert own.boxes("0 0 0.5 1", "dog", IMAGE, 0) == (Box("dog", 0.0, 0.0, 280.0, 280.0, media_index=0),)
    with pytest.raises(BadReply, match="lies outside"):
        own.points("2 0", "dog", IMAGE, 0)
