"""Overlap with a benchmark: by runs of words, by pictures, and what a benchmark file may look like."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.schemas.records import Draft
from groundtrace.stages.decontaminate_questions import (
    BenchmarkIndex,
    DecontaminateQuestions,
    DecontaminateSettings,
    ngrams,
)
from groundtrace.vision.media import MediaRoots

LONG = "In the picture there are some squares of several colours in a row how many of them are red"
NGRAMS = [
    ("", 1, []),
    ("a b", 3, []),
    ("A, b: C!", 3, [("a", "b", "c")]),
    ("a b c d", 3, [("a", "b", "c"), ("b", "c", "d")]),
    ("x_1 = 3", 2, [("x_1", "3")]),
    ("Straße 5", 2, [("strasse", "5")]),
]


@pytest.mark.parametrize(("text", "n", "expected"), NGRAMS)
def test_runs_of_words(text: str, n: int, expected: list[tuple[str, ...]]) -> None:
    assert list(ngrams(text, n)) == expected


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["a", "b", "C", "d7"]), max_size=20), st.integers(1, 13))
def test_there_are_as_many_runs_as_starts(words: list[str], n: int) -> None:
    found = list(ngrams(", ".join(words), n))
    assert len(found) == max(0, len(words) - n + 1)
    assert all(len(run) == n for run in found)


@pytest.fixture
def benchmark_folder(
    tmp_path: Path,
    record: Callable[..., dict[str, Any]],
    write_records: Callable[..., Path],
    write_scene: Callable[..., Path],
) -> Path:
    folder = tmp_path / "benchmark"
    write_scene(folder / "b.png", ["red", "blue"])
    rows = [record(id="text", question=f"{LONG}?", media=[]), record(id="picture", media="b.png")]
    return write_records(folder, [*rows, b"\n"])


def test_the_stage(
    benchmark_folder: Path,
    tmp_path: Path,
    write_scene: Callable[..., Path],
    draw_scene: Callable[..., np.ndarray],
    make_draft: Callable[..., Draft],
    check_stage: Callable[..., None],
) -> None:
    data = tmp_path / "data"
    write_scene(data / "mine.png", ["yellow", "black", "red"])
    shutil.copy(benchmark_folder / "b.png", data / "copy.png")
    cv2.imwrite(str(data / "again.jpg"), draw_scene(["red", "blue"])[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])
    shared = " ".join(LONG.split()[2:15])
    drafts = [
        make_draft("clear", data, ["mine.png"]),
        make_draft("twelve", data, ["mine.png"], question=" ".join(LONG.split()[:12])),
        make_draft("words", data, ["mine.png"], question=f"So: {shared.upper()}!"),
        make_draft("copy", data, ["mine.png", "copy.png"]),
        make_draft("again", data, ["again.jpg"]),
    ]
    picture = ("contaminated", "the question shares an image with the benchmark's 'picture'")
    check_stage(
        DecontaminateQuestions(
            DecontaminateSettings(benchmark=str(benchmark_folder)), MediaRoots(str(data), str(tmp_path))
        ),
        drafts,
        kept=["clear", "twelve"],
        rejected=[
            ("words", "contaminated", f"the question shares 13 words with the benchmark's 'text': {shared.lower()}"),
            ("copy", *picture),
            ("again", *picture),
        ],
        show_rejected=lambda found: (found.id, found.reason, found.detail),
    )


def test_without_a_benchmark_everything_passes(
    make_draft: Callable[..., Draft], check_stage: Callable[..., None], tmp_path: Path
) -> None:
    stage = DecontaminateQuestions(DecontaminateSettings(), MediaRoots(str(tmp_path), str(tmp_path)))
    check_stage(stage, [make_draft("a", question=LONG)], kept=["a"], rejected=[])


@pytest.mark.parametrize(
    "changes",
    [
        {"question": f"{LONG}\u2028Of those?"},
        {"question": f"{LONG}\u0085"},
        {"answer": ...},
        {"answer": "", "license": ...},
        {"choices": ["1", "2"]},
        {"media": []},
    ],
    ids=["line separator", "next line", "no answer", "no license", "answer kept back", "no media"],
)
def test_a_benchmark_record_contributes_what_it_has(
    changes: dict[str, Any], tmp_path: Path, record: Callable[..., dict[str, Any]]
) -> None:
    row = json.dumps(record(**({"question": LONG, "media": ...} | changes)), ensure_ascii=False)
    (tmp_path / "records.jsonl").write_text(row + "\n", "utf-8")
    index = BenchmarkIndex.load(DecontaminateSettings(benchmark=str(tmp_path)))
    assert next(ngrams(LONG, 13)) in index.grams


REFUSED = [
    ({"ngram": 0}, "ngram must be greater than 0, got 0"),
    ({"benchmark": "/no/such/folder"}, "there is no file /no/such/folder/records.jsonl"),
    ({"max_distance": -1}, "max_distance must be at least 0, got -1"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_settings_that_cannot_work(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DecontaminateSettings(**changes)


UNREADABLE = [
    (b"{half a line\n", r"line 2 of \S+records\.jsonl cannot be used \(the line is not JSON"),
    (
        b"[1, 2]\n",
        r"line 2 of \S+records\.jsonl cannot be used \(the line is not a JSON object\): write one JSON object on",
    ),
    ({"id": "b"}, "line 2 has neither a question nor media"),
    ({"id": "b", "question": "what", "images": ["b.png"]}, "line 2 has no field 'media': rename its field 'images' to"),
    ({"id": "b", "media": [{"bytes": "x"}]}, "line 2: the field 'media' must hold a path or a list of paths"),
    (
        {"id": "b", "media": ["missing.png"]},
        r"line 2: the medium input:missing\.png cannot be read \(.*missing\.png.*\): add the file, or remove it "
        "from 'media'",
    ),
    ({"id": "b", "media": ["../outside.png"]}, r"line 2: .*outside\.png"),
    ({"id": "b", "media": "text.png"}, r"line 2: input:text\.png is neither an image nor a clip"),
]


@pytest.mark.parametrize(("line", "message"), UNREADABLE)
def test_a_benchmark_that_can_be_read_in_part_only_is_refused(
    tmp_path: Path, write_records: Callable[..., Path], line: bytes | dict[str, Any], message: str
) -> None:
    folder = write_records(tmp_path / "b", [{"id": "a", "question": "what"}, line])
    (folder / "text.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=message):
        DecontaminateSettings(benchmark=str(folder))


def test_a_picture_that_cannot_be_decoded_is_named(
    tmp_path: Path, write_records: Callable[..., Path], write_scene: Callable[..., Path]
) -> None:
    folder = write_records(tmp_path / "b", [{"id": "a", "question": "what", "media": "cut.png"}])
    write_scene(folder / "cut.png", ["red"])
    (folder / "cut.png").write_bytes((folder / "cut.png").read_bytes()[:99])
    with pytest.raises(ValueError, match=r"line 1: the medium input:cut\.png cannot be used \(input:cut\.png: "):
        BenchmarkIndex.load(DecontaminateSettings(benchmark=str(folder)))
