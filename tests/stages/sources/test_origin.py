"""What records bring from the input for people: columns that are kept, the media's names, and ids from file names."""

import datetime
import decimal
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.grading.input_record import InvalidRecord, parse_record
from groundtrace.schemas.records import Origin, RawRecord
from groundtrace.stages.sources.base import RowSettings, Source
from groundtrace.stages.sources.parquet import PARQUET
from groundtrace.stages.sources.registry import read_source
from groundtrace.vision.media import MediaStore

KEEP = ("collected_by", "seen")
WHOLE = {"id": "q", "source": "s", "license": "l", "question": "?", "answer": "a", "media": "images/a.png"}
VALUES = [
    ("Ann", "Ann"),
    ("", ""),
    (3, "3"),
    (True, "true"),
    ({"by": ["Ann", None]}, '{"by": ["Ann", null]}'),
    (None, None),
]


def raw(source: Source, rows: RowSettings, tmp_path: Path) -> list[RawRecord]:
    return list(read_source(source, rows, MediaStore(str(tmp_path), str(tmp_path / "run"))))


def kept(origin: Origin) -> dict[str, str]:
    return {value.column: value.plain for value in origin.kept}


@pytest.mark.parametrize(("value", "text"), VALUES)
@pytest.mark.parametrize("rows", [RowSettings(keep=KEEP), RowSettings(keep=KEEP, file_ids=True)])
def test_lines_keep_columns_as_text(value: Any, text: str | None, rows: RowSettings, tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text(json.dumps(WHOLE | {"collected_by": value}), "utf-8")
    [found] = raw(Source("jsonl", str(tmp_path / "records.jsonl")), rows, tmp_path)
    record = parse_record(found)
    assert kept(record.origin) == ({} if text is None else {"collected_by": text})
    assert record.origin.media_names == ("images/a.png",)
    assert record.id == ("a" if rows.file_ids else "q")


def test_what_is_kept_changes_nothing_else_of_a_record(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text(json.dumps(WHOLE | {"seen": 1}), "utf-8")
    source = Source("jsonl", str(tmp_path / "records.jsonl"))
    plain, keeping = (raw(source, rows, tmp_path)[0] for rows in (RowSettings(), RowSettings(keep=KEEP)))
    assert (keeping.text, parse_record(keeping)) == (plain.text, parse_record(plain))
    assert repr(parse_record(keeping)) == repr(parse_record(plain)), "it decides which record of an id is kept"


@pytest.mark.parametrize("line", ["{not json", json.dumps(WHOLE | {"question": ""})])
def test_a_line_that_cannot_be_used_says_what_it_brings(line: str) -> None:
    origin = Origin(kept=())
    with pytest.raises(InvalidRecord) as caught:
        parse_record(RawRecord(1, line, origin=origin))
    assert caught.value.origin.media_names == (() if "not" in line else ("images/a.png",))


QUESTION = {"id": "q", "source": "s", "license": "l", "question": "?", "answer": "a", "image": "a.png"}
CELLS = ",".join(QUESTION) + "\n" + ",".join(QUESTION.values())
TURNS = [{"from": "human", "value": "?"}, {"from": "gpt", "value": "a"}] * 2
FILES = [
    ("a.jsonl", f"{json.dumps(QUESTION)}\n\n{json.dumps(QUESTION)}", {}, ["line 1", "line 3"]),
    ("a.jsonl", f"{json.dumps(QUESTION)}\n\n{{not json", {"file_ids": True}, ["line 1", "line 3"]),
    (
        "a.jsonl",
        json.dumps({"id": "a", "image": "a.png", "conversations": TURNS}),
        {"shape": "conversations"},
        ["line 1"] * 2,
    ),
    ("a.json", json.dumps([QUESTION, QUESTION]), {}, ["entry 1", "entry 2"]),
    ("a.csv", f"\n{CELLS}\n\n" + CELLS.partition("\n")[2], {}, ["line 3", "line 5"]),
    ("a.csv", CELLS.replace("?", '"1\n2\n?"') + "\n" + CELLS.partition("\n")[2], {}, ["line 2", "line 5"]),
]


@pytest.mark.parametrize(("name", "text", "settings", "places"), FILES)
def test_a_record_names_its_file_and_line(
    name: str, text: str, settings: dict[str, Any], places: list[str], tmp_path: Path
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / name).write_text(text, "utf-8")
    source = Source("table" if name != "a.jsonl" else "jsonl", str(tmp_path / "deep" / name))
    found = raw(source, RowSettings(**settings), tmp_path)
    assert [each.origin.input_row for each in found] == [f"{name}, {place}" for place in places]
    inside = raw(replace(source, root=str(tmp_path)), RowSettings(**settings), tmp_path)
    assert [each.origin.input_row for each in inside] == [f"deep/{name}, {place}" for place in places]


def test_rows_of_parquet_are_counted_in_each_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        pq.write_table(pa.Table.from_pylist([QUESTION, QUESTION]), tmp_path / f"{name}.parquet")
    sources = PARQUET.find(str(tmp_path), tmp_path, RowSettings()).sources
    found = [each.origin.input_row for source in sources for each in raw(source, RowSettings(), tmp_path)]
    assert found == ["a.parquet, row 1", "a.parquet, row 2", "b.parquet, row 1", "b.parquet, row 2"]
    last = raw(replace(sources[1], only=(4,)), RowSettings(), tmp_path)
    assert [each.origin.input_row for each in last] == ["b.parquet, row 2"]


def test_an_image_without_a_question_names_itself(tmp_path: Path) -> None:
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "a.png").write_bytes(b"png")
    [found] = raw(Source("images", str(tmp_path)), RowSettings(), tmp_path)
    assert found.origin.input_row == f"{tmp_path.name}, cats/a.png"


SOURCES = [
    (Source("datasets", "org/photos"), "org/photos"),
    (Source("datasets", "hf://org/photos"), "org/photos"),
    (Source("own", "https://ann:secret@example.org/in/a.psv?key=secret"), "a.psv"),
    (Source("datasets", "/home/ann/photos"), "photos"),
    (Source("parquet", "s3://bucket/in/deep/a.parquet", root="s3://bucket/in"), "deep/a.parquet"),
    (Source("parquet", "/home/ann/a\udcff.parquet"), "a\\udcff.parquet"),
]


@pytest.mark.parametrize(("source", "name"), SOURCES, ids=[name for _, name in SOURCES])
def test_the_name_of_a_source_reveals_no_folder_of_the_user(source: Source, name: str) -> None:
    assert source.name == name


NAMES = [
    ({"bytes": b"png", "path": "scans/a.png"}, "scans/a.png", "a"),
    ({"bytes": b"png", "path": "/home/ann/scans/a.png"}, "a.png", "a"),
    ({"bytes": b"png", "path": r"C:\scans\a.b.png"}, "a.b.png", "a.b"),
    ({"bytes": b"png", "path": "https://example.org/x/a.png"}, "a.png", "a"),
    ({"bytes": b"png", "path": "https://example.org/x/a.png?signature=key/of/it#b"}, "a.png", "a"),
    ({"bytes": b"png", "path": "scans/a?b.png"}, "scans/a?b.png", "a?b"),
    ({"bytes": b"png", "path": None}, "", ""),
    ({"bytes": None, "path": "scans/a.png"}, "scans/a.png", "a"),
]


@pytest.mark.parametrize(("image", "name", "stem"), NAMES)
def test_media_have_the_names_of_the_input(image: dict[str, Any], name: str, stem: str, tmp_path: Path) -> None:
    row = {**WHOLE, "image": image, "seen": 2.5} | {"media": None}
    del row["media"]
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    rows = RowSettings(keep=KEEP, file_ids=True)
    [found] = raw(Source("parquet", str(tmp_path / "a.parquet")), rows, tmp_path)
    assert (found.origin.media_names, kept(found.origin)) == ((name,), {"seen": "2.5"})
    assert json.loads(found.text)["id"] == stem


LINES = [
    (["/home/ann/scans/a.png", r"C:\scans\a.png"], ("a.png", "a.png")),
    (["https://example.org/x/a.png?signature=key"], ("a.png",)),
    (["data:image/png;base64,iVBORw0KGgo=", 3], ("", "")),
]


@pytest.mark.parametrize(("media", "names"), LINES)
def test_names_in_lines_reveal_neither_machine_nor_key(media: list[Any], names: tuple[str, ...]) -> None:
    text = json.dumps(WHOLE | {"media": media, "question": ""})
    with pytest.raises(InvalidRecord) as caught:
        parse_record(RawRecord(1, text))
    assert caught.value.origin.media_names == names


def test_a_row_that_does_not_fit_its_shape_keeps_its_columns(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "a", "seen": 3, "conversations": "none"}), "utf-8")
    rows = RowSettings(shape="conversations", keep=KEEP)
    [found] = raw(Source("jsonl", str(tmp_path / "a.jsonl")), rows, tmp_path)
    assert (found.problem, kept(found.origin)) == ("conversations: expected a list of turns, got 'none'", {"seen": "3"})


def test_dates_and_decimals_are_kept_as_they_read(tmp_path: Path) -> None:
    row = {**WHOLE, "seen": datetime.date(2026, 11, 25), "collected_by": decimal.Decimal("1.50")}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    [found] = raw(Source("parquet", str(tmp_path / "a.parquet")), RowSettings(keep=KEEP), tmp_path)
    assert kept(found.origin) == {"seen": "2026-11-25", "collected_by": "1.50"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"number_ids": True, "file_ids": True}, "number_ids and file_ids are both set"),
        ({"keep": ("a.b",)}, "'a.b' cannot be the name of a Parquet column"),
        ({"keep": (" ",)}, "' ' cannot be the name of a Parquet column"),
        ({"keep": ("File_row_number",)}, "the database that reads the rows uses the name file_row_number itself"),
        ({"keep": ("Mood", "mood")}, "'keep' has the name 'Mood' twice"),
    ],
)
def test_what_cannot_be_kept(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RowSettings(**settings)
