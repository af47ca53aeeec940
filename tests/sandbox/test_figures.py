"""The images of one call: each is kept once, and those beyond the limit are counted."""

import pytest
from PIL import Image

from groundtrace.sandbox.inside.figures import Shown


@pytest.mark.parametrize(
    ("levels", "kept", "left_out"),
    [
        ((), 0, 0),
        ((1, 2), 2, 0),
        ((1, 1, 1), 1, 0),
        ((1, 2, 3), 2, 1),
        ((1, 2, 1, 2), 2, 0),
        ((1, 2, 3, 2, 4), 2, 2),
    ],
)
def test_images_are_kept_once_and_counted_beyond_the_limit(levels: tuple[int, ...], kept: int, left_out: int) -> None:
    shown = Shown(max_images=2, max_pixels=100)
    assert all(shown.add(Image.new("RGB", (4, 3), (level, 0, 0))) for level in levels)
    assert (len(shown.images), shown.left_out) == (kept, left_out)


@pytest.mark.parametrize("shown_before", [0, 2])
def test_what_has_no_pixels_is_not_counted(shown_before: int) -> None:
    shown = Shown(max_images=2, max_pixels=100)
    for level in range(shown_before):
        shown.add(Image.new("RGB", (4, 3), (level, 0, 0)))
    assert shown.add(Image.new("RGB", (0, 3))) and not shown.add("a text")
    assert (len(shown.images), shown.left_out) == (shown_before, 0)
