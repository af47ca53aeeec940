"""Evident mistakes in a command line: found without Beam, and no healthy command is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from groundtrace.pipelines.running.plan.first_checks import check_command
from groundtrace.schemas.errors import UserError

IMPORTED = """
import sys
from groundtrace.pipelines.commands.cli import main
code = main(sys.argv[1:])
print(code, [name for name in ("apache_beam", "pyarrow", "numpy", "duckdb") if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["grounded_cot", "--input", "no/such/folder"], "the input no/such/folder does not exist: "),
        (["grounded_cot", "--input", "absent.csv"], "the input absent.csv does not exist: "),
        (["grounded", "--input", "."], "there is no pipeline 'grounded': name a bundled pipeline"),
        (["grounded_cot", "--input", ".", "--config", "absent.toml"], "cannot read the config absent.toml: "),
        (["grounded_cot", "--input", ".", "--config", "bad.toml"], "bad.toml is not TOML: "),
        (["grounded_cot", "--input", ".", "--set", "k"], "--set 'k' must have the form key=value"),
    ],
)
@pytest.mark.parametrize("command", ["run", "validate"])
def test_an_evident_mistake_needs_no_beam(command: str, arguments: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[roles\n", "utf-8")
    output = ["--output", "run"] if command == "run" else []
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTED, command, *arguments, *output],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "2 []\n"
    assert ran.stderr.startswith(f"beam: {message}") and ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "name",
    [
        "",
        "here.csv",
        "folder",
        "~",
        "~nobody/x",
        "gs://b/q.parquet",
        "hf://a/b",
        "org/name",
        "squad",
        "part-*.parquet",
        "dangling",
    ],
)
def test_an_input_that_may_exist_is_left_to_the_plan(name: str, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "here.csv").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    monkeypatch.chdir(tmp_path)
    check_command("grounded_cot", name, None, ())


def test_a_missing_input_beside_one_that_exists(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "here.csv").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^the input her\.csv does not exist: set --input to a \.csv, "):
        check_command("grounded_cot", "her.csv", None, ())
