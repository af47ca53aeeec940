import json
import tomllib
from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.pipelines.commands.cli import main
from groundtrace.pipelines.commands.init import starting_config
from tests.pipelines.far_server import filled, right, serving


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Parquet whose columns have other names than the fields."""
    picture = cv2.imencode(".png", np.full((20, 30, 3), 200, np.uint8))[1].tobytes()
    rows = {"Query": ["How many?"] * 3, "label": ["2"] * 3, "image": [{"bytes": picture, "path": "a.png"}] * 3}
    pq.write_table(pa.table(rows), tmp_path / "shop.parquet")
    return tmp_path / "shop.parquet"


def test_the_config_that_init_writes_makes_the_records_usable(
    questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["validate", "grounded_cot", "--input", str(questions)]) == 2
    said = capsys.readouterr().out
    assert "read 3 of 3 records: 0 can be used" in said
    assert "MISSING: question, answer, source, license" in said and '  question = "Query"' in said
    config = tmp_path / "my.toml"
    assert main(["init", str(questions), "--output", str(config)]) == 0
    assert f"beam validate grounded_cot --input {questions} --config {config}" in capsys.readouterr().out
    monkeypatch.setenv("FAR_KEY", "secret")
    with serving(right) as server:
        config.write_text(filled(config.read_text("utf-8"), server.url), "utf-8")
        words = ["grounded_cot", "--input", str(questions), "--config", str(config)]
        assert main(["validate", *words]) == 0
        said = capsys.readouterr().out
        assert main(["run", *words, "--output", str(tmp_path / "run")]) == 0
        assert len(server.seen) == 1  # three equal questions about one image are one question
    assert "read 3 of 3 records: 3 can be used" in said
    assert (
        'the licence of shop.parquet is "unknown", which does not state that the rows may be passed on: before' in said
    )
    assert "endpoint model (detector, judge, pointer, policy, teacher): " in said
    assert "the prompt of one record, as in its row (row-1, gold answer 2):\n  <image>How many?" in said


def test_the_config_has_one_endpoint_in_all_roles(questions: Path) -> None:
    text = starting_config(str(questions), "my.toml")
    values = tomllib.loads(text)
    assert values.pop("input") == {
        "columns": {"question": "Query", "answer": "label"},
        "constants": {"source": "shop.parquet", "license": "unknown"},
    }
    [(name, endpoint)] = values.pop("endpoints").items()
    assert set(endpoint) == {"kind", "base_url", "model", "api_key_env", "family"}
    assert values.pop("roles") == dict.fromkeys(("policy", "teacher", "pointer", "detector", "judge"), name) | {
        "segmenter": ""
    }
    assert values == {}
    assert "# shop.parquet" not in text and "# columns: Query, image, label" in text


def test_a_config_for_the_embedded_engine_runs_without_a_server(
    questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "my.toml"
    assert main(["init", str(questions), "--embedded", "--output", str(config)]) == 0
    printed = capsys.readouterr().out
    command = f"beam validate grounded_cot --input {questions} --config {config}"
    assert printed == f"{config}: {command}\n"
    assert set(tomllib.loads(config.read_text("utf-8"))) == {"input"}
    assert main(command.split()[1:]) == 0
    assert "read 3 of 3 records: 3 can be used" in capsys.readouterr().out


def test_an_input_with_fields_of_its_own_needs_no_map(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(Path(__file__).parents[3] / "data/sample")]) == 0
    assert "nothing to map" in capsys.readouterr().out


def test_a_file_is_not_overwritten(questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my.toml").write_text("kept", "utf-8")
    assert main(["init", str(questions), "--output", str(tmp_path / "my.toml")]) == 2
    assert "already exists: name another file" in capsys.readouterr().err
    assert (tmp_path / "my.toml").read_text("utf-8") == "kept"


def test_what_is_no_input_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path / "none.parquet")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_has_to_be_filled_in_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my data").mkdir()
    path = tmp_path / "my data/q.csv"
    path.write_text("Filename;Prompt;Verdict\na.png;How many?;2\n", "utf-8")
    assert main(["init", str(path), "--output", str(tmp_path / "my.toml")]) == 0
    said = capsys.readouterr().out
    said_first, _, command = said.partition(", then: ")
    assert said_first.endswith(
        "my.toml: fill in answer, and correct base_url, model and api_key_env if your server is another"
    )
    assert command.startswith("beam validate grounded_cot --input '")
    columns = tomllib.loads((tmp_path / "my.toml").read_text("utf-8"))["input"]["columns"]
    assert columns == {"question": "Prompt", "media": "Filename"}


def test_columns_that_no_field_uses_are_listed_with_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "q.csv"
    path.write_text("Image,Question,Gold,Type,collected_by,x.y\na.png,How many?,2,numeric,ana,1\n", "utf-8")
    assert main(["init", str(path), "--output", str(tmp_path / "my.toml")]) == 0
    assert "fill in" not in capsys.readouterr().out  # every value has one
    text = (tmp_path / "my.toml").read_text("utf-8")
    assert '# Columns that no field uses: "Type", "collected_by", "x.y"\n' in text
    given = tomllib.loads(text)["input"]
    assert given["columns"] == {"question": "Question", "answer": "Gold", "media": "Image"}
    for line in ('answer_type = "Type"', 'keep = ["collected_by"]'):
        assert f"\n# {line}  # " in text
        text = text.replace(f"\n# {line}", f"\n{line}")
    given = tomllib.loads(text)["input"]
    assert given["columns"]["answer_type"] == "Type" and given["keep"] == ["collected_by"]


def test_a_question_that_is_found_by_its_values_is_proposed_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, line = tmp_path / "q.csv", 'question = "task"  # found by its values: most end with a question mark'
    path.write_text("picture,task,gold,collected_by\na.png,How many?,2,ana\nb.png,How many?,3,ben\n", "utf-8")
    text = starting_config(str(path), "my.toml")
    assert f"\n{line}\n" in text and '# Columns that no field uses: "collected_by"\n' in text
    columns = tomllib.loads(text)["input"]["columns"]
    assert columns == {"question": "task", "answer": "gold", "media": "picture"}
    assert main(["validate", "grounded_cot", "--input", str(path)]) == 2
    assert f"  {line}\n" in capsys.readouterr().out


def test_an_example_alone_has_its_section_in_comments(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text("id,media,question,answer,source,license,bbox\n1,a.png,How many?,2,s,MIT,\n", "utf-8")
    text = starting_config(str(path), "my.toml")
    assert "input" not in tomllib.loads(text)
    assert text.endswith(
        '# Columns that no field uses: "bbox"\n'
        "# The records have every field under its own name: nothing to map.\n"
        '# [input.columns]\n# boxes = "bbox"  # if it holds gold boxes\n'
    )


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ('Image,Question,Gold\na.png,"What is it?\nA. circle\nB. square",B\n', "choices_in_text = true"),
        ('Image,Question,Options,Gold\na.png,What is it?,"[""circle"", ""square""]",B\n', 'answer_is = "letter"'),
        ('Image,Question,Options,Gold\na.png,What is it?,"[""circle"", ""square""]",square\n', ""),
        ("Image,Question,Gold\na.png,What is it?,B\n", ""),
    ],
)
def test_the_form_of_choices_is_found(rows: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text(rows, "utf-8")
    text = starting_config(str(tmp_path / "q.csv"), "my.toml")
    tomllib.loads(text)
    assert [each for each in ("choices_in_text = true", 'answer_is = "letter"') if each in text] == [line] * bool(line)


LINES = [json.dumps({"img": "a.png", "q": "How many?", "label": "2", "part": part}) for part in "xyx"]


def test_json_lines_without_ids_are_numbered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, config = tmp_path / "q.jsonl", tmp_path / "my.toml"
    path.write_text("\n".join(LINES), "utf-8")
    cv2.imwrite(str(tmp_path / "a.png"), np.full((20, 30, 3), 200, np.uint8))
    assert main(["init", str(path), "--embedded", "--output", str(config)]) == 0
    assert "fill in" not in capsys.readouterr().out
    given = tomllib.loads(config.read_text("utf-8"))["input"]
    assert given["number_ids"] is True and "id" not in given["columns"]
    assert main(["validate", "grounded_cot", "--input", str(path), "--config", str(config)]) == 0
    assert "read 3 of 3 records: 3 can be used" in capsys.readouterr().out


@pytest.mark.parametrize("column", ["name", "uid"])
def test_json_lines_with_a_column_of_different_values_are_not_numbered(column: str, tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text("\n".join(f'{line[:-1]}, "{column}": "n{n}"}}' for n, line in enumerate(LINES)), "utf-8")
    text = starting_config(str(path), "my.toml")
    assert "number_ids = true  #" not in text
    assert ('\n# id = "…"' if column == "name" else '\nid = "uid"') in text


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("picture,query,verdict\na.png,How many?,2\n", []),
        ("picture,query,verdict,bbox\na.png,How many?,2,\n", []),
        (
            "picture,query,verdict,by\na.png,How many?,2,ana\n",
            ['# keep = ["by", "verdict"]  # copies them into every row'],
        ),
        ("picture,query,answer,by\na.png,How many?,2,ana\n", ['# keep = ["by"]  # copies them into every row']),
    ],
)
def test_the_only_column_that_can_hold_answers_is_not_offered_to_be_kept(
    text: str, offered: list[str], tmp_path: Path
) -> None:
    (tmp_path / "q.csv").write_text(text, "utf-8")
    config = starting_config(str(tmp_path / "q.csv"), "my.toml")
    assert [line for line in config.splitlines() if "keep = " in line] == offered


def test_each_command_names_the_files_that_it_does_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, config = tmp_path / "data", tmp_path / "my.toml"
    data.mkdir()
    (data / "q.csv").write_text("image,question,answer\na.png,How many?,2\n", "utf-8")
    (data / "my.jsonl").write_text("\n".join(LINES), "utf-8")
    cv2.imwrite(str(data / "a.png"), np.full((20, 30, 3), 200, np.uint8))
    line = "not read: my.jsonl, in the folder of q.csv: to read another file, set --input to this file"
    assert main(["init", str(data), "--embedded", "--output", str(config)]) == 0
    assert f"# {line}" in config.read_text("utf-8").splitlines()
    assert line in capsys.readouterr().out.splitlines()
    words = ["grounded_cot", "--input", str(data), "--config", str(config)]
    assert main(["validate", *words]) == 0
    assert line in capsys.readouterr().out.splitlines()
    main(["run", *words, "--output", str(tmp_path / "run"), "--set", "max_failed=1.0"])
    assert line in capsys.readouterr().err.splitlines()
