"""Labels that name alternatives or several kinds of things, beside those of one thing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.schemas.label_lists import names_several

SEVERAL = [
    "blue or red circle",
    "Blue/red circle",
    "circle/square",
    "circle | square",
    "and/or circle square",
    "circle, or square",
    "either circle or square",
    "circle vs square",
    "red circle and blue square",
    "red circle & blue square",
    "red circle, blue square",
    "red circle and a blue square",
    "the circle and the square",
    "circles and squares",
    "circle, square",
    "circle + square",
    "red circle as well as blue square",
    "red circle together with blue square",
    "man and woman in red",
    "traffic light and sign",
]
ONE = [
    "red circle",
    "black and white cat",
    "black-and-white cat",
    "red, white and blue flag",
    "large, red circle",
    "salt and pepper shaker",
    "rock and roll poster",
    "man in red and blue",
    "table with cup and saucer",
    "circle to the left of the square and the triangle",
    "square (red)",
    "square, red",
    "woman, smiling",
    "24/7 sign",
    "oriental door",
    "black and white",
    "and",
    "",
]


@pytest.mark.parametrize(("label", "expected"), [(each, True) for each in SEVERAL] + [(each, False) for each in ONE])
def test_names_several(label: str, expected: bool) -> None:
    assert names_several(label) is expected


@given(st.text(max_size=60))
def test_any_label_is_read(label: str) -> None:
    assert names_several(label) in (True, False)
