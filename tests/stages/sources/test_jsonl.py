"""JSON Lines as an input: its records as they stand in the file, and what is told of it before a run."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.schemas.records import Origin, RawRecord
from groundtrace.stages.sources import jsonl
from groundtrace.stages.sources.base import InputError, RowSettings, Source
from groundtrace.stages.sources.jsonl import MAX_LINES_FOR_KEYS, JsonLines, lines_fingerprint
from groundtrace.vision.media import MediaStore

FORMAT = JsonLines()
MAPPING = RowSettings(columns={"question": "query", "media": "pic"}, constants={"license": "MIT"})


def written(folder: Path, content: bytes | str) -> Source:
    (folder / "records.jsonl").write_bytes(content.encode() if isinstance(content, str) else content)
    return Source("jsonl", str(folder / "records.jsonl"))


CONTENTS = [
    (b"", []),
    (b'{"a": 1}\r\n\r\n{"a": 2}\r\n', [(1, '{"a": 1}'), (3, '{"a": 2}')]),
    (b'\xef\xbb\xbf{"a": 1}\n\xef\xbb\xbf{}\n', [(1, '{"a": 1}'), (2, "\ufeff{}")]),
    (b'\xef\xbb\xbf\n{"a": 1}', [(2, '{"a": 1}')]),
    (b'{"a": 1}\n{"a": ', [(1, '{"a": 1}'), (2, '{"a": ')]),
    (b'"x\xff\xc3"\n', [(1, '"x\\udcff\\udcc3"')]),
    ('"a\u2028b\x0cc\x85d"\n\u2028\n'.encode(), [(1, '"a\u2028b\x0cc\x85d"'), (2, "\u2028")]),
]


@pytest.mark.parametrize(("content", "expected"), CONTENTS)
def test_every_line_is_a_record_and_counts_as_one(
    content: bytes, expected: list[tuple[int, str]], tmp_path: Path, store: MediaStore
) -> None:
    source = written(tmp_path, content)
    found = list(FORMAT.records(source, RowSettings(), store))
    assert found == [
        RawRecord(number, text, origin=Origin(input_row=f"records.jsonl, line {number}")) for number, text in expected
    ]
    assert FORMAT.count(source) == len(found)


MAPPED = [
    ('{"query": "How?", "pic": "a.png"}', {"question": "How?", "media": "a.png", "license": "MIT"}),
    ('{"query": "How?", "question": "no", "license": "X", "x": 1}', {"question": "How?", "license": "X"}),
    ('{"query": null, "license": null}', {"license": "MIT"}),
    (r'{"query": "a\ud800"}', {"question": "a\ud800", "license": "MIT"}),
    ("{}", {"license": "MIT"}),
]


@pytest.mark.parametrize(("line", "expected"), MAPPED)
def test_columns_and_constants_hold_for_lines_too(
    line: str, expected: dict[str, str], tmp_path: Path, store: MediaStore
) -> None:
    [raw] = FORMAT.records(written(tmp_path, line + "\n"), MAPPING, store)
    assert (json.loads(raw.text), raw.materialised) == (expected, False)
    assert raw.text.isascii()


@pytest.mark.parametrize("line", ["[1]", "3", '{"query": ', "[" * 100_000, '{"answer": 1' + "0" * 5000 + "}"])
def test_lines_that_are_no_objects_are_left_as_they_are(line: str, tmp_path: Path, store: MediaStore) -> None:
    assert [raw.text for raw in FORMAT.records(written(tmp_path, line + "\n"), MAPPING, store)] == [line]


def test_the_media_of_records_that_name_any(tmp_path: Path) -> None:
    source = written(tmp_path, b'\xef\xbb\xbf{"media": "a", "pic": 1}\n{"media": ["b", 2]}\n[1]\n\n{"media": null}\n{')
    assert list(FORMAT.media(source, RowSettings())) == ["a", ["b", 2]]
    assert list(FORMAT.media(source, MAPPING)) == [1]


def test_the_keys_of_the_first_lines_are_known(tmp_path: Path) -> None:
    first = '{"a": 1}\n[1]\n{"b": 2, "id": ' + "\n" * (MAX_LINES_FOR_KEYS - 3)
    written(tmp_path, first + '{"c": 3}\n{"d": 4}\n')
    assert FORMAT.find("x", tmp_path, RowSettings()).columns == {"a", "c"}
    lacking = RowSettings(columns={"choices": "options", "license": "l", "id": "i"}, constants={"license": "MIT"})
    assert FORMAT.find("x", tmp_path, lacking).columns == {"a", "c", "options", "l"}
    written(tmp_path, "[1]\n")
    assert FORMAT.find("x", tmp_path, lacking).columns == set()


def fingerprint(parts: Iterable[bytes]) -> str:
    return lines_fingerprint(io.BytesIO(b"".join(parts)))


LINES = st.lists(st.binary(max_size=6).filter(lambda line: b"\n" not in line and b"\r" not in line), max_size=6)


@settings(max_examples=60)
@given(LINES, st.randoms(use_true_random=False), st.sampled_from([b"\n", b"\r\n"]))
def test_the_fingerprint_is_of_lines_in_any_order(lines: list[bytes], random: Random, end: bytes) -> None:
    mixed = random.sample(lines, len(lines))
    assert fingerprint(line + b"\n" for line in lines) == fingerprint(line + end for line in mixed)


@settings(max_examples=100)
@given(st.lists(st.sampled_from([b"a", b"b", b"\r", b"\n", b"\r\n"]), max_size=20).map(b"".join), st.integers(1, 4))
def test_a_line_is_read_in_pieces(data: bytes, piece: int) -> None:
    digests = [hashlib.sha256(line.rstrip(b"\r\n")).digest() for line in io.BytesIO(data)]
    whole = sum(int.from_bytes(digest, "big") for digest in digests) % 2**256
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "PIECE_BYTES", piece)
        assert fingerprint([data]) == f"{whole:064x}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([], [b"a"]),
        ([b"a"], [b"b"]),
        ([b"a"], [b"a\n", b"a"]),
        ([b"ab"], [b"a\n", b"b"]),
        ([b"a"], [b"a "]),
        ([b"a\rb"], [b"ab"]),
    ],
)
def test_other_lines_have_another_fingerprint(one: list[bytes], other: list[bytes]) -> None:
    assert fingerprint(one) != fingerprint(other)
    assert len(fingerprint(one)) == 64


def test_the_fingerprint_of_older_runs_is_still_the_same() -> None:
    found = fingerprint([b'\xef\xbb\xbf{"id": "a"}\r\n', b"\n", b'{"id": "\xff"}'])
    assert found == "1fa8eec77b82cdb198552c2a0cd56bcd85570441dbbf375b3bc3d0570dc7468f"


LINE = '{"id": "a"}\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (LINE.encode("utf-16"), "in UTF-16 or UTF-32, or is not a text file: convert UTF-16 with `iconv"),
        (LINE.encode("utf-16-le"), "in UTF-16 or UTF-32"),
        (LINE.encode("utf-16-be"), "in UTF-16 or UTF-32"),
        (LINE.encode("utf-32"), "in UTF-16 or UTF-32"),
        (gzip.compress(LINE.encode(), mtime=0), "packed with gzip: unpack it with `gunzip` first"),
        (bz2.compress(LINE.encode()), "packed with bzip2"),
        (lzma.compress(LINE.encode()), "packed with xz"),
        (b"PK\x03\x04 and more", "a zip archive"),
        (b"PAR1 and more", "a Parquet file: name it .parquet"),
    ],
    ids=str.split("utf-16 utf-16-le utf-16-be utf-32 gzip bzip2 xz zip parquet"),
)
def test_a_file_of_another_kind_is_named_as_such(content: bytes, said: str, tmp_path: Path) -> None:
    source = written(tmp_path, content)
    what, _, remedy = said.partition(": ")
    with pytest.raises(
        InputError, match=f"the file {source.path} is {what}.*, but must be JSON Lines in UTF-8: {remedy}"
    ):
        FORMAT.find("input", tmp_path, RowSettings())


def test_a_link_to_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").symlink_to("/proc/self/mem")
    with pytest.raises(
        InputError, match=r"cannot read .*/records.jsonl \(Input/output error\): make this file readable"
    ):
        FORMAT.find("input", tmp_path / "records.jsonl", RowSettings())
