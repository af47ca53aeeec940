"""Reading JSON Lines: which lines there are, and which of them are objects."""

import io
from pathlib import Path

import pytest

from groundtrace.schemas.json_lines import (
    LongLine,
    NotAnObject,
    bounded_lines,
    parse_object,
    read_lines,
    read_objects,
)
from groundtrace.schemas.safe_files import MAX_BRACKETS

CONTENTS = [
    (b"", []),
    (b"\n\r\n  \n\t\n", []),
    (b'{"a": 1}\n{"a": 2}\n', [(1, '{"a": 1}'), (2, '{"a": 2}')]),
    (b'{"a": 1}\r\n\r\n{"a": 2}\r\n', [(1, '{"a": 1}'), (3, '{"a": 2}')]),
    (b'\xef\xbb\xbf{"a": 1}\n\xef\xbb\xbf{}\n', [(1, '{"a": 1}'), (2, "\ufeff{}")]),
    (b'\xef\xbb\xbf\n{"a": 1}', [(2, '{"a": 1}')]),
    (b'{"a": 1}\n{"a": ', [(1, '{"a": 1}'), (2, '{"a": ')]),
    (b'"x\xff\xc3"\n', [(1, '"x\\udcff\\udcc3"')]),
    ('"a\u2028b\x0cc\x85d"\n'.encode(), [(1, '"a\u2028b\x0cc\x85d"')]),
    ("\u2003\n{}".encode(), [(1, "\u2003"), (2, "{}")]),  # blank to a reader, but no blank of JSON's: a bad record
    ("\u2028\n\x85\n\x0c\n\x1c\n\xa0".encode(), [(1, "\u2028"), (2, "\x85"), (3, "\x0c"), (4, "\x1c"), (5, "\xa0")]),
]


@pytest.mark.parametrize(("content", "expected"), CONTENTS)
def test_lines_keep_their_numbers(content: bytes, expected: list[tuple[int, str]]) -> None:
    lines = content.splitlines(keepends=True) if content.isascii() else content.replace(b"\n", b"\n\0").split(b"\0")
    assert list(read_lines(lines)) == expected


PIECES = [b"", b"a", b"a\n", b"\n", b"\n\n", b"aaaaaaa\nb", b"aaaaaaaa", b"aaaaaaa\n", b"a\r\n\nb\n" * 40_000]


@pytest.mark.parametrize("content", PIECES)
def test_a_file_larger_than_a_line_may_be_has_the_same_lines(content: bytes) -> None:
    """8 bytes are the limit; the last file is larger than a piece, and a line may end at the end of a piece."""
    for start in (0, 2):
        expected = [line.removesuffix(b"\n") for line in content[start:].splitlines(keepends=True)]
        stream = io.BytesIO(content)
        stream.seek(min(start, len(content)))
        assert [line.removesuffix(b"\n") for line in bounded_lines(stream, 8)] == expected


@pytest.mark.parametrize(
    ("content", "number"),
    [(b"a" * 9, 1), (b"\n" * 70_000 + b"a" * 9, 70_001), (b"a\n" + b"a" * 9 + b"\nb", 2), (b"\0" * 10**6, 1)],
)
def test_a_line_that_may_fill_the_memory_is_an_error(content: bytes, number: int, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    for stream, name in ((io.BytesIO(content), "the file"), ((tmp_path / "a.jsonl").open("rb"), tmp_path / "a.jsonl")):
        with (
            stream,
            pytest.raises(LongLine, match=f"^line {number} of {name} has more than 8 bytes: shorten this line"),
        ):
            list(bounded_lines(stream, 8))


def test_numbers_begin_where_the_caller_says() -> None:
    assert list(read_lines([b"\xef\xbb\xbf1\n", b"\n", b"2"], first_number=41)) == [(41, "1"), (43, "2")]


NO_OBJECTS = [
    ("[1]", "the line is not a JSON object"),
    ("null", "the line is not a JSON object"),
    ('{"a": ', "the line is not JSON: Expecting value"),
    ("\ufeff{}", "the line is not JSON: "),
    ("[" * 100_000, "the line is not JSON: "),
    ('{"a": 1' + "0" * 5000 + "}", "the line is not JSON: "),
    ('{"a": [' + "{}," * MAX_BRACKETS + "{}]}", "the line has more than 3000000 lists and objects"),
]


@pytest.mark.parametrize(("text", "message"), NO_OBJECTS)
def test_a_line_that_is_no_object(text: str, message: str) -> None:
    with pytest.raises(NotAnObject) as caught:
        parse_object(text)
    assert str(caught.value).startswith(message)
    assert list(read_objects([b'{"a": 1}\n', text.encode() + b"\n", b'{"a": 2}'])) == [{"a": 1}, {"a": 2}]


def test_bytes_that_are_no_text_stay_in_their_string() -> None:
    assert list(read_objects([b'{"id": "\xff"}'])) == [{"id": "\udcff"}]
