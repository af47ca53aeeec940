"""The kinds of operations in a program."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.operations import (
    COMPUTATION,
    DRAWING,
    TRANSFORM,
    operations_of,
    shows_nothing_but_constants,
)

KINDS = {
    "crop": ("part = input_image.crop((1, 2, 30 + 4, 5)); display(part)", (TRANSFORM,)),
    "crop by a slice": ("display(image[10:90, 20:60])", (TRANSFORM,)),
    "a whole row is no crop": ("row = image[3, :]", ()),
    "a slice that is set is no crop": ("image[1:3, 4:6] = 0", ()),
    "resize": ("import cv2; display(cv2.resize(image, (90, 90)))", (TRANSFORM,)),
    "rotate": ("display(input_image.rotate(90))", (TRANSFORM,)),
    "contrast": ("from PIL import ImageEnhance; display(ImageEnhance.Contrast(input_image).enhance(2))", (TRANSFORM,)),
    "draw": ("from PIL import ImageDraw; d = ImageDraw.Draw(m); d.rectangle(box); display(m)", (DRAWING,)),
    "draw with OpenCV": ("cv2.circle(image, (3, 4), 5, (255, 0, 0)); display(image)", (DRAWING,)),
    "plot": ("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()", (DRAWING,)),
    "arithmetic": ("a = 3.5\nprint(a * 2 - 1)", (COMPUTATION,)),
    "joining texts is none": ("print('a' + name, '%d' % n)", ()),
    "a measurement": ("print(np.count_nonzero(mask))", (COMPUTATION,)),
    "crop, then count": (
        "print(len(cv2.findContours(image[1:5, 2:6], 0, 1)[0]))",
        (TRANSFORM, COMPUTATION),
    ),
    "a crop between the least and the greatest": ("display(image.crop((min(xs), 0, max(xs), round(y))))", (TRANSFORM,)),
    "boxes that are drawn and numbered": ("d.rectangle(boxes[0]); d.text(xy, str(len(boxes)))", (DRAWING,)),
    "a length alone": ("print(len(shapes))", (COMPUTATION,)),
    "a maximum of pixels, and a crop": ("a.max(); display(image.crop(box))", (TRANSFORM, COMPUTATION)),
    "Python's filter is no transform": ("print(list(filter(None, [1])))", ()),
    "Python's reduce is no transform": ("import functools; print(functools.reduce(max, [1]))", ()),
    "a filter of an image": ("display(input_image.filter(blur))", (TRANSFORM,)),
    "nothing": ("x = 1\nprint(x)", ()),
    "no Python": ("this is no code", ()),
    "too deep": ("(" * 10_000, ()),
    "a null byte": ("x\0", ()),
}
IDLE = {
    "comments": ("# the answer is 3", True),
    "nothing": ("", True),
    "a constant": ("print(3)", True),
    "a text": ("print('there are 3 circles', sep=' ')", True),
    "a text with a constant in it": ("print(f'{3} circles')", True),
    "a constant with a name": ("x = 3", True),
    "a list": ("x = [1, -2, (3, 'a')]", True),
    "imports": ("import cv2\nfrom PIL import Image\npass", True),
    "a name": ("x = 3\nprint(x)", False),
    "a sum": ("print(1 + 2)", False),
    "a call": ("print(len(shapes))", False),
    "a loop": ("for i in range(3): pass", False),
    "no Python": ("this is no code", False),
}


@pytest.mark.parametrize(("code", "kinds"), KINDS.values(), ids=KINDS)
def test_kinds_of_operations(code: str, kinds: tuple[str, ...]) -> None:
    assert operations_of(code) == kinds


@pytest.mark.parametrize(("code", "is_idle"), IDLE.values(), ids=IDLE)
def test_programs_that_do_nothing(code: str, is_idle: bool) -> None:
    assert shows_nothing_but_constants(code) == is_idle


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    operations_of(text)
    shows_nothing_but_constants(text)
