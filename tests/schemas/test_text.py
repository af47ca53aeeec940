"""Text that UTF-8 can hold or a terminal only shows, and numbers of things."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.schemas.control_text import find_control
from groundtrace.schemas.text import (
    alternatives,
    counted,
    dollars,
    duration_text,
    excerpt,
    folded,
    last_part,
    printable,
    say,
    storable,
    whole,
    without_password,
    words_in,
)


@given(st.text(st.characters()))
def test_any_text_can_be_encoded_and_good_text_is_left_alone(text: str) -> None:
    stored = storable(text)
    stored.encode("utf-8")
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert stored == text


def test_different_surrogates_stay_different() -> None:
    assert storable("id\ud800") == "id\\ud800"
    assert storable("id\ud800") != storable("id\ud801")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("a \N{GRINNING FACE} b", "a \N{GRINNING FACE} b"),
        ("\ud83d here", "\ufffd here"),
        ("a\udc00\ud800", "a\ufffd\ufffd"),
    ],
)
def test_half_characters_of_models_are_unreadable(text: str, expected: str) -> None:
    assert whole(text) == expected
    assert (find_control(text) is None) is (find_control(expected) is None) is (text == expected)


def test_one_thing_and_several() -> None:
    assert [counted(number, "record") for number in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
    assert [counted(number, "reply", "replies") for number in (1, 3)] == ["1 reply", "3 replies"]


def test_what_a_terminal_would_obey_is_spelt_out() -> None:
    assert printable("\x1b[2J\ud800 [b] ä\n") == "\\x1b[2J\\ud800 [b] ä\\n"


def test_what_is_said_is_one_line_each_and_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    say("fine ä", "\x1b]0;title\x07 \u202egpj.exe \u2066 \x9b2J", "two\nlines\r", file=sys.stderr)
    say("a")
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == (
        "a\n",
        ["fine ä", r"\x1b]0;title\x07 \u202egpj.exe \u2066 \x9b2J", r"two\nlines\r"],
    )


@pytest.mark.parametrize(("names", "written"), [(("a",), "a"), (("a", "b"), "a or b"), (("a", "b", "c"), "a, b or c")])
def test_alternatives(names: tuple[str, ...], written: str) -> None:
    assert alternatives(names) == written


def test_folded_text_ignores_case_and_blanks() -> None:
    assert folded("  The\n DOG ß") == folded("the dog SS") == "the dog ss"


def test_an_excerpt_is_at_most_80_characters() -> None:
    assert excerpt(["a", None]) == "['a', None]"
    assert excerpt("a" * 78) == "'" + "a" * 78 + "'"
    assert excerpt("a" * 79) == "'" + "a" * 76 + "..."


@pytest.mark.parametrize(
    ("usd", "words"),
    [
        (0, "$0.00"),
        (1234.5, "$1,234.50"),
        (0.01, "$0.01"),
        (0.0031, "$0.0031"),
        (0.009996, "$0.0100"),
        (2e-7, "$0.00000020"),
    ],
)
def test_dollars(usd: float, words: str) -> None:
    assert dollars(usd) == words


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3599, "1 h 0 min"), (12_000, "3 h 20 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [("", []), (" … !", []), ("Two cars, 3.", ["Two", "cars", "3"]), ("红色 car", ["红", "色", "car"])],
)
def test_words_in(text: str, words: list[str]) -> None:
    assert words_in(text) == words


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("a.png", "a.png"),
        ("folder/a.png", "a.png"),
        ("/data/set/", "set"),
        (r"C:\pictures\a#1.png", "a#1.png"),
        ("https://host/folder/a.png?key=b/c#d", "a.png"),
        ("see https://host/a.png?key=b", "a.png"),
        ("input:folder/a?b.png", "a?b.png"),
        ("", ""),
    ],
)
def test_the_last_part_of_a_path_or_address(path: str, part: str) -> None:
    assert last_part(path) == part


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no file https://me:hush@host/a.csv", "no file https://...@host/a.csv"),
        ("spark://u:hush@host:1 and a/@b", "spark://...@host:1 and a/@b"),
        ("hf://datasets/me:hush@x/y", "hf://datasets/...@x/y"),
        ("'https://host/q.csv?token=hush&page=2'", "'https://host/q.csv?token=...&page=2'"),
        ("https://host/?page=2&X-Amz-Signature=hush", "https://host/?page=2&X-Amz-Signature=..."),
        ("hf://org/set@v1 at 12:30@noon/a", "hf://org/set@v1 at 12:30@noon/a"),
    ],
)
def test_secrets_of_a_url_are_not_shown(text: str, shown: str) -> None:
    assert without_password(text) == shown
