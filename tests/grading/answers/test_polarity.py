import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.answers.polarity import polarity


@pytest.mark.parametrize(
    ("text", "side"),
    [
        ("Yes", True),
        ("yes, there is no dog", True),
        ("No, it is not true", False),
        ("not false", True),
        ("I would say no", False),
        ("yes no", None),
        ("no nor yes", None),
        ("yes-no", None),
        ("Yes, no", None),
        ("Yes, that is false", None),
        ("maybe", None),
        ("", None),
        ("Y", True),
        ("Incorrect.", False),
        ("是。", True),
        ("不正确", False),
        ("That's not correct", False),
        ("not yes", False),
        ("on the right", None),
        ("the correct one", None),
        ("Correct or incorrect", None),
        ("Yes, that is incorrect", None),
        ("no idea", None),
        ("T-shirt", None),
    ],
)
def test_side(text: str, side: bool | None) -> None:
    assert polarity(text) is side


@given(st.lists(st.sampled_from(["yes", "no", "true", "false", "not", " ", ", ", ".", "/", "dog", "and"])).map("".join))
def test_any_text_takes_a_side_or_none(text: str) -> None:
    assert polarity(text) in {True, False, None}
    assert polarity(text.upper()) == polarity(text)
