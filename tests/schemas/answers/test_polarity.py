import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.answers.polarity import polarity


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
    ],
)
def test_side(text: str, side: bool | None) -> None:
    assert polarity(text) is side


@given(st.lists(st.sampled_from(["yes", "no", "true", "false", "not", " ", ", ", ".", "/", "dog", "and"])).map("".join))
def test_any_text_takes_a_side_or_none(text: str) -> None:
    assert polarity(text) in {True, False, None}
    assert polarity(text.upper()) == polarity(text)
