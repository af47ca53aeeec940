"""Marks of a reviewer, kept beside a run."""

from pathlib import Path

import pytest

from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view.reviews import FILE, MAX_NOTE_CHARS, MAX_TAGS, Mark, Reviews

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


def test_a_line_that_a_kill_cut_is_passed_over_and_the_next_one_is_whole(tmp_path: Path) -> None:
    Reviews(tmp_path).keep(Mark("a", flagged=True))
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"id": "b", "fla')
    reviews = Reviews(tmp_path)
    assert [mark.id for mark in reviews] == ["a"]
    reviews.keep(Mark("c"))
    with pytest.raises(InspectError, match="damaged at line 2: remove this line"):
        Reviews(tmp_path)


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
