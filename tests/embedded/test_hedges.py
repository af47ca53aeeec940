"""Tests of what a supposition leaves asserted, and of what settles it."""

import pytest

from groundtrace.embedded.hedges import asserted, without_settled

EITHER = "it could be a square or a rectangle"


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("there are two.", "there are two."),
        ("it might be 3, but there are two.", "there are two."),
        (f"{EITHER}.", ""),
        (f"{EITHER}, up close it is a square.", ", up close it is a square."),
        (f"{EITHER}, it lies on the left.", ""),
        ("if it were 3, the answer would be no.", ""),
    ],
)
def test_asserted_part(sentence: str, expected: str) -> None:
    assert asserted(sentence) == expected


@pytest.mark.parametrize(
    ("supposed", "behind", "settled"),
    [
        (EITHER, "on a closer look its sides are equal, so  §  is a square.", True),
        (EITHER, "it is clearly a square.", True),
        (EITHER, "a closer look shows a square.", True),
        ("it may be black", "looking closely, it is blue.", True),
        ("there may be two or three squares", "looking closely there are two squares.", True),
        (EITHER, "it is a square or a rectangle.", False),
        (EITHER, "on a closer look it could be either.", False),
        (EITHER, "on a closer look it is a triangle.", False),
        (EITHER, "it is not a square.", False),
        (EITHER, "is it a square?", False),
        (EITHER, "it lies next to a square.", False),
        (EITHER, "it is beside a square.", False),
        (EITHER, "there are 4 squares.", False),
        (EITHER, "it is black.", False),
        ("there may be two or three squares", "looking closely there are four squares.", False),
        ("something may be hidden", "it is a square.", False),
        (EITHER, "", False),
    ],
)
def test_settled_supposition(supposed: str, behind: str, settled: bool) -> None:
    assert (without_settled(f"{supposed};", behind) != f"{supposed};") is settled
