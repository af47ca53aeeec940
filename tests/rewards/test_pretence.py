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
    CallOutputs,
    Output,
    groups_of,
    looked_at,
    nudged,
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
    runs = CallOutputs(shown, given.pop("again", shown), given.pop("nudged", shown), (shown, without))
    return pretence(runs, IMAGE, ((), (BOX,)), **given)


def marked(x1: int, y1: int, x2: int, y2: int) -> Output:
    """The image with the outline of a box drawn on it."""
    image = IMAGE.copy()
    image[y1:y2, (x1, x2 - 1)] = image[(y1, y2 - 1), x1:x2] = (0, 0, 255)
    return Output("", (image,))


OBJECT, GONE = crop(IMAGE, 5, 5, 30, 30), crop(WITHOUT, 5, 5, 30, 30)
PIXEL = crop(IMAGE, 0, 0, 1, 1)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (judged(OBJECT, GONE), ""),
        (judged(Output("1 red\n"), Output("0 red\n")), ""),
        (judged(PIXEL, PIXEL), SHOWS_NOTHING),
        (judged(crop(IMAGE, 10, 10, 20, 20), crop(WITHOUT, 10, 10, 20, 20)), ""),
        (
            judged(Output("", (np.full((9, 9, 3), 90, np.uint8),)), Output("", (np.full((9, 9, 3), 93, np.uint8),))),
            SHOWS_NOTHING,
        ),
        (judged(Output(), Output()), SHOWS_NOTHING),
        (judged(Output(" \n"), Output(" \n")), SHOWS_NOTHING),
        (judged(Output("1\n"), Output("1\n")), IGNORES_OBJECTS),
        (judged(crop(IMAGE, 30, 0, 60, 25), crop(WITHOUT, 30, 0, 60, 25)), SHOWS_NOTHING),
        (judged(Output("here", PIXEL.images), Output("here", PIXEL.images)), IGNORES_OBJECTS),
        (judged(Output("", (IMAGE,)), Output("", (WITHOUT,))), SHOWS_ALL),
        (judged(crop(IMAGE, 1, 1, 59, 39), crop(WITHOUT, 1, 1, 59, 39)), SHOWS_ALL),
        (judged(Output("", (IMAGE[::2, ::2],)), Output("", (WITHOUT[::2, ::2],))), SHOWS_ALL),
        (judged(Output("", (IMAGE.repeat(2, 0).repeat(2, 1),)), Output("", (WITHOUT.repeat(2, 0),))), ""),
        (judged(Output("", (IMAGE.repeat(2, 0)[:41],)), Output("", (WITHOUT.repeat(2, 0)[:41],))), ""),
        (judged(Output("", (np.pad(IMAGE, ((0, 1), (0, 1), (0, 0)), "edge"),)), Output("", (WITHOUT,))), SHOWS_ALL),
        (judged(Output("red", (IMAGE,)), Output("red", (WITHOUT,))), IGNORES_OBJECTS),
        (judged(marked(8, 8, 22, 22), crop(WITHOUT, 0, 0, 60, 40)), ""),
        (judged(marked(12, 12, 15, 15), crop(WITHOUT, 0, 0, 60, 40)), ""),
        (judged(marked(40, 20, 50, 30), crop(WITHOUT, 0, 0, 60, 40)), SHOWS_ALL),
        (judged(marked(2, 2, 58, 38), crop(WITHOUT, 0, 0, 60, 40)), SHOWS_ALL),
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


def looks(shown: Output, nudged: Output, *without: Output) -> frozenset[int]:
    return looked_at(CallOutputs(shown, shown, nudged, without), IMAGE, ((BOX,),) * len(without))


def test_what_a_call_looked_at() -> None:
    shown = Output("2 and 1")
    assert looks(shown, shown, Output("1 and 1"), shown, Output("2 and 0")) == {0, 2}


@pytest.mark.parametrize(
    ("text", "nudged", "without", "is_look"),
    [
        ("d41d8cd9", "9a0364b9", "e4da3b7f", False),  # a hash
        ("3 shapes d41d8cd9", "3 shapes 9a0364b9", "3 shapes e4da3b7f", False),
        ("3 shapes d41d8cd9", "3 shapes 9a0364b9", "2 shapes e4da3b7f", True),
        (".25", ".5", ".75", False),
        ("187.32", "187.31", "188.9", False),  # a mean: nobody reads off it whether an object is there
        ("3", "3", "3   ", False),
        ("red", "red", "grey", True),
        ("[10, 12]", "[10, 12]", "[]", True),
        ("area 100", "area 100", "area 0", True),
        (
            "(211, 211, 211) 900, (255, 0, 0) 81",
            "(211, 211, 211) 899, (255, 0, 0) 81, (9, 9, 9) 1",
            "(211, 211, 211) 981",
            True,
        ),
        ("-3.5e2 cm", "-3.5e2 cm", "-2e2 cm", True),
        ("x" * 10_000 + "3", "x" * 10_000 + "3", "x" * 10_000 + "2", False),  # behind what is handed over
    ],
)
def test_which_change_of_a_text_is_a_look(text, nudged, without, is_look) -> None:
    assert looks(Output(text), Output(nudged), Output(without)) == ({0} if is_look else set())


def test_which_change_of_images_is_a_look() -> None:
    noise = [
        Output("", (np.random.default_rng(seed).integers(0, 256, (80, 99, 3)).astype(np.uint8),)) for seed in range(3)
    ]
    assert looks(*noise) == frozenset()
    assert looks(OBJECT, crop(nudged(IMAGE, (BOX,)), 5, 5, 30, 30), GONE, crop(WITHOUT, 5, 5, 31, 30), Output()) == {
        0,
        1,
        2,
    }
    assert looks(OBJECT, Output(), GONE) == frozenset()
    assert looks(Output("", (np.zeros((0, 5, 3), np.uint8),)), GONE, GONE) == frozenset()


def test_a_mark_counts_for_its_objects_alone() -> None:
    one, shown, gone = (BOX,), marked(8, 8, 22, 22), Output("", (WITHOUT,))
    other = (Box("x", 40, 20, 50, 30),)
    assert looked_at(CallOutputs(shown, shown, shown, (gone, gone, gone)), IMAGE, (one, other, one + other)) == {0}


def test_a_nudged_image_has_no_new_colours_and_leaves_the_objects() -> None:
    image = IMAGE.copy()
    image[:, 40:] = 90
    changed = (nudged(image, (BOX,)) != image).any(axis=2)
    assert 1 <= changed.sum() <= 8 and not changed[4:26, 4:26].any()
    assert {*map(tuple, nudged(image, (BOX,)).reshape(-1, 3))} == {*map(tuple, image.reshape(-1, 3))}


def test_an_image_is_nudged_at_the_objects_where_there_is_no_other_edge() -> None:
    assert (nudged(IMAGE, (BOX,)) != IMAGE).any() and (nudged(WITHOUT, ()) == WITHOUT).all()


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
