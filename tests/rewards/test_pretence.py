"""Which outputs of calls are looks at the image."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.rewards.pretence import (
    DIFFERS_EACH_TIME,
    IGNORES_OBJECTS,
    REPEATS,
    SHOWS_ALL,
    SHOWS_NOTHING,
    Output,
    groups_of,
    looked_at,
    pretence,
    without_objects,
)
from groundtrace.schemas.geometry import Box

IMAGE = np.full((40, 60, 3), 200, np.uint8)
IMAGE[10:20, 10:20] = (255, 0, 0)
BOX = Box("red square", 10, 10, 19, 19)
WITHOUT = without_objects(IMAGE, (BOX,))


def crop(image: np.ndarray, x1: int, y1: int, x2: int, y2: int) -> Output:
    return Output("", (image[y1:y2, x1:x2],))


def judged(shown: Output, without: Output, **given) -> str:
    return pretence(shown, given.pop("again", shown), (shown, without), IMAGE, **given)


OBJECT, GONE = crop(IMAGE, 5, 5, 30, 30), crop(WITHOUT, 5, 5, 30, 30)
PIXEL = crop(IMAGE, 0, 0, 1, 1)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (judged(OBJECT, GONE), ""),
        (judged(Output("1 red\n"), Output("0 red\n")), ""),
        (judged(PIXEL, PIXEL), SHOWS_NOTHING),
        (judged(Output(), Output()), SHOWS_NOTHING),
        (judged(Output(" \n"), Output(" \n")), SHOWS_NOTHING),
        (judged(Output("1\n"), Output("1\n")), IGNORES_OBJECTS),
        (judged(crop(IMAGE, 30, 0, 60, 25), crop(WITHOUT, 30, 0, 60, 25)), SHOWS_NOTHING),
        (judged(Output("here", PIXEL.images), Output("here", PIXEL.images)), IGNORES_OBJECTS),
        (judged(Output("", (IMAGE,)), Output("", (WITHOUT,))), SHOWS_ALL),
        (judged(crop(IMAGE, 1, 1, 59, 39), crop(WITHOUT, 1, 1, 59, 39)), SHOWS_ALL),
        (judged(Output("", (IMAGE[::2, ::2],)), Output("", (WITHOUT[::2, ::2],))), SHOWS_ALL),
        (judged(Output("", (IMAGE.repeat(2, 0).repeat(2, 1),)), Output("", (WITHOUT.repeat(2, 0),))), ""),
        (judged(Output("1 red", (IMAGE,)), Output("0 red", (WITHOUT,))), ""),
        (judged(OBJECT, GONE, earlier=(Output("a"), OBJECT)), REPEATS),
        (judged(OBJECT, GONE, earlier=(crop(IMAGE, 5, 5, 29, 29),)), ""),
        (judged(Output(".25"), Output(".5"), again=Output(".75")), DIFFERS_EACH_TIME),
        (judged(Output("444\n"), Output("444\n"), computes=True), ""),
        (judged(Output("444\n"), Output("444\n"), computes=True, earlier=(Output("444\n"),)), REPEATS),
    ],
)
def test_pretence(found, expected) -> None:
    assert found == expected


def test_what_a_call_looked_at() -> None:
    shown = Output("2 and 1")
    assert looked_at(shown, (Output("1 and 1"), shown, Output("2 and 0"))) == {0, 2}


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, [0]), (1, [1]), (2, [1, 1]), (4, [1, 1, 1, 1]), (5, [1, 1, 1, 2]), (11, [2, 3, 3, 3])]
)
def test_groups_of(count, sizes) -> None:
    boxes = [Box("x", 10 * n, 0, 10 * n + 5, 5) for n in range(count)]
    groups = groups_of(boxes[::-1])
    assert [len(group) for group in groups] == sizes
    assert [box for group in groups for box in group] == boxes


def test_without_objects_paints_them_in_what_is_around_them() -> None:
    assert (WITHOUT == 200).all()


def test_without_boxes_every_part_of_the_image_is_another() -> None:
    turned = without_objects(IMAGE, ())
    assert turned.shape == IMAGE.shape and (turned != IMAGE).any(axis=2).all()


@given(st.lists(st.tuples(*[st.floats(-20, 80)] * 4), min_size=1, max_size=4))
def test_any_boxes_change_what_is_in_them_alone(places) -> None:
    boxes = [Box("x", min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d in places]
    painted = without_objects(IMAGE, boxes)
    inside = np.zeros(IMAGE.shape[:2], bool)
    for box in boxes:
        rows, columns = np.ogrid[:40, :60]
        inside |= (rows > box.y1 - 2) & (rows < box.y2 + 2) & (columns > box.x1 - 2) & (columns < box.x2 + 2)
    assert painted.dtype == np.uint8 and (painted == IMAGE)[~inside].all()


def test_a_box_of_the_whole_image_changes_it() -> None:
    assert (without_objects(IMAGE, (Box("x", 0, 0, 60, 40),)) != IMAGE).any()
