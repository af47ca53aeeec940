"""API keys: from the environment or a file, named when missing, and kept out of every text."""

import base64
import html
import json
import os
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from groundtrace.inference.endpoints.keys import NO_KEY, api_key, scrub
from groundtrace.inference.settings import EndpointSettings

NAME = "GROUNDTRACE_TEST_KEY"
KEY = "sk-secret-0123456789"


def settings(**fields: str) -> EndpointSettings:
    return EndpointSettings("openai", "m", **fields)


def test_no_key_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert api_key(settings()) == NO_KEY


@pytest.mark.parametrize("value", [KEY, f"  {KEY}\n"])
def test_from_the_environment(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(NAME, value)
    assert api_key(settings(api_key_env=NAME)) == KEY


@pytest.mark.parametrize("value", [None, "", "  \n"])
def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv(NAME, raising=False)
    if value is not None:
        monkeypatch.setenv(NAME, value)
    with pytest.raises(ValueError, match=f"endpoint 'm': the environment variable {NAME} is not set"):
        api_key(settings(api_key_env=NAME))


@pytest.mark.parametrize("content", [KEY, f"{KEY}\n", f"\n {KEY}\r\n"])
def test_from_a_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "key").write_text(content)
    assert api_key(settings(api_key_file=str(tmp_path / "key"))) == KEY


def test_from_a_file_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key").write_text(KEY)
    assert api_key(settings(api_key_file="~/key")) == KEY


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            None,
            "cannot read the key file {path}: No such file or directory: "
            "set api_key_file to a text file with the API key",
        ),
        (b"", "the key file {path} is empty: write the API key into it"),
        (b" \n\n", "the key file {path} is empty: write the API key into it"),
        (
            b"\xff\xfe\x00",
            "cannot read the key file {path}: it is not text: set api_key_file to a text file with the API key",
        ),
    ],
)
def test_a_file_that_gives_no_key_is_named(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        api_key(settings(api_key_file=str(path)))
    assert str(caught.value) == f"endpoint 'm': {said.format(path=path)}"
    assert caught.value.__cause__ is None


def test_a_folder_is_no_key(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot read the key file .*: Is a directory"):
        api_key(settings(api_key_file=str(tmp_path)))


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    """For root, whom no permission stops, a link to itself stands for it."""
    path = tmp_path / "key"
    if os.geteuid():
        path.write_text(KEY)
        path.chmod(0)
    else:
        path.symlink_to(path)
    with pytest.raises(ValueError, match=r"cannot read the key file .*/key: (Permission denied|Too many levels)"):
        api_key(settings(api_key_file=str(path)))


@pytest.mark.parametrize("value", [f"{KEY}\nsecond line", f"{KEY} # mine", f"{KEY}\u2028x", "sk-schl\u00fcssel-0123"])
def test_what_cannot_be_a_key_is_refused_unseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """No header can hold it: refused at the opening, it ends no call later on."""
    monkeypatch.setenv(NAME, value)
    (tmp_path / "key").write_text(value)
    for given in (settings(api_key_env=NAME), settings(api_key_file=str(tmp_path / "key"))):
        with pytest.raises(ValueError, match=r"endpoint 'm': the text in .* is not an API key") as caught:
            api_key(given)
        assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        (f"bad key {KEY}: Bearer {KEY}", KEY, "bad key ***: Bearer ***"),
        ("nothing here", KEY, "nothing here"),
        ("", KEY, ""),
        ("none of them", NO_KEY, "none of them"),
        ("a token of my own", "token", "a token of my own"),
        ("a secret of my own", "secret", "a *** of my own"),
    ],
)
def test_scrub(text: str, key: str, expected: str) -> None:
    assert scrub(text, key) == expected


SIGNS = "sk/ALPHA\"BRAVO\\\\CHARLIE'DELTA+<ECHO>&%=FOXTROT"


@pytest.mark.parametrize("key", [KEY, SIGNS, SIGNS + "/abc_d.e-f" * 100, '"quoted"', "\\\\\\server", "100%25%"])
@pytest.mark.parametrize(
    "written",
    [
        str,
        json.dumps,
        lambda key: json.dumps(key).replace("/", "\\/"),
        lambda key: json.dumps(json.dumps(key)),
        lambda key: json.dumps(key).replace("<", "\\u003c").replace("&", "\\u0026").replace(">", "\\u003E"),
        repr,
        lambda key: repr({"body": [key.encode()]}),
        html.escape,
        lambda key: html.escape(html.escape(key)),
        lambda key: "".join(c if c.isalnum() else f"&#x{ord(c):X};" for c in key),
        urllib.parse.quote,
        lambda key: urllib.parse.quote(key, safe=""),
        lambda key: urllib.parse.quote(urllib.parse.quote(key, safe="")),
        lambda key: key.replace("_", "\\_").replace("-", "\\-"),
    ],
)
def test_an_escaped_key_is_scrubbed(key: str, written: Callable[[str], str]) -> None:
    text = scrub(f"before {written(key)} after", key)
    assert text.startswith("before ") and text.endswith(" after")
    assert "***" in text
    assert len(text) <= len("before  after") + len(repr({"body": [b"***"]}))


