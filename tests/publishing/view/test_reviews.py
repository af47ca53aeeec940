"""Marks of a reviewer, kept beside a run."""

import os
from pathlib import Path
from typing import Any

import pytest

from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view.reviews import FILE, MAX_NOTE_CHARS, MAX_TAGS, Mark, Reviews, seen_trace, text_digest
from groundtrace.schemas.safe_files import UnsafeFile

SEEN = "sft", "t1"
"""The set and the SHA-256 of the trace of a row."""
ODD = "\ud83d <script>\u2028 'x'"


def test_the_last_mark_of_a_record_counts_after_reopening(tmp_path: Path) -> None:
    reviews = Reviews(tmp_path)
    reviews.keep(Mark("a", "t1", True, ("dark",), "look"))
    reviews.keep(Mark("b", note="b"))
    last = reviews.keep(Mark("a", "t2", False, ("dark", "odd"), "again"))
    assert {mark.id: mark for mark in Reviews(tmp_path)} == {mark.id: mark for mark in reviews}
    assert Reviews(tmp_path).of("a") == last and last.at
    assert Reviews(tmp_path).of("none") == Mark("none")
    assert len((tmp_path / FILE).read_text("utf-8").splitlines()) == 3


def test_nothing_is_written_before_the_first_mark(tmp_path: Path) -> None:
    assert list(Reviews(tmp_path)) == [] and not (tmp_path / "reviews").exists()


@pytest.mark.parametrize("cut", [b'{"id": "b", "fla', b"\xff", b'{"id": "b", "tags": []}'])
def test_a_line_that_a_kill_cut_is_passed_over_and_the_next_one_is_whole(tmp_path: Path, cut: bytes) -> None:
    Reviews(tmp_path).keep(Mark("a", flagged=True))
    with (tmp_path / FILE).open("ab") as file:
        file.write(cut)
    reviews, whole = Reviews(tmp_path), ["b"] if cut.endswith(b"}") else []
    assert [mark.id for mark in reviews] == ["a", *whole]
    reviews.keep(Mark("c"))
    assert [mark.id for mark in Reviews(tmp_path)] == ["a", *whole, "c"]


def test_two_processes_change_the_mark_of_one_record(tmp_path: Path) -> None:
    first, second = Reviews(tmp_path), Reviews(tmp_path)
    first.change({"flagged": True}, {"a": ("rejected", "t0")})
    (mark,) = second.change({"tags": ["dark"]}, {"a": SEEN})
    assert (mark.set, mark.trace, mark.flagged, mark.tags) == (*SEEN, True, ("dark",))
    first.change({"note": "look"}, {"a": SEEN})
    second.change({"flagged": True}, {"b": SEEN})
    first.change({"note": "look again"}, {"a": SEEN})
    assert first.change({"tags": ["odd"]}, {"b": SEEN})[0].flagged
    second.change({}, {"a": SEEN})
    assert second.of("a").note == "look again" and second.of("b").tags == ("odd",)


def test_an_edit_that_does_not_change_the_size_is_kept(tmp_path: Path) -> None:
    reviews = Reviews(tmp_path)
    reviews.keep(Mark("a", note="good"))
    edited = (tmp_path / FILE).read_text("utf-8").replace("good", "evil")
    (tmp_path / "edited").write_text(edited, "utf-8")
    (tmp_path / "edited").replace(tmp_path / FILE)
    (mark,) = reviews.change({"tags": ["t"]}, {"a": SEEN})
    assert (mark.note, mark.tags) == ("evil", ("t",))


@pytest.mark.parametrize("line", [b"[]", b"{}", b'{"id": "a", "tags": [], "other": 1}', b"\xff", b"text"])
def test_a_damaged_line_names_its_number(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "reviews").mkdir()
    (tmp_path / FILE).write_bytes(line + b'\n{"id": "a", "tags": []}\n')
    with pytest.raises(InspectError, match="line 1"):
        Reviews(tmp_path)


def test_the_copy_of_a_run_in_a_store_keeps_no_mark(tmp_path: Path) -> None:
    Reviews(tmp_path).keep(Mark("a", flagged=True))
    copy = Reviews(tmp_path, is_copy=True)
    assert copy.of("a").flagged
    with pytest.raises(ValueError, match="in an object store"):
        copy.keep(Mark("a"))


def test_odd_texts_come_back(tmp_path: Path) -> None:
    kept = Reviews(tmp_path).keep(Mark("a", note=ODD.removeprefix("\ud83d")))
    assert Reviews(tmp_path).of("a") == kept


HALF = "\ud83d"


