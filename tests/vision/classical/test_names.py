"""Names of single objects: class, end of the image, panel, size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vision.classical.names import MAX_CHARS, read_name

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
        *("blue square or purple hexagon or something else", "x" * (MAX_CHARS + 1)),
    ],
)
def test_what_names_nothing(name: str) -> None:
    assert read_name(name) is None


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    found = read_name(text)
    assert found is None or set(found.among(LABELS, BOXES_PX, ())) <= set(range(len(LABELS)))
