"""Numbers in plain words: read where all of the reply is accounted for, else refused or left to others."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.inference.families.prose import MAX_CHARS, rows_in_prose
from groundtrace.inference.grounding import BadReply

POINTS = [
    ("[12, 34]", [[12, 34]]),
    ("(1.5, -2)", [[1.5, -2]]),
    ("[[12, 34], [56, 78]]", [[12, 34], [56, 78]]),
    ("```json\n[\n  [12, 34],\n  [56, 78]\n]\n```", [[12, 34], [56, 78]]),
    ("The dog is at (12, 34).", [[12, 34]]),
    ("The dogs in the image are at (12, 34) and (56, 78).", [[12, 34], [56, 78]]),
    ("Dog: [12, 34]", [[12, 34]]),
    ("**Dog**: [12, 34]", [[12, 34]]),
    ("The dogs are located at:\n1. (12, 34)\n2. (56, 78)", [[12, 34], [56, 78]]),
    ("- Dog 1: (12, 34)\n- Dog 2: (56, 78)", [[12, 34], [56, 78]]),
    ("dog_1: (12, 34)\ncat: (56, 78)", [[12, 34]]),
    ("I found 2 dogs: (12, 34), and (56, 78).", [[12, 34], [56, 78]]),
    ("The center of the dog is (12, 34).", [[12, 34]]),
    ("The small dog is at (12, 34).", [[12, 34]]),
]
BOXES = [
    ("dog(1,2),(3,4)", [[1, 2, 3, 4]]),
    ("dog[[1, 2, 3, 4], [5, 6, 7, 8]]\ncat[[9, 9, 10, 10]]", [[1, 2, 3, 4], [5, 6, 7, 8]]),
    ("The bounding box coordinates of the dog are [1, 2, 3, 4].", [[1, 2, 3, 4]]),
]
REFUSED = [
    "[12, 34, 56]",
    "[[12, 34], [56]]",
    "[[12, 34], 56]",
    "[[12, 34], [56, 78]",
    "(12, 34), (56, 78)",  # two points, or the corners of a box
    "The bounding box of the dog is [[12, 34], [56, 78]].",
    "The dog's top left corner is (12, 34).",
    "The dog goes from (12, 34).",
    "The dog is not at (12, 34).",
    "There’s no dog; I can’t see one at (12, 34).",
    "The dog is at (12, 34). Wait, it is at (56, 78).",
    "The cat is at (12, 34).",
    "The dog is at (12, 34) and the cat is at (56, 78).",
    "cat: (12, 34)\ntree: (56, 78)",
    "In the range [0, 1000]: [[12, 34]]",
    "Within [0, 1000] the dog is at [12, 34].",
    "[0, 1000]: dog [[12, 34]]",
    "The image is [640, 480].",
    "The 640x480 image has a dog at (12, 34).",
    "There are 3 dogs: (12, 34).",
    "The dog is at pixel (12, 34).",
    "The format is [x1, y1]: [12, 34]",
    "blue dog: (12, 34)",
]
LEFT_TO_OTHERS = ["", "There are none.", "A dog (brown).", '{"x": 12}', "<point>[12, 34]", "[12%, 34%]", "x = [12, 34]"]


@pytest.mark.parametrize(("text", "rows"), POINTS)
def test_points(text: str, rows: list[list[float]]) -> None:
    assert rows_in_prose(text, 2, "dog") == rows


@pytest.mark.parametrize(("text", "rows"), BOXES)
def test_boxes(text: str, rows: list[list[float]]) -> None:
    assert rows_in_prose(text, 4, "dog") == rows


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_clear(text: str) -> None:
    with pytest.raises(BadReply):
        rows_in_prose(text, 2, "red dog" if "blue" in text else "dog")


@pytest.mark.parametrize("text", LEFT_TO_OTHERS)
def test_what_is_no_prose_with_numbers(text: str) -> None:
    assert rows_in_prose(text, 2, "dog") is None


def test_a_word_of_the_label_is_no_doubt() -> None:
    assert rows_in_prose("The exit to the hall is at (12, 34).", 2, "exit to the hall") == [[12, 34]]


def test_a_text_that_is_too_long() -> None:
    assert rows_in_prose("[12, 34]" + " " * MAX_CHARS + ".", 2, "dog") is None


@given(
    st.lists(st.sampled_from(["[1, 2]", "(3,4)", "dog", " ", "\n", ":", "- ", "and", "not", "5", "[", ")", "is at"]))
    .map("".join)
    .filter(str.strip)
)
def test_any_text_is_rows_or_a_bad_reply(text: str) -> None:
    try:
        rows = rows_in_prose(text, 2, "dog")
    except BadReply:
        return
    assert rows is None or all(row in ([1, 2], [3, 4]) for row in rows)
    assert rows is None or not re.search(r"\bnot\b", text)
