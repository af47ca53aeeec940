"""Control text: each family's tokens, characters that control, and all that only looks like them."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.placeholders import has_remnants, without_remnants
from groundtrace.schemas.control_text import END_TOKENS, FAMILY_TOKENS, find_control, without_end, without_hidden
from groundtrace.schemas.quoting import visible

TEXTS = json.loads((Path(__file__).parent / "data/control_text.json").read_text("utf-8"))
TOKENS = [(family, token.replace("{n}", "12")) for family, tokens in FAMILY_TOKENS.items() for token in tokens]


@pytest.mark.parametrize("family", FAMILY_TOKENS)
def test_each_token_of_a_family_is_found(family: str) -> None:
    missed = [token for of, token in TOKENS if of == family and find_control(f"A dog.{token} A cat.") != token]
    assert missed == []


def test_the_page_names_each_family_with_the_number_of_its_tokens() -> None:
    page = (Path(__file__).parents[2] / "docs/verification.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.split(" | ")] for line in page.splitlines()]
    told = {row[0].removeprefix("| "): row[2] for row in rows if len(row) == 4}
    assert {family: told.get(family) for family in FAMILY_TOKENS} == {
        family: str(len(tokens)) for family, tokens in FAMILY_TOKENS.items()
    }


@pytest.mark.parametrize("text", TEXTS["control"], ids=ascii)
def test_control_text(text: str) -> None:
    """Written before the list, but for what it leaves out on purpose: tool calls and characters for private use."""
    assert find_control(text)


@pytest.mark.parametrize("text", TEXTS["clean"], ids=ascii)
def test_code_mathematics_markup_and_other_scripts_are_none(text: str) -> None:
    assert find_control(text) is None
    assert without_hidden(text) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\x1b[31m", "U+001B"),
        ("\x00<|im_end|>", "U+0000"),
        ("caf\ufffd", "U+FFFD"),
        ("a\u202ebc", "U+202E"),
        ("yel\u2062low", "U+2062"),
        ("x<|endoftext|>\x00", "<|endoftext|>"),
        ("<|some_future_token|>", "<|some_future_token|>"),
        ("the norm <|x|>", None),
        ("one\ttwo\r\nthree", None),
    ],
)
def test_what_is_found_is_shown(text: str, said: str | None) -> None:
    assert find_control(text) == said


@given(st.text(), st.sampled_from(TOKENS), st.text())
def test_a_token_is_found_wherever_it_stands(before: str, token: tuple[str, str], behind: str) -> None:
    assert find_control(before + token[1] + behind)


SIGNS = st.characters(categories=["L", "N", "P", "S", "Zs"], exclude_characters="\ufffc\ufffd<＜[◁▁ĠĊ")


@given(st.text(alphabet=SIGNS))
def test_letters_numbers_and_signs_are_none(text: str) -> None:
    assert find_control(text) is None


PARTS = [*(token for _, token in TOKENS), "<", "|>", "a", " ", "\u202e", "\u200b", "<|", "["]
PIECES = st.lists(st.sampled_from(PARTS))


@given(PIECES)
def test_what_is_cleaned_and_what_a_judge_is_shown_holds_none(pieces: list[str]) -> None:
    text = "".join(pieces)
    cleaned = without_remnants(without_hidden(text))
    assert not has_remnants(cleaned)
    assert find_control(without_hidden(cleaned)) is None
    assert find_control(visible(text)) is None


@pytest.mark.parametrize("token", END_TOKENS)
def test_the_token_that_ends_a_response_is_taken_off_once(token: str) -> None:
    assert without_end(f"yes \n{token}\n") == "yes"
    assert without_end(f"yes{token}{token}") == f"yes{token}"
    assert without_end(f"{token}yes\n") == f"{token}yes\n"
