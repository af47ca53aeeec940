"""``--turns tools``: trajectories as the tool calls of each trainer, as golden files have them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.grading.question_text import TOOL_INSTRUCTION
from groundtrace.grading.responses.turns import TOOL, TOOL_SCHEMA, Turn
from groundtrace.pipelines.commands import cli
from groundtrace.publishing.exports.errors import ExportError
from groundtrace.publishing.exports.registry import FORMATS, export_format
from groundtrace.publishing.exports.tools import SCHEMAS
from tests.publishing.exports.made_runs import (
    ASKED_FOR_CODE,
    TURNS,
    coded_run,
    exported,
    lines,
    make_run,
    picture,
    sft,
    table,
    trajectory,
)

GOLDEN = Path(__file__).parent / "golden"
WITH_TOOLS = ("llamafactory", "swift", "trl", "verl")
NAMES = {picture(): "image 0", picture(90, 90, seed=1): "image 1", picture(90, 90, seed=2): "image 2"}


def rows(folder: Path, side: str) -> list[dict[str, Any]]:
    """The rows of an export, with the images by their names."""
    found = table(folder / f"{side}.parquet") if (folder / f"{side}.parquet").exists() else lines(folder / "sft.jsonl")
    for row in found:
        datas = [each["bytes"] if isinstance(each, dict) else (folder / each).read_bytes() for each in row["images"]]
        row["images"] = [NAMES[data] for data in datas]
    return found


def listed(value: Any) -> str:
    """A value of a row as lines: one for each turn; the schema and the instruction by their names."""
    if value in (SCHEMAS, [TOOL_SCHEMA]):
        return " SCHEMAS as JSON" if value == SCHEMAS else " SCHEMAS"
    if not (isinstance(value, list) and isinstance(value[0], dict)):
        return f" {json.dumps(value, ensure_ascii=False)}"
    texts = [json.dumps(turn, ensure_ascii=False).replace(TOOL_INSTRUCTION, "INSTRUCTION") for turn in value]
    return "".join(f"\n    {text}" for text in texts)


def shown(form: str, folder: Path) -> str:
    """All rows of an export of :func:`coded_run`, for a reader."""
    exported(coded_run(folder / "run"), form, folder / "out", turns="tools")
    texts = [f"SCHEMAS: {SCHEMAS}\n"]
    for side in export_format(form).open:
        for row in rows(folder / "out", side):
            texts += [f"\n{side}", *(f"  {name}:{listed(value)}" for name, value in row.items() if value is not None)]
    return "\n".join(texts).replace(str(folder / "run"), "RUN") + "\n"


@pytest.mark.parametrize("form", WITH_TOOLS)
def test_rows_are_the_golden_ones(form: str, tmp_path: Path) -> None:
    assert shown(form, tmp_path) == (GOLDEN / f"tools_{form}.txt").read_text("utf-8")


def test_formats_without_tools_refuse() -> None:
    assert {name for name in FORMATS if export_format(name).takes_tools} == {*WITH_TOOLS}


@pytest.mark.parametrize("form", [name for name in FORMATS if name not in WITH_TOOLS])
def test_a_format_without_tools_says_so(form: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=f"the format {form} cannot hold tool calls"):
        exported(coded_run(tmp_path / "run"), form, tmp_path / "out", turns="tools")
    assert not (tmp_path / "out").exists()


def test_another_rendering_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="tags or tools, not 'code'"):
        exported(coded_run(tmp_path / "run"), "trl", tmp_path / "out", turns="code")


@pytest.mark.parametrize("form", WITH_TOOLS)
def test_by_default_rows_have_tags(form: str, tmp_path: Path) -> None:
    exported(coded_run(tmp_path / "run"), form, tmp_path / "out")
    for side in export_format(form).open:
        for row in rows(tmp_path / "out", side):
            assert not {"tools", "sandbox", "agent_name"} & row.keys()
            assert TOOL not in json.dumps(row)


def turns_of(row: dict[str, Any]) -> Iterable[dict[str, Any]]:
    return row.get("messages") or [*row["prompt"], *row.get("completion", ())]


@pytest.mark.parametrize("form", WITH_TOOLS)
def test_every_prompt_asks_for_the_tool(form: str, tmp_path: Path) -> None:
    exported(coded_run(tmp_path / "run"), form, tmp_path / "out", turns="tools")
    for side in export_format(form).open:
        for row in rows(tmp_path / "out", side):
            text = json.dumps([*turns_of(row)])
            assert text.count(TOOL_INSTRUCTION) == 1
            assert "<code>" not in text
            assert "<interpreter>" not in text


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (sft("plain"), "no_code_asked"),
        (trajectory("call", (Turn("a <tool_call> b", "x()"), TURNS[-1])), "control_token"),
        (trajectory("result", (TURNS[0], Turn("<tool_response>2</tool_response><answer>2</answer>"))), "control_token"),
        (sft("asked", asked=f"<tool_response>{ASKED_FOR_CODE}"), "control_token"),
    ],
)
def test_rows_without_a_form_as_tool_calls(row: dict[str, Any], reason: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [row, trajectory()])
    done = exported(run, "trl", tmp_path / "out", turns="tools")
    assert (done.counts["sft"].written, done.counts["sft"].left_out) == (1, {reason: 1})


def test_code_behind_an_answer_is_text(tmp_path: Path) -> None:
    """It was not executed, so that it is no call."""
    said = "<answer>1</answer>\n<code>\n```python\nx()\n```\n</code>"
    exported(
        make_run(tmp_path / "run", [sft("q", said, asked=ASKED_FOR_CODE)]), "verl", tmp_path / "out", turns="tools"
    )
    [row] = table(tmp_path / "out/sft.parquet")
    assert (row["messages"][1]["content"], row["messages"][1]["tool_calls"]) == (said, None)


def test_the_command_has_the_option(tmp_path: Path) -> None:
    run = coded_run(tmp_path / "run")
    words = ["export", str(run), "--format", "swift", "--family", "qwen3-vl", "--output", str(tmp_path / "out")]
    assert cli.main([*words, "--turns", "tools"]) == 0
    assert json.loads((tmp_path / "out/export.json").read_text("utf-8"))["turns"] == "tools"
    assert table(tmp_path / "out/sft.parquet")[0]["messages"][2]["role"] == "tool_call"
