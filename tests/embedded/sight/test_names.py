"""Names of single objects: class, end of the image, panel, size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.embedded.sight.names import read_name
from groundtrace.schemas.labels import MAX_LABEL_CHARS

LABELS = ("blue square", "blue square", "black circle", "blue triangle")
BOXES_PX = (
    (10.0, 60.0, 30.0, 80.0),
    (160.0, 10.0, 170.0, 20.0),
    (320.0, 30.0, 350.0, 60.0),
    (340.0, 70.0, 360.0, 90.0),
)
PANELS = ((0.0, 0.0, 100.0, 100.0), (150.0, 0.0, 250.0, 100.0), (300.0, 0.0, 400.0, 100.0))


@pytest.mark.parametrize(
    ("name", "among"),
    [
        ("blue square", [0, 1]),
        ("blue block", [0, 1]),
        ("blue square shape", [0, 1]),
        ("blue shape", [0, 1, 3]),
        ("square (blue)", [0, 1]),
        ("triangle that is blue", [3]),
        ("blue-colored triangle", [3]),
        ("black ball", [2]),
        ("blue box", [0, 1]),
        ("visible blue square in the image", [0, 1]),
        ("leftmost blue square", [0]),
        ("left-most object", [0]),
        ("blue square on the far left", [0]),
        ("rightmost blue object", [3]),
        ("topmost blue square", [1]),
        ("lowest object", [3]),
        ("blue square in the middle box", [1]),
        ("blue square of the right box", []),
        ("object in the last box", [2, 3]),
        ("small blue square", [0, 1]),
        ("tiny circle", []),
        ("large circle", [2]),
        ("medium-sized blue triangle", [3]),
        ("huge blue shape", [0, 3]),
        # the rank from a side
        ("second object from the left", [1]),
        ("second blue object from the right", [1]),
        ("blue object second from left", [1]),
        ("second-from-the-top object", [2]),
        ("third highest object", [0]),
        ("first blue square from the left", [0]),
        ("fifth object from the left", [0, 1, 2, 3]),  # there are four: nothing is told
        # the ends in other words
        ("blue object closest to the left edge", [0]),
        ("object nearest the bottom", [3]),
        ("extreme right object", [3]),
        ("the most left object", [0]),
        # panels
        ("middle box blue square", [1]),
        ("blue square (right box)", []),
        ("blue square, left panel", [0]),
        ("left box's blue square", [0]),
        ("blue square in box 2", [1]),
        ("blue square in the first container from the left", [0]),
        ("blue left square", [0, 1]),
        # sizes among their kind
        ("largest blue square", [0]),
        ("smallest of the blue squares", [1]),
        # colour and shape in other forms
        ("square in blue", [0, 1]),
        ("triangle with blue fill", [3]),
        ("square of blue color", [0, 1]),
        ("round black shape", [2]),
        ("blue triangular item", [3]),
        ("blue one", [0, 1, 3]),
        ("bright blue square", [0, 1]),
        # what says which by other things, or within a part, is taken as it is given
        ("blue square next to the black circle", [0, 1]),
        ("blue square directly below a triangle", [0, 1]),
        ("top blue block of the left tower", [0, 1]),
        ("topmost blue square of the second stack", [0, 1]),
        ("isolated blue square in the corner", [0, 1]),
        ("blue square all the way on the left", [0, 1]),
        ("circle (above the blue triangle)", [2]),
        ("blue square b", [0, 1]),
        # unknown words beside a colour and its noun are no claims about these
        ("yet another blue square", [0, 1]),
        ("very small blue square", [0, 1]),
        ("really big black circle", [2]),
        ("blue square that touches the black circle", [0, 1]),
        ("blue square supporting a yellow circle", [0, 1]),
        ("blue square contained in the middle box", [1]),
        ("blue square (leftmost)", [0]),
        ("square whose color is blue", [0, 1]),
        ("blue square2", [0, 1]),
    ],
)
def test_what_a_name_picks_out(name: str, among: list[int]) -> None:
    found = read_name(name)
    assert found is not None
    assert found.among(LABELS, BOXES_PX, PANELS) == among


@pytest.mark.parametrize(
    "name",
    [
        *("", "left", "top corner", "here", "middle", "not a blue square", "gizmo", "tower", "square circle", "box"),
        *("base of the tower", "dog next to the blue square", "teal square", "striped square", "blue dog", "blue star"),
        *("edge of the blue square", "space above a blue square", "all but the blue square", "non-blue square"),
        *("blue square (the black one)", "blue square and black circle", "yet another blue square that is black"),
        *("blue dog supporting the blue square", "seen blue square circle", "circle, yet another blue square"),
        *("blue square or purple hexagon or something else", "x" * (MAX_LABEL_CHARS + 1)),
    ],
)
def test_what_names_nothing(name: str) -> None:
    assert read_name(name) is None


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    found = read_name(text)
    assert found is None or set(found.among(LABELS, BOXES_PX, ())) <= set(range(len(LABELS)))
