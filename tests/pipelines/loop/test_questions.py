"""The two parts of an input on the disk: all records are in one of them, and the run reads them as the input."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.grading.input_record import InputRecord, InvalidRecord, parse_record
from groundtrace.pipelines.loop.held_out import SplitError
from groundtrace.pipelines.loop.questions import divide, read_division, settings_after
from groundtrace.pipelines.loop.settings import HeldOutSettings
from groundtrace.pipelines.running.plan.inputs import find_input
from groundtrace.schemas.records import RawRecord
from groundtrace.stages.sources.base import RowSettings
from groundtrace.storage.places import STANDARD

from .loops import FIELDS, PLAIN, again, png, split, write_input


def lines_of(out: Path, side: str) -> list[str]:
    return (out / "questions" / side / "records.jsonl").read_text("utf-8").splitlines()


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Ten records on ten images; the last two have the same pixels in two files."""
    images = {f"images/{number}.png": png(number) for number in range(9)}
    images["images/9.png"] = again(images["images/8.png"])
    return write_input(tmp_path / "data", [{"id": f"q{n}", "media": f"images/{n}.png"} for n in range(10)], images)


def test_every_record_is_in_one_part(plain: Path, tmp_path: Path) -> None:
    division = split(tmp_path / "out", plain)
    train, held = lines_of(tmp_path / "out", "train"), lines_of(tmp_path / "out", "held")
    assert (division.train, division.held) == (len(train), len(held)) == (7, 3)
    assert sorted(train + held) == sorted((plain / "records.jsonl").read_text("utf-8").splitlines())
    assert set(division.groups) == {json.loads(line)["id"] for line in held}
    assert read_division(tmp_path / "out") == division


def test_equal_pixels_stay_together(plain: Path, tmp_path: Path) -> None:
    for seed in range(12):
        split(tmp_path / f"out{seed}", plain, seed=seed)
        held = {json.loads(line)["id"] for line in lines_of(tmp_path / f"out{seed}", "held")}
        assert len(held & {"q8", "q9"}) in (0, 2)


def test_media_are_linked_not_copied(plain: Path, tmp_path: Path) -> None:
    split(tmp_path / "out", plain)
    for side in ("train", "held"):
        for line in lines_of(tmp_path / "out", side):
            media = json.loads(line)["media"]
            assert (tmp_path / "out/questions" / side / media).samefile(plain / media)
    assert {path.name for path in (tmp_path / "out/questions").iterdir()} == {
        "train",
        "held",
        "split.json",
        "media.json",
    }


UNUSABLE = [
    "not JSON",
    "[1, 2]",
    json.dumps({"id": "no fields"}),
    {"id": "lost", "media": "images/none.png"},
    {"id": "broken", "media": "broken.png"},
    {"id": "outside", "media": "../secret.png"},
    {"id": "address", "media": "https://example.com/a.png"},
    {"id": "absolute", "media": "/etc/hostname"},
    {"id": "link", "media": "link.png"},
    {"id": "nothing", "media": []},
    {"id": "answer", "media": "images/0.png", "answer": ""},
]
REASONS = {
    "line#11": "invalid_record",
    "line#12": "invalid_record",
    "no fields": "invalid_record",
    "lost": "media_missing",
    "broken": "undecodable_media",
    "outside": "media_not_allowed",
    "address": "media_not_allowed",
    "absolute": "media_not_allowed",
    "link": "media_not_allowed",
    "nothing": "invalid_record",
    "answer": "invalid_record",
}


