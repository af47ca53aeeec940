"""A file whose single line is larger than the memory ends a command in one line, before the memory is full."""

from pathlib import Path

import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.schemas import json_lines
from groundtrace.stages.sources import json_arrays, tables

ROW = '{"id": "a", "question": "Which?", "answer": "1", "media": "a.png", "source": "s", "license": "l"}'
LONG = "cannot be read as CSV (the line has more than 100000 characters): correct"
FILES = [
    ("records.jsonl", '{"id": "', "line 1 of {path} has more than 100000 bytes: shorten this line, or remove it"),
    ("records.jsonl", f"{ROW}\n" * 1500 + '{"a": "', "line 1501 of {path} has more than 100000 bytes"),
    ("q.csv", "id,question", f"{{path}}, line 1, {LONG}"),
    ("q.csv", "\n\nid,question\na,", f"{{path}}, line 4, {LONG}"),
    ("q.csv", "", f"{{path}}, line 1, {LONG}"),
    ("q.json", '[{"id": "', "{path} is not a JSON array of objects (line 1, entry 1: "),
]


@pytest.mark.parametrize(("name", "begin", "said"), FILES)
@pytest.mark.parametrize("letter", ["x", " "])
def test_a_huge_line_is_refused(
    name: str,
    begin: str,
    said: str,
    letter: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_lines.bounded_lines, "__defaults__", (100_000,))
    monkeypatch.setattr(tables, "MAX_LINE_BYTES", 100_000)
    monkeypatch.setattr(json_arrays, "MAX_VALUE_CHARS", 100_000)
    monkeypatch.setattr(json_arrays, "CHUNK_CHARS", 10_000)
    (tmp_path / name).write_text(begin + letter * 500_000)
    given = tmp_path if name == "records.jsonl" else tmp_path / name
    for command in (["validate", "grounded_cot", "--input", str(given)], ["init", str(given)]):
        assert main([*command, *(["--output", str(tmp_path / "my.toml")] if command[0] == "init" else [])]) == 2
        err = capsys.readouterr().err
        assert err.startswith("beam: " + said.format(path=tmp_path / name)) and err.count("\n") == 1
