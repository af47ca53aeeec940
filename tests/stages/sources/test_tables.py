"""CSV and JSON arrays: which rows they hold, and what is said of files that are not what they seem."""

import json
from pathlib import Path
from typing import Any

import pytest

from groundtrace.schemas.json_lines import parse_object
from groundtrace.stages.sources import tables
from groundtrace.stages.sources.base import InputError, NothingHere, RowSettings
from groundtrace.stages.sources.tables import MAX_CELL_CHARS, Tables
from groundtrace.vision.media import MediaStore

ROWS = RowSettings(columns={"question": "query", "media": "photo"}, constants={"license": "MIT"})


def records(path: Path, rows: RowSettings = ROWS) -> list[dict[str, Any]]:
    found = Tables().find(str(path), path, rows)
    [source] = found.sources
    read = list(Tables().records(source, rows, MediaStore(found.media_root, str(path.parent / "run"))))
    assert Tables().count(source) == len(read) == read[-1].number
    return [parse_object(record.text) for record in read]


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("before", ["", "\ufeff", "\r\n"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_csv_file(separator: str, before: str, tmp_path: Path) -> None:
    lines = ["query, photo ,answer,", '"How many, ""in all""?",a b.jpg,3,x', '"Two\nlines?",é/[1].png,,', "", ",,,"]
    text = before + "\r\n".join(line.replace(",", separator) for line in lines).replace("many" + separator, "many,")
    first, second = records(written(tmp_path / "q.csv", text))
    asked = f'How many, "in all"{"?"}' if separator == "," else 'How many, "in all"?'
    assert first == {"id": "row-1", "license": "MIT", "question": asked, "media": ["input:a b.jpg"], "answer": "3"}
    assert (second["question"], second["media"]) == ("Two\nlines?", ["input:é/[1].png"])
    assert "answer" not in second


def test_a_separator_within_quotes_separates_nothing(tmp_path: Path) -> None:
    [found] = records(written(tmp_path / "q.csv", '"query";"a, b, and c";photo\nHow many?;x;a.png\n'))
    assert (found["question"], found["media"]) == ("How many?", ["input:a.png"])


def test_a_long_cell_is_a_cell(tmp_path: Path) -> None:
    [found] = records(written(tmp_path / "q.csv", f"query,photo\n{'long ' * 100_000},a.png\n"))
    assert len(found["question"]) == 500_000


def test_rows_of_blanks_are_no_records(tmp_path: Path) -> None:
    found = records(written(tmp_path / "q.csv", " , \nquery,photo\nHow many?,a.png\n , \n  \n\t\nWhat?,b.png\n"))
    assert [record["question"] for record in found] == ["How many?", "What?"]


def test_cells_that_are_lists(tmp_path: Path) -> None:
    cells = ["How many?", '["a.png", "b.png"]', '["1", "2"]', "[1"]
    line = ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)
    [found] = records(written(tmp_path / "q.csv", f"query,photo,choices,answer\n{line}\n"))
    assert (found["media"], found["choices"]) == (["input:a.png", "input:b.png"], ["1", "2"])
    assert found["answer"] == "[1"


def test_a_json_array(tmp_path: Path) -> None:
    rows = [{"query": "How many?", "photo": ["a.png"], "answer": 3}, {"query": "Is it?", "answer": True}]
    first, second = records(written(tmp_path / "q.json", json.dumps(rows, indent=1)))
    assert (first["answer"], first["media"], second["answer"]) == (3, ["input:a.png"], True)


def test_what_validate_looks_at(tmp_path: Path) -> None:
    path = written(tmp_path / "q.csv", "query,photo,answer\nHow many?,a.png,3\nWhat?,,a cat\n")
    [source] = Tables().find(str(path), path, ROWS).sources
    assert list(Tables().media(source, ROWS)) == ["a.png"]
    assert [row["answer"] for row in Tables().answers(source, ROWS)] == ["3", "a cat"]


def test_what_is_another_formats(tmp_path: Path) -> None:
    for path in (tmp_path, written(tmp_path / "q.json", '{"id": "a"}\n'), tmp_path / "none.csv"):
        with pytest.raises(NothingHere):
            Tables().find(str(path), path, ROWS)


BAD = [
    (
        "q.csv",
        b"query,answer\nRed, blue or green?,red\n",
        "line 2: the row has 3 cells, but the header has 2: put a cell that holds ','",
    ),
    ("q.csv", b'query,answer\n"How many?,3\n', "cannot be read as CSV (unexpected end of data): correct this line"),
    ("q.csv", b"query,answer,answer\nHow many?,3,4\n", "two columns have the name 'answer': rename one of them"),
    ("q.csv", b",".join(b"c%d" % n for n in range(10_001)) + b"\n", "has 10001 columns, but at most 10000 are read"),
    ("q.csv", "query\nWie groß?\n".encode("latin-1"), "is not UTF-8 text (at byte 13): save it as UTF-8"),
    (
        "q.csv",
        "query\nHow many?\n".encode("utf-16"),
        "is in UTF-16 or UTF-32, or is not a text file, but must be a table in UTF-8: convert",
    ),
    ("q.csv", b"PK\x03\x04 a workbook", "is a zip archive, but must be a table in UTF-8: unpack"),
    ("q.csv", b'query\nx\n"How many?\n\n\n', "line 3, cannot be read as CSV (unexpected end of data)"),
    (
        "q.csv",
        b"query,answer\nHow many?\n",
        "line 2: the row has 1 cells, but the header has 2: write a ',' for each missing cell",
    ),
    ("q.csv", b"x" * (MAX_CELL_CHARS + 1), "line 1, cannot be read as CSV (field larger than"),
    ("q.csv", b"query\n" + b"a" * 2**20 + b"\xe2\x82x\n", f"is not UTF-8 text (at byte {2**20 + 6})"),
    ("q.csv", b"query\n" + b"a" * 2**21 + b"\xff\n", f"is not UTF-8 text (at byte {2**21 + 6})"),
    ("q.json", b'[{"query": "\xff"}]', "is not UTF-8 text (at byte 12)"),
    ("q.json", b'[\n{"query" "How many?"}\n]', "is not a JSON array of objects (line 2, entry 1: "),
    ("q.json", b'[{"query": "How many?"}, 3]', "(line 1, entry 2: expected a JSON object in braces"),
]


@pytest.mark.parametrize(("name", "data", "message"), BAD, ids=[message[:30] for _, _, message in BAD])
def test_files_that_are_refused(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError) as refused:
        Tables().find(name, tmp_path / name, ROWS)
    assert message in str(refused.value)
    assert str(tmp_path / name) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_row_of_many_long_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_ROW_CHARS", 1_000)
    rows = [f'query {n},"{"two lines" * 40}\n{"two lines" * 40}",x\n' for n in range(9)]
    (tmp_path / "q.csv").write_text("query,note,answer\n" + "".join(rows))
    assert len(records(tmp_path / "q.csv", ROWS)) == 9
    (tmp_path / "q.csv").write_text("query,note,answer\n" + rows[0][:-3] + rows[1])
    with pytest.raises(InputError, match=r"line \d, cannot be read as CSV \(the row has more than 1000 characters\)"):
        records(tmp_path / "q.csv", ROWS)


def test_the_metadata_of_an_image_folder_is_left_to_datasets(tmp_path: Path) -> None:
    written(tmp_path / "metadata.csv", "file_name,question\na.png,How many?\n")
    with pytest.raises(NothingHere):
        Tables().find(str(tmp_path), tmp_path, RowSettings())
    written(tmp_path / "questions.csv", "media,question\na.png,How many?\n")
    assert len(records(tmp_path, RowSettings())) == 1


@pytest.mark.parametrize("behind", [', "rows": []', "]", "} {", '\n[{"question": "another"}]'])
def test_an_array_is_the_whole_file(behind: str, tmp_path: Path) -> None:
    path = written(tmp_path / "q.json", '[{"question": "How many?"}]' + behind)
    with pytest.raises(
        InputError, match=r"the file has more text after the end of the array|expected a comma or \] after this entry"
    ):
        Tables().find(str(path), path, RowSettings())
