"""The header of a data folder has only keys and values that cannot harm."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from groundtrace.pipelines.commands.cli import main
from groundtrace.stages.sources.base import InputError, RowSettings
from groundtrace.stages.sources.data_folders import open_folder


def put(folder: Path, name: str, **config: Any) -> None:
    header = yaml.safe_dump({"configs": [{"config_name": "default", "data_files": "a.csv", **config}]})
    (folder / name).write_text(header if name.endswith(".yaml") else f"---\n{header}---\n")
    for table in "ab":
        (folder / f"{table}.csv").write_text("id;question\n1;Which?\n")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"sep": "(a|a)*b|(a+)+c"}, "has the value '(a|a)*b|(a+)+c' for the key 'sep' in 'configs': set it to one ASCII"),
    ({"delimiter": "(a+)+c"}, "has the value '(a+)+c' for the key 'delimiter' in 'configs'"),
    ({"sep": None}, "has a value of the type NoneType for the key 'sep'"),  # pandas would search for one
    ({"sep": "§"}, "has the value '§' for the key 'sep'"),  # pandas prints a warning
    ({"sep": [";"]}, "has a value of the type list for the key 'sep'"),
    ({"quotechar": "``"}, "has the value '``' for the key 'quotechar'"),
    ({"header": 10**9}, "has the value 1000000000 for the key 'header'"),
    ({"names": ["a", ["b"]]}, "has a value of the type list for the key 'names'"),
    ({"encoding": "punycode"}, "has the value 'punycode' for the key 'encoding'"),
    ({"encoding": "a\0"}, r"has the value 'a\x00' for the key 'encoding'"),
    ({"default": "yes, please"}, "has the value 'yes, please' for the key 'default'"),
    ({"engine": "python"}, "has the key 'engine' in 'configs', which is not allowed: remove this key"),
    ({"comment": "x"}, "has the key 'comment' in 'configs'"),
    ({"date_format": "%Y"}, "has the key 'date_format' in 'configs'"),
    ({"x" * 1000: 1}, f"has the key '{'x' * 76}... in 'configs'"),
]


@pytest.mark.parametrize("name", ["README.md", ".huggingface.yaml"])
@pytest.mark.parametrize(
    ("config", "said"), REFUSED, ids=[f"{next(iter(c))[:20]}-{n}" for n, (c, _) in enumerate(REFUSED)]
)
def test_other_keys_and_values_are_refused(config: dict[str, Any], said: str, name: str, tmp_path: Path) -> None:
    put(tmp_path, name, **config)
    with pytest.raises(InputError, match=re.escape(f"the file {tmp_path / name} {said}")):
        open_folder(str(tmp_path), RowSettings())


def test_a_command_ends_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "README.md", sep="(a|a)*b|(a+)+c")
    assert main(["validate", "grounded_cot", "--input", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "for the key 'sep'" in err and err.count("\n") == 1


def test_a_value_that_holds_itself_is_not_shown(tmp_path: Path) -> None:
    put(tmp_path, "README.md")
    (tmp_path / "README.md").write_text("---\nconfigs:\n- config_name: default\n  sep: &a [*a, *a]\n---\n")
    with pytest.raises(InputError, match="has a value of the type list for the key 'sep'"):
        open_folder(str(tmp_path), RowSettings())


ALLOWED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"sep": ";"}, {"id": 1, "question": "Which?"}),
    ({"delimiter": ";", "header": 0, "default": True, "encoding": "latin-1"}, {"id": 1, "question": "Which?"}),
    ({"sep": ";", "header": 0, "names": ["a", "b"], "quotechar": "'"}, {"a": 1, "b": "Which?"}),
    ({"sep": ";", "header": "infer", "column_names": None, "version": "1.0.0"}, {"id": 1, "question": "Which?"}),
    ({"sep": "\t", "description": "Questions"}, {"id;question": "1;Which?"}),
    (
        {"sep": ";", "features": [{"name": "id", "dtype": "string"}, {"name": "question", "dtype": "string"}]},
        {"id": "1", "question": "Which?"},
    ),
]


@pytest.mark.parametrize(("config", "row"), ALLOWED, ids=str)
def test_the_keys_of_published_data_sets_are_allowed(
    config: dict[str, Any], row: dict[str, Any], tmp_path: Path
) -> None:
    put(tmp_path, "README.md", **config)
    assert list(open_folder(str(tmp_path), RowSettings())) == [row]


def test_the_keys_of_an_image_folder_are_allowed(tmp_path: Path) -> None:
    config = {"config_name": "default", "data_dir": ".", "drop_labels": True, "drop_metadata": False}
    (tmp_path / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': [config]})}---\n")
    (tmp_path / "a.png").write_bytes(b"an image")
    assert set(open_folder(str(tmp_path), RowSettings()).features or ()) == {"image"}