WAYS: tuple[Callable[[str], str], ...] = (
    str,
    lambda char: f"%{ord(char):02X}",
    lambda char: f"%25{ord(char):02x}",
    lambda char: f"\\u{ord(char):04x}",
    lambda char: f"\\\\u{ord(char):04X}",
    lambda char: f"\\U{ord(char):08x}",
    lambda char: f"\\u{{{ord(char):x}}}",
    lambda char: f"\\x{ord(char):02x}",
    lambda char: f"\\{ord(char):03o}",
    lambda char: f"&#{ord(char)};",
    lambda char: f"&#{ord(char):05};",
    lambda char: f"&#x{ord(char):x};",
    lambda char: f"&#X{ord(char):04X};",
    lambda char: f"&amp;#{ord(char)};",
)
KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=3, max_size=60).map("sk-{}".format)


def assert_scrubbed(text: str, written: str) -> None:
    """Nothing is left of the key as it was ``written`` but what may escape its first character."""
    assert text.startswith("before ") and text.endswith(" after")
    left = text.removeprefix("before ").removesuffix(" after")
    assert left.endswith("***") or left.startswith("***"), written
    assert len(left) <= len("***") + 2


@hypothesis.given(KEYS, st.data())
def test_a_key_written_letter_by_letter_is_scrubbed(key: str, data: st.DataObject) -> None:
    """Each of its characters in a way of its own; runs of backslashes are one unit, and any way of writing doubles or
    halves them."""
    key = key.replace("\\", "/")
    written = "".join(data.draw(st.sampled_from(WAYS))(char) for char in key)
    assert_scrubbed(scrub(f"before {written} after", key), written)


@hypothesis.given(KEYS, st.sampled_from(WAYS[1:]))
def test_a_key_written_in_one_way_is_scrubbed(key: str, way: Callable[[str], str]) -> None:
    written = "".join(map(way, key))
    assert_scrubbed(scrub(f"before {written} after", key), written)


@hypothesis.given(KEYS, st.sampled_from(["", " ", ":", "-", ", "]), st.sampled_from(["", "0x", "\\x"]), st.booleans())
def test_a_key_in_hexadecimal_is_scrubbed(key: str, between: str, before: str, upper: bool) -> None:
    codes = [f"{ord(char):02X}" if upper else f"{ord(char):02x}" for char in key]
    written = between.join(before + code for code in codes)
    assert_scrubbed(scrub(f"before {written} after", key), written)


@hypothesis.given(st.text(), KEYS)
def test_a_text_without_the_key_is_left(text: str, key: str) -> None:
    text = text.translate({ord(sign): None for sign in "%&\\0123456789"})
    if not set(key) & set(text):
        assert scrub(text, key) == text


@pytest.mark.parametrize("key", [KEY, SIGNS, "secret"])
@pytest.mark.parametrize("user", ["", "u", "us", "user", "user:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_key_in_base64_is_scrubbed(key: str, user: str, encode: Callable[[bytes], bytes]) -> None:
    for written in (str, json.dumps, lambda text: urllib.parse.quote(text, safe="")):
        coded = encode(f"{user}{key}".encode()).decode()
        text = scrub(f"Basic {written(coded)} given", key)
        assert len(text) < len("Basic *** given") + len(user) * 2 + 8
        assert text.startswith("Basic ") and text.endswith(" given")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"your key is {KEY[:12]}", "your key is ***"),
        (f"{KEY[8:]} is your key", "*** is your key"),
        (KEY[:12], "***"),
        (f"it begins with {KEY[:5]}", f"it begins with {KEY[:5]}"),
        (f"{KEY[:12]} is its beginning", f"{KEY[:12]} is its beginning"),
    ],
)
def test_a_text_that_was_cut_within_the_key_loses_that_part(text: str, expected: str) -> None:
    assert scrub(text, KEY) == expected


@pytest.mark.slow
@pytest.mark.parametrize("key", ['a"bcdef', "\\\\\\\\secret", 'secret\\"\\"', "%25%25%25", "a&b&c&d"])
@pytest.mark.parametrize("noise", ["\\", "&amp;", "%25", "&#0", 'a\\\\"'])
def test_what_a_server_sends_does_not_make_scrubbing_slow(key: str, noise: str) -> None:
    text = noise * 100_000 + " a b c d 25 bcdef secret " + noise * 100_000
    began_s = time.process_time()
    scrub(text, key)
    assert time.process_time() - began_s < 5


def wrapped(text: str, width: int, end: str = "\n") -> str:
    return end.join(text[at : at + width] for at in range(0, len(text), width))


BROKEN = {
    "in another case": lambda key: key.swapcase(),
    "in capitals": lambda key: key.upper(),
    "from its end": lambda key: key[::-1],
    "over lines": lambda key: wrapped(key, 7),
    "over lines and indented": lambda key: wrapped(key, 5, "\r\n  "),
    "with a sign of no width": lambda key: "\u200b".join(key),
    "in base64 over lines": lambda key: wrapped(base64.b64encode(key.encode()).decode(), 12),
}


@pytest.mark.parametrize("write", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("key", ["sk-Proj_Zq7/Xv9+Kw2LmN4pRtY8", "AIzaSyA-1234567890abcdefghijk"])
def test_a_key_that_is_broken_or_turned_is_scrubbed(write, key: str) -> None:
    found = scrub(f"the key {write(key)} is wrong", key)
    assert found.startswith("the key ") and found.endswith(" is wrong")
    assert write(key) not in found and "***" in found
