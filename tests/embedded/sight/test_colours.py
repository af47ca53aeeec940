import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.embedded.sight.colours import find_palette, name_colour
from groundtrace.embedded.sight.labels import COLOURS


@pytest.mark.parametrize(
    ("rgb", "name"),
    [
        ((0, 0, 0), "black"),
        ((30, 30, 35), "black"),
        ((255, 255, 255), "white"),
        ((128, 128, 128), "grey"),
        ((211, 211, 211), "grey"),
        ((255, 0, 0), "red"),
        ((214, 39, 40), "red"),
        ((255, 127, 14), "orange"),
        ((255, 255, 0), "yellow"),
        ((44, 160, 44), "green"),
        ((0, 255, 0), "green"),
        ((0, 255, 255), "cyan"),
        ((0, 153, 255), "blue"),
        ((0, 0, 255), "blue"),
        ((31, 119, 180), "blue"),
        ((148, 103, 189), "purple"),
        ((128, 0, 128), "purple"),
        ((255, 105, 180), "pink"),
        ((255, 0, 255), "pink"),
        ((139, 69, 19), "brown"),
    ],
)
def test_names(rgb, name):
    assert name_colour(rgb) == name


@given(st.tuples(*[st.floats(-20, 300)] * 3))
def test_every_colour_has_a_known_name(rgb):
    assert name_colour(rgb) in COLOURS


def test_palette_leaves_out_blurred_edges_and_keeps_rare_flat_colours():
    image = np.full((100, 100, 3), 211, np.uint8)
    image[10:40, 10:40] = (0, 0, 0)
    image[9, 10:40] = image[40, 10:40] = (105, 105, 105)
    image[70:76, 70:76] = (220, 30, 30)
    palette = find_palette(image)
    assert [name_colour(tuple(c)) for c in palette.centres] == ["grey", "black", "red"]
    assert palette.flat_share == pytest.approx(1 - (palette.index < 0).mean(), abs=1e-6)
    assert (palette.index[70:76, 70:76] == 2).all()


def test_palette_of_noise_explains_little():
    noise = np.random.default_rng(0).integers(0, 256, (100, 100, 3), np.uint8)
    assert find_palette(noise).flat_share < 0.86
