"""VLMEvalKit's tables: images in base64, by path and by another row's index, options, and answers by letter."""

import base64
from pathlib import Path
from typing import Any

import pytest

COLUMNS = ("index", "image", "image_path", "question", "hint", "A", "B", "C", "answer")


def table(path: Path, *rows: dict[str, str]) -> Path:
    made = [
        {"index": str(n), "question": "Which?", "A": "cat", "B": "dog", "answer": "B"} | row
        for n, row in enumerate(rows, 1)
    ]
    lines = ["\t".join(COLUMNS), *("\t".join(row.get(name, "") for name in COLUMNS) for row in made)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@pytest.fixture
def picture(image: bytes) -> str:
    return base64.b64encode(image).decode()


def test_a_table(picture: str, image: bytes, records: Any, tmp_path: Path) -> None:
    big = base64.b64encode(image + bytes(2**20)).decode()
    found = records(
        table(
            tmp_path / "MMBench.tsv",
            {"image": picture},
            {"image": "1", "hint": "Look.", "answer": "a"},
            {"image": f"['{picture}', '{big}']", "answer": "dog"},
            {"image_path": "x/a.png", "A": "", "B": "", "answer": "7"},
            {"image_path": "['x/a.png', 'b.png']", "answer": "(C).", "C": "None"},
            {"image": big},
        ),
        shape="vlmevalkit",
    )
    assert [each.id for each in found] == ["1", "2", "3", "4", "5", "6"]
    assert [each.answer for each in found] == ["dog", "cat", "dog", "7", "None", "dog"]
    assert [each.choices for each in found[2:5]] == [("cat", "dog"), None, ("cat", "dog", "None")]
    assert found[1].question == "Look.\nWhich?"
    assert found[0].media == found[1].media == found[2].media[:1]
    assert found[4].media == ("input:x/a.png", "input:b.png")
    assert (tmp_path / "run" / found[0].media[0].removeprefix("run:")).read_bytes() == image


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"image": "!" * 70}, "image: the 70 characters are not base64"),
        ({"image": "A" * 65}, "image: the 65 characters are not base64"),
        ({"image": "9"}, "image: '9' is neither base64 nor the index of an earlier row"),
        ({"image": "1"}, "image: '1' is neither base64 nor the index of an earlier row"),
        ({"image": "[" * 500 + "]"}, "image: the cell begins and ends like a list, but is not a list"),
        ({"image_path": "a.png", "answer": "D"}, "answer: 'D' is neither a letter (A, B) nor the text of an option"),
        ({"image_path": "a.png", "answer": ""}, "answer: '' is neither a letter"),
        ({"image_path": "a.png", "B": "", "answer": "A"}, "expected a list of at least two choices, got ['cat']"),
        ({"image_path": "a.png", "question": ""}, "question: the value is missing or empty"),
        ({}, "media: expected one or more paths, got []"),
    ],
)
def test_what_is_refused(row: dict[str, str], said: str, records: Any, tmp_path: Path) -> None:
    [found] = records(table(tmp_path / "t.tsv", row), shape="vlmevalkit")
    assert said in found
    assert len(found) < 300
