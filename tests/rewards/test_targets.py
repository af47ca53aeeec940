"""What a question asks to be pointed at, and which points are on it."""

import pytest

from groundtrace.rewards.locating import ServedRoles
from groundtrace.rewards.targets import Targets, is_target, targets_of
from groundtrace.schemas.geometry import Point

DETECTS = ServedRoles(frozenset({"detector", "segmenter"}))
SHAPES = {
    "circle": [(10, 10, 20, 20), (50, 10, 60, 20)],
    "black circle": [(10, 10, 20, 20)],
    "yellow circle": [(50, 10, 60, 20)],
    "wall": [(100, 0, 200, 90)],
}
COUNT = {"question": "How many black circles are there?", "answer_type": "numeric"}
IS_IT = {"question": "Is there a black circle?", "answer_type": "bool"}
BLACK = ("black circle",)
ITEMS = {"question": "Is there a box with 2 items and a black circle?", "answer_type": "bool"}
NO_COUNT = Targets(False, 0, reason="the answer is a count of 0")

FOUND = [
    ("a count, its things found by the pointer", COUNT | {"gold": "1", "pointable": BLACK}, Targets(True, 1, BLACK)),
    ("a count, found by the detector alone", COUNT | {"gold": "1", "entities": ("wall",)}, Targets(True, 1, BLACK)),
    ("a count, nobody told of what", COUNT | {"gold": "1", "entities": None}, Targets(True, 1, BLACK)),
    ("a count of none", COUNT | {"gold": "0", "pointable": ("wall",)}, NO_COUNT),
    (
        "a count of what nothing finds, beside something",
        COUNT | {"gold": "3", "question": "How many words are there?", "pointable": ("wall",)},
        Targets(True),
    ),
    (
        "a count of what nothing finds",
        COUNT | {"gold": "3", "question": "How many words are there?", "entities": ("word",)},
        Targets(False, reason="the pointer found no object of the question ('word')"),
    ),
    (
        "a count of what nothing finds, nobody told of what",
        COUNT | {"gold": "3", "question": "How many words are there?", "entities": None},
        Targets(None, reason="the detector does not find what is counted"),
    ),
    ("a count that is no whole number", COUNT | {"gold": "1.5", "pointable": BLACK}, Targets(True)),
    ("a count of things in general", COUNT | {"question": "How many objects?", "pointable": BLACK}, Targets(True)),
    ("yes or no", IS_IT | {"gold": "yes", "pointable": BLACK}, Targets(True)),
    (
        "yes or no, nothing found",
        IS_IT | {"gold": "no", "entities": BLACK},
        Targets(False, reason="the pointer found no object of the question ('black circle')"),
    ),
    (
        "yes or no, none of many found",
        IS_IT | {"gold": "no", "entities": tuple("abcdef")},
        Targets(False, reason="the pointer found no object of the question ('a', 'b', 'c', 'd', 'e' and more)"),
    ),
    (
        "yes or no, about no object",
        IS_IT | {"gold": "no", "entities": ()},
        Targets(False, reason="the question names no object"),
    ),
    (
        "yes or no, nobody told of what",
        IS_IT | {"gold": "yes", "entities": None},
        Targets(None, reason="no role names what the question is about"),
    ),
]


@pytest.mark.parametrize(("changes", "targets"), [row[1:] for row in FOUND], ids=[row[0] for row in FOUND])
def test_what_there_is_to_point_at(run, seeing, case, changes, targets) -> None:
    assert run(targets_of(case(caller=seeing(SHAPES), served=DETECTS, **changes))) == targets


ON_BLACK, ON_YELLOW, ON_WALL = (15, 15), (55, 15), (150, 45)
POINTED = [
    (COUNT | {"gold": "1", "pointable": BLACK}, "black circle", ON_BLACK, True),
    (COUNT | {"gold": "1", "pointable": BLACK}, "large black circle", ON_BLACK, True),
    (COUNT | {"gold": "1", "pointable": BLACK}, "circle", ON_BLACK, True),
    (COUNT | {"gold": "1", "pointable": BLACK}, "circle", ON_YELLOW, False),
    (COUNT | {"gold": "1", "pointable": BLACK}, "yellow circle", ON_YELLOW, False),
    (COUNT | {"gold": "1", "pointable": BLACK}, "disc", ON_BLACK, True),
    (COUNT | {"gold": "1", "pointable": (*BLACK, "wall")}, "wall", ON_WALL, False),
    (IS_IT | {"entities": BLACK, "pointable": BLACK}, "black circle", ON_BLACK, True),
    (IS_IT | {"entities": BLACK, "pointable": BLACK}, "yellow circle", ON_YELLOW, False),
    (IS_IT | {"entities": BLACK, "pointable": BLACK}, "circle", ON_BLACK, True),
    (IS_IT | {"entities": BLACK, "pointable": BLACK}, "circle", ON_YELLOW, False),
    (IS_IT | {"entities": ("round black circle",), "pointable": ("wall",)}, "circle", ON_BLACK, True),
    (IS_IT | {"entities": BLACK, "pointable": BLACK}, "wall", ON_WALL, False),
    (IS_IT | {"entities": (*BLACK, "wall"), "pointable": BLACK}, "wall", ON_WALL, True),
    (IS_IT | {"entities": None}, "black circle", ON_BLACK, True),
    # a label that fits all is right on a target, and neutral on anything else
    *(
        (asked | {"gold": gold, "entities": BLACK, "pointable": BLACK}, label, place, place == ON_BLACK)
        for asked, gold in ((COUNT, "1"), (IS_IT, "yes"), (ITEMS, "yes"))
        for label in ("object", "shape")
        for place in (ON_BLACK, ON_YELLOW)
    ),
    (ITEMS | {"entities": ("gizmo",), "pointable": ()}, "object", ON_YELLOW, True),  # of items in general
    # what is counted is named beside the thing itself, or among others
    (COUNT | {"gold": "1", "pointable": BLACK}, "yellow circle next to the black circle", ON_YELLOW, False),
    (COUNT | {"gold": "1", "pointable": BLACK}, "black or yellow circle", ON_YELLOW, False),
    (COUNT | {"gold": "1", "pointable": BLACK}, "black or yellow circle", ON_BLACK, True),
    *(
        (asked | {"gold": gold, "entities": BLACK, "pointable": BLACK}, label, place, place == ON_BLACK)
        for asked, gold in ((COUNT, "1"), (IS_IT, "yes"))
        for label in ("black or yellow circle", "black/yellow circle", "yellow circle & black circle")
        for place in (ON_BLACK, ON_YELLOW)
    ),
    (COUNT | {"gold": "1", "pointable": BLACK}, "leftmost black circle", ON_BLACK, True),
]


@pytest.mark.parametrize(("changes", "label", "place", "expected"), POINTED)
def test_which_points_are_on_a_target(run, seeing, case, changes, label, place, expected) -> None:
    given = case(caller=seeing(SHAPES), served=DETECTS, **changes)
    targets = run(targets_of(given))
    assert run(is_target(Point(label, *place), given, targets)) is expected
