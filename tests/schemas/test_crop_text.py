"""The words in which a question is asked again with crops."""

import pytest

from groundtrace.schemas.crop_text import with_crops


@pytest.mark.parametrize(
    ("turn", "images", "crops", "said"),
    [
        ("<image>How many?", 1, 0, "<image>How many?"),
        ("<image>A", 1, 1, "<image><image>The first image is whole; behind it: 1 part of it, cut out.\nA"),
        ("<image>A\nB", 1, 3, "<image>" * 4 + "The first image is whole; behind it: 3 parts of it, cut out.\nA\nB"),
        (
            "<image><image>?",
            2,
            1,
            f"{'<image>' * 3}The first 2 images are whole; behind them: 1 part of them, cut out.\n?",
        ),
    ],
)
def test_with_crops(turn: str, images: int, crops: int, said: str) -> None:
    assert with_crops(turn, images, crops) == said


@pytest.mark.parametrize("turn", ["How many? <image>", "<image>A <image>", "A"])
def test_a_turn_whose_marks_stand_elsewhere_is_refused(turn: str) -> None:
    with pytest.raises(ValueError, match=r"must begin with one <image> mark for each image \(1 image\)"):
        with_crops(turn, 1, 2)
