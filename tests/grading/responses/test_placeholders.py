"""Placeholders that go, and those that a sentence needs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.grading.responses.placeholders import has_remnants, without_placeholders, without_remnants

WORDS = [
    ("Which shows more dogs, <image 1> or <image 2>?", 2, "Which shows more dogs, picture 1 or picture 2?"),
    ("What is in <image>?", 1, "What is in the picture?"),
    ("Compare <image> with <image>.", 2, "Compare picture 1 with picture 2."),
    ("What happens in <video>?", 1, "What happens in the clip?"),
    ("<image 1> shows a cat. What is it?", 1, "Picture 1 shows a cat. What is it?"),
    ("Look at <image>How many?", 1, "Look at the picture How many?"),
    ("She cuts them like this\n<image1>\nand\n<image2>\nHow?", 1,
     "She cuts them like this\npicture 1\nand\npicture 2\nHow?"),
    ("Mike: <image1>\nJake: <image2>", 1, "Mike: picture 1\nJake: picture 2"),
    ("<image 1> is a map. What of?", 1, "Picture 1 is a map. What of?"),
    ("Is it like this: <image2>. Or not?", 1, "Is it like this: picture 2. Or not?"),
    ("the ant [image 1] walks", 1, "the ant picture 1 walks"),
    ("the piece (<image2>) is red", 1, "the piece (picture 2) is red"),
]  # fmt: skip
GONE = [
    ("<image 1>How many?", 1, "How many?"),
    ("<image> <image>Which is larger?", 2, "Which is larger?"),
    ("How many?\n<image1>\n<image2>", 2, "How many?\n"),
    ("Find x <image 1>", 1, "Find x "),
    ("Question: <image> What is it?", 1, "Question:  What is it?"),
    ("<image>\nis there a dog?", 1, "\nis there a dog?"),
    ("<image> is there a dog?", 1, " is there a dog?"),
    ("<image 1> are there dogs?", 1, " are there dogs?"),
    ("<image>\nIn the picture above, how many?", 1, "\nIn the picture above, how many?"),
]


@pytest.mark.parametrize(("text", "media_count", "read"), WORDS)
def test_a_word_of_a_sentence(text: str, media_count: int, read: str) -> None:
    assert without_placeholders(text, media_count) == read


@pytest.mark.parametrize(("text", "media_count", "read"), GONE)
def test_a_placeholder_that_stands_for_itself(text: str, media_count: int, read: str) -> None:
    assert without_placeholders(text, media_count) == read


PARTS = [
    "<image>",
    "<image 12>",
    "[IMG]",
    "</s>",
    "<|im_end|>",
    " ",
    "\n",
    "in ",
    "?",
    "x",
    "<",
    ">",
    "<image",
    "<|im_",
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PARTS)))
def test_none_is_left(parts: list[str]) -> None:
    text = without_remnants("".join(parts), 2)
    assert not has_remnants(text)
    assert without_remnants(text, 2) == text


@pytest.mark.parametrize("text", ["<image>", "a [IMG 3]", "<|IM_END|>", "[/INST]", "</s>"])
def test_remnants(text: str) -> None:
    assert has_remnants(text)


@pytest.mark.parametrize(
    "text", ["", "<images>", "[imagine]", "<image " + "1" * 5000 + ">", "<|x|>", "[3]", "<s", "a > s>"]
)
def test_no_remnants(text: str) -> None:
    assert not has_remnants(text)