@pytest.mark.parametrize("mark", [Mark(HALF), Mark("a", HALF), Mark("a", tags=("t", HALF)), Mark("a", note=f"n{HALF}")])
def test_half_a_character_is_not_kept(tmp_path: Path, mark: Mark) -> None:
    with pytest.raises(ValueError, match="contains half a character"):
        Reviews(tmp_path).keep(mark)
    assert not (tmp_path / FILE).exists()


def test_half_a_character_in_the_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "reviews").mkdir()
    (tmp_path / FILE).write_text('{"id": "a", "tags": ["\\ud83d"], "note": "\\ud83d and \\ud83d\\ude00"}\n')
    assert Reviews(tmp_path).of("a") == Mark("a", tags=("\ufffd",), note="\ufffd and \U0001f600")


@pytest.mark.parametrize(
    "mark",
    [
        Mark("a", note="n" * (MAX_NOTE_CHARS + 1)),
        Mark("a", tags=("",)),
        Mark("a", tags=("a, b",)),
        Mark("a", tags=tuple(f"t{n}" for n in range(MAX_TAGS + 1))),
    ],
)
def test_what_is_too_long_is_not_kept(tmp_path: Path, mark: Mark) -> None:
    with pytest.raises(ValueError, match="at most"):
        Reviews(tmp_path).keep(mark)
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(
    ("link", "target"),
    [("reviews", "elsewhere"), ("reviews/marks.jsonl", "letter"), ("reviews/marks.jsonl", "missing")],
)
@pytest.mark.parametrize("is_open", [False, True])
def test_no_mark_is_written_through_a_link(tmp_path: Path, link: str, target: str, is_open: bool) -> None:
    run = tmp_path / "run"
    (run / link).parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "letter").write_text("")
    opened = [Reviews(run)] if is_open else []
    (run / link).symlink_to(tmp_path / target)
    with pytest.raises(UnsafeFile, match=rf"^{run / link} is a link, but .*, or remove it$"):
        (opened or [Reviews(run)])[0].keep(Mark("a", flagged=True))
    assert not any((tmp_path / "elsewhere").iterdir()) and not (tmp_path / "missing").exists()
    assert (tmp_path / "letter").read_text() == ""


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_marks_are_in_a_regular_file(tmp_path: Path, kind: str) -> None:
    (tmp_path / "reviews").mkdir()
    os.mkfifo(tmp_path / FILE) if kind == "pipe" else (tmp_path / FILE).mkdir()
    with pytest.raises(UnsafeFile if kind == "pipe" else InspectError, match=str(FILE)):
        Reviews(tmp_path)


def test_the_run_folder_of_the_marks_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to("disk")
    Reviews(tmp_path / "run").keep(Mark("a", flagged=True))
    assert (tmp_path / "disk" / FILE).exists()


@pytest.mark.parametrize(
    ("mark", "is_about"),
    [
        (Mark("a", "t1", set="sft"), True),
        (Mark("a", "t2", set="sft"), False),
        (Mark("a", "t1", set="rejected"), False),
        (Mark("a", "", set="rl"), False),
        (Mark("a", "", set="sft"), False),  # the row had no trace
        (Mark("a", "t1"), True),
        (Mark("a", "t2"), False),
        (Mark("a"), True),
    ],
)
def test_a_mark_knows_whether_the_present_row_is_the_one_that_was_marked(mark: Mark, is_about: bool) -> None:
    assert mark.is_about("sft", "t1") is is_about


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (Mark("a", "t1", flagged=True, note="look", set="sft"), ""),
        (Mark("a", "t2", set="sft"), ""),
        (Mark("a", "t2", note="look"), "The note was set on another version of this row, which had another trace."),
        (
            Mark("a", "t2", True, ("dark",), "look", set="rejected"),
            "The flag, the tags and the note were set on another version of this row, which was in rejected.",
        ),
        (
            Mark("a", "t1", tags=("dark",), set="rl"),
            "The tags were set on another version of this row, which was in rl.",
        ),
    ],
)
def test_a_mark_of_another_version_of_its_row_says_so(mark: Mark, said: str) -> None:
    assert mark.outdated("sft", "t1") == said


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"messages": [{"content": "question"}, {"content": "trace"}]}, "trace"),
        ({"messages": [{"content": "question"}, {"content": None}]}, ""),
        ({"traces": [{"score": None, "text": "a"}, {"score": 0.5, "text": "b"}, {"score": 0.5, "text": "c"}]}, "b"),
        ({"traces": None, "messages": None}, None),
        ({}, None),
    ],
)
def test_the_seen_trace_is_the_one_that_the_page_shows_first(row: dict[str, Any], text: str | None) -> None:
    assert seen_trace(row) == ("" if text is None else text_digest(text))