@pytest.mark.slow
def test_unusable_records_are_rejected_by_the_run_as_before(
    plain: Path, tmp_path: Path, run_beam: Callable[..., Any]
) -> None:
    with (plain / "records.jsonl").open("a", encoding="utf-8") as stream:
        for line in UNUSABLE:
            stream.write((line if isinstance(line, str) else json.dumps(FIELDS | line)) + "\n")
    (plain / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nand nothing more")
    (tmp_path / "secret.png").write_bytes(png(77))
    (plain / "link.png").symlink_to(tmp_path / "secret.png")
    division = split(tmp_path / "out", plain)
    assert (division.train, division.held) == (18, 3)
    whole, part = run_beam(plain, tmp_path / "whole"), run_beam(tmp_path / "out/questions/train", tmp_path / "part")
    assert {key: end for key, end in whole.ends.items() if key in REASONS} == REASONS
    numbers = dict(zip(("line#11", "line#12"), ("line#8", "line#9"), strict=True))
    assert {key: part.ends[numbers.get(key, key)] for key in REASONS} == REASONS
    part.check_balance(division.train)


def test_repeated_ids_and_clips_are_not_held_out(tmp_path: Path) -> None:
    lines = [{"id": "twice", "media": "0.png"}, {"id": "twice", "media": "1.png"}, {"id": "beside", "media": "1.png"}]
    lines += [
        {"id": "clip", "media": ["2.png", "clip.mkv"]},
        {"id": "q3", "media": "3.png"},
        {"id": "q4", "media": "4.png"},
    ]
    images = {f"{number}.png": png(number) for number in range(5)} | {"clip.mkv": b"\x1aE\xdf\xa3" + bytes(600)}
    data = write_input(tmp_path / "data", lines, images)
    for seed in range(8):
        division = split(tmp_path / f"out{seed}", data, share=0.5, seed=seed)
        assert set(division.groups) <= {"q3", "q4"}


def test_the_map_is_applied_once(tmp_path: Path) -> None:
    """A table with other columns, a constant, and a column to keep: the parts need only ``keep``."""
    images = {f"pics/{number}.png": png(number) for number in range(6)}
    data = write_input(tmp_path / "data", [], images)
    (data / "q.csv").write_text(
        "query,gold,pic,note\n" + "".join(f"How many?,{n},pics/{n}.png,n{n}\n" for n in range(6))
    )
    rows = RowSettings(
        columns={"question": "query", "answer": "gold", "media": "pic"},
        constants={"license": "CC0-1.0", "source": "table"},
        keep=("note",),
    )
    division = split(tmp_path / "out", data / "q.csv", rows)
    found = [json.loads(line) for side in ("train", "held") for line in lines_of(tmp_path / "out", side)]
    assert {(each["id"], each["answer"], each["note"], each["source"]) for each in found} == {
        (f"row-{n + 1}", str(n), f"n{n}", "table") for n in range(6)
    }
    read = find_input(str(tmp_path / "out/questions/train"), settings_after(rows), STANDARD)
    assert read.columns >= {"note", "question", "media"} and division.train == 4
    for side in ("train", "held"):
        for line in lines_of(tmp_path / "out", side):
            assert (tmp_path / "out/questions" / side / json.loads(line)["media"][0]).is_file()


def test_embedded_images(tmp_path: Path) -> None:
    rows = [FIELDS | {"id": f"q{n}", "image": {"bytes": png(n), "path": f"{n}.png"}} for n in range(5)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "q.parquet")
    division = split(tmp_path / "out", tmp_path / "q.parquet")
    assert (division.train, division.held) == (3, 2)
    folders = [tmp_path / "out/questions" / side for side in ("train", "held")]
    found = {
        json.loads(line)["id"]: (folder / json.loads(line)["media"][0]).read_bytes()
        for folder in folders
        for line in (folder / "records.jsonl").read_text("utf-8").splitlines()
    }
    assert found == {f"q{n}": png(n) for n in range(5)}
    assert not (tmp_path / "out/questions/media").exists()


def test_a_finished_split_stays(plain: Path, tmp_path: Path) -> None:
    first = split(tmp_path / "out", plain)
    before = lines_of(tmp_path / "out", "held")
    assert split(tmp_path / "out", plain) == first and lines_of(tmp_path / "out", "held") == before


@pytest.mark.parametrize(
    ("change", "named"), [({"seed": 1}, "held_out.seed"), ({"share": 0.5}, "held_out.share"), ({}, "--input")]
)
def test_another_split_is_refused(change: dict[str, Any], named: str, plain: Path, tmp_path: Path) -> None:
    split(tmp_path / "out", plain)
    if not change:
        with (plain / "records.jsonl").open("a") as stream:
            stream.write(json.dumps(FIELDS | {"id": "new", "media": "images/0.png"}) + "\n")
    with pytest.raises(SplitError, match=f"another setting of {named}.*choose another --output"):
        split(tmp_path / "out", plain, **change)


def test_an_image_that_was_overwritten_is_refused(plain: Path, tmp_path: Path) -> None:
    """The parts have hard links to the images, so their questions have changed, too."""
    division, image = split(tmp_path / "out", plain), plain / "images/3.png"
    data = image.read_bytes()
    image.write_bytes(png(99))
    with pytest.raises(SplitError, match=rf"{image} has changed since .* restore the file, or choose another --output"):
        split(tmp_path / "out", plain)
    image.write_bytes(data)
    assert split(tmp_path / "out", plain) == division, "the content counts, not the time"
    image.unlink()
    assert split(tmp_path / "out", plain) == division, "the parts have the image still"
    (tmp_path / "out/questions/media.json").write_text("[]")
    with pytest.raises(SplitError, match="damaged"):
        split(tmp_path / "out", plain)


def test_what_a_killed_split_left_is_removed(plain: Path, tmp_path: Path) -> None:
    left = tmp_path / "out" / f".questions.{'0' * 32}.tmp"
    left.mkdir(parents=True)
    (left / "all.jsonl").write_text("half")
    split(tmp_path / "out", plain)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["questions"]


@pytest.mark.parametrize(
    ("rows", "source"),
    [
        (RowSettings(columns={"question": "query"}, keep=("question",)), "the column 'query'"),
        (RowSettings(constants={"question": "What?"}, keep=("question",)), r"input\.constants\.question"),
    ],
)
def test_a_kept_column_must_not_hide_a_field(rows: RowSettings, source: str, plain: Path, tmp_path: Path) -> None:
    found = find_input(str(plain), PLAIN, STANDARD)
    said = (
        rf"input\.keep cannot keep the column 'question', because {source} gives the question of each record: rename "
        r"the column 'question' of the input"
    )
    with pytest.raises(SplitError, match=said):
        divide(tmp_path / "out", found, rows, STANDARD, HeldOutSettings())


POOL = {f"{number}.png": png(number) for number in range(6)}
LINES = st.lists(
    st.one_of(
        st.builds(
            lambda name, media: json.dumps(FIELDS | {"id": f"q{name}", "media": media}),
            st.integers(0, 30),
            st.lists(st.sampled_from([*POOL, "none.png", "../x.png"]), max_size=2),
        ),
        st.sampled_from(
            ["not JSON", "[]", "1", json.dumps({"id": "x"}), json.dumps(FIELDS | {"id": "s", "media": "0.png"})]
        ),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(LINES, st.floats(0.05, 0.9))
def test_no_line_is_lost_and_no_image_is_on_both_sides(lines: list[str], share: float) -> None:
    lines = [json.dumps(FIELDS | {"id": "first", "media": "0.png"}), *lines]  # else the file may be a JSON array
    with tempfile.TemporaryDirectory() as name:
        data, out = write_input(Path(name) / "data", lines, POOL), Path(name) / "out"
        try:
            division = split(out, data, share=share)
        except SplitError:
            assert not (out / "questions").exists()
            return
        train, held = lines_of(out, "train"), lines_of(out, "held")
        assert sorted(train + held) == sorted(lines)
        assert (division.train, division.held) == (len(train), len(held))
        usable = [parse_record(RawRecord(1, line)) for line in held]
        shown = {uri for record in usable for uri in record.media}
        for record in map(record_of, train):
            if record is not None and all(uri.removeprefix("input:") in POOL for uri in record.media):
                assert not shown & set(record.media)


def record_of(line: str) -> InputRecord | None:
    try:
        return parse_record(RawRecord(1, line))
    except InvalidRecord:
        return None
