"""Sections between tags: those that a regular expression finds, in a time that grows with the length alone."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.sections import Section, Sections

PIECES = ("<code>", "</code>", "<CODE >", "</code\n>", "<answer>", "</answer>", "x", " ", "<code", "<", "</")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("<code>", []),
        ("</code><code>", []),
        ("a<code>b</code>c", [Section("code", "b", 1, 15)]),
        ("<code>a<code>b</code>c</code>", [Section("code", "a<code>b", 0, 21)]),
        ("<answer>1</answer><code>b</code>", [Section("answer", "1", 0, 18), Section("code", "b", 18, 32)]),
        ("<code><answer>1</answer></code>", [Section("code", "<answer>1</answer>", 0, 31)]),
        ("<code>" * 3 + "<answer>1</answer>", [Section("answer", "1", 18, 36)]),
    ],
)
def test_sections(text: str, found: list[Section]) -> None:
    assert [*Sections("code", "answer").all(text)] == found
    assert Sections("code", "answer").first(text) == (found[0] if found else None)


@given(st.lists(st.sampled_from(PIECES), max_size=24).map("".join))
def test_as_a_regular_expression_finds_them(text: str) -> None:
    lazy = re.compile(r"<(code|answer)\s*>(.*?)</\1\s*>", re.DOTALL | re.IGNORECASE)
    expected = [(each[1].lower(), each[2], *each.span()) for each in lazy.finditer(text)]
    assert [
        (each.name, each.content, each.start, each.end) for each in Sections("code", "answer").all(text)
    ] == expected


def test_each_character_is_searched_a_few_times_only() -> None:
    """Thousands of tags that are unclosed, or closed far behind; a search for each of them would take minutes."""
    assert Sections("code", "answer").first("<code>" * 100_000) is None
    assert len([*Sections("code", "answer").all("<answer>" * 100_000 + "<code>x</code>" * 10_000)]) == 10_000
    far = "<code><answer></code>" * 100_000 + "</answer>"
    assert len([*Sections("code", "answer").all(far)]) == 100_000


def test_letters_that_only_case_makes_equal() -> None:
    """``ſ`` is a small s to a regular expression that ignores case."""
    assert Sections("answer").first("<an\u017fwer>1</ANSWER>") == Section("answer", "1", 0, 18)
