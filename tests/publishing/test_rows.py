"""Rows of an opened run: filtered, indexed, printed in one line, and shown in a frame that runs no script."""

import copy
import html
import pickle
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import groundtrace as gt
from groundtrace.pipelines.commands import cli
from groundtrace.publishing.opened_run import OpenedRun
from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.row_text import row_text
from groundtrace.publishing.rows import Row, Rows
from tests.publishing.comparison.conftest import out, sft, write_run


@pytest.fixture(scope="module")
def run(demo: Path) -> OpenedRun:
    """The run over the sample, which tests only read."""
    return gt.open_run(demo / "runs/demo")


def page_of(shown: Any) -> str:
    """The page in the frame that a notebook would show."""
    found = re.fullmatch(r'<iframe sandbox srcdoc="([^"]*)" style="[^"]*"></iframe>', shown._repr_html_())
    assert found is not None
    return html.unescape(found[1])


def test_where(run: OpenedRun) -> None:
    rows = run.rejected
    reasons = rows.table["reason"].to_pylist()
    assert len(rows.where(reason="too_easy")) == reasons.count("too_easy") > 0
    assert len(rows.where(reason=["too_easy", "too_hard"])) == sum(map(reasons.count, ("too_easy", "too_hard")))
    assert len(rows.where(reason=lambda reason: reason.startswith("too_"), stage="difficulty")) > 0
    assert len(rows.where(reason="too_easy").where(reason="too_hard")) == 0
    assert len(rows.where(reason=None)) == 0
    assert len(run.sft.where(choices=None)) == run.sft.table["choices"].null_count
    assert len(run.sft.where(pass_rate=lambda rate: rate <= 1)) == len(run.sft)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"nope": 1}, "the rows of sft have no column 'nope': use one of id, source"),
        ({"pass_rate": "high"}, "where(pass_rate='high') does not fit the column's type, double"),
    ],
)
def test_a_wrong_filter_is_named(run: OpenedRun, wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(InspectError, match=re.escape(said)):
        run.sft.where(**wanted)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (
            {"reason": "too_esay"},
            "^the run has no reason 'too_esay': did you mean too_easy\\? OWNER: .*too_easy",
        ),
        ({"reason": ["too_easy", "nope"]}, "^the run has no reason 'nope': use one of "),
        (
            {"stage": "dificulty"},
            "^the run has no stage 'dificulty': did you mean difficulty\\? OWNER: .*difficulty",
        ),
    ],
)
def test_a_stage_or_reason_that_the_run_does_not_have(run: OpenedRun, wanted: dict[str, Any], said: str) -> None:
    for rows in (run.rejected, run.rejected.where(stage="difficulty"), run.rejected[:0]):
        with pytest.raises(
            InspectError, match=said.replace("OWNER", "These rows have" if len(rows) else "The run has")
        ):
            rows.where(**wanted)


def test_reasons_of_a_run_that_does_not_list_them(run: OpenedRun) -> None:
    """A run of an earlier version: only the rows have reasons."""
    rows = Rows(run.folder, "rejected", run.rejected.table, run.summary.input)
    assert len(rows.where(reason="no such reason")) == 0


def test_rows_are_indexed_by_number_and_id(run: OpenedRun) -> None:
    rows = run.sft
    ids = rows.table["id"].to_pylist()
    assert [row.id for row in rows] == ids and rows.num_rows == len(rows) == len(ids)
    assert rows[0].id == ids[0] and rows[-1].id == ids[-1] and rows[ids[1]].id == ids[1]
    assert rows[0]["question"] == rows.to_pylist()[0]["question"]
    assert [row.id for row in rows[:2]] == ids[:2] and [row.id for row in rows[-1::-2]] == ids[-1::-2]
    assert len(rows[len(rows) :]) == 0
    for wrong, kind in ((len(rows), IndexError), (-len(rows) - 1, IndexError), ("nope", KeyError)):
        with pytest.raises(kind):
            rows[wrong]
    with pytest.raises(KeyError, match="no column 'nope'"):
        rows[0]["nope"]


def test_a_row_has_the_names_of_its_columns(run: OpenedRun) -> None:
    row = run.sft[0]
    assert "answer" in row and "brightness" not in row and 0 not in row
    assert [*row.keys()] == [*row.values]


def test_rows_are_equal_wherever_their_runs_are(run: OpenedRun, tmp_path: Path) -> None:
    copy = gt.open_run(shutil.copytree(run.folder, tmp_path / "another"))
    assert copy.sft == run.sft and copy.sft[0] == run.sft[0]
    assert copy.sft != run.rl and copy.sft[0] != run.sft[1] and copy.sft != run.sft.where(id=run.sft[0].id)


def test_a_record_is_found_in_each_set(run: OpenedRun) -> None:
    for rows in (run.sft, run.rl, run.rejected):
        record = run.record(rows[0].id)
        assert (record.set, record.values) == (rows.set, rows[0].values)
    with pytest.raises(InspectError, match="has no record 'nope'"):
        run.record("nope")


def test_what_is_printed_is_short(run: OpenedRun, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = f"{len(run.sft)} sft, {len(run.rl)} rl, {len(run.rejected)} rejected"
    assert repr(run) == f"<run {run.folder}: grounded_cot, {sizes}>"
    counts, lines = run.summary.counts, str(run).splitlines()
    assert lines[0] == f"{counts.input} records: {sizes}"
    for reason, records in counts.by_reason.items():
        assert any(line.startswith(f"  {reason}: {records}") for line in lines)
    assert [line for line in lines if line.startswith("warning: ")] == [f"warning: {w}" for w in run.summary.warnings]
    assert str(replace(run, summary=replace(run.summary, warnings=("\x1b[2J",)))).count("\nwarning: \\x1b[2J\n") == 1
    first = run.rejected[0]
    assert first.line.startswith(f"<rejected row {first.id}: ")
    assert first.line.endswith(f"(rejected: {first['reason']})>")
    lines = repr(run.rejected).splitlines()
    assert len(lines) == 7 and lines[-1] == f"  and {len(run.rejected) - 5} more"
    assert lines[1] == f"  {first.line}"
    assert str(first) == repr(first) == row_text("rejected", first.values, run.folder.name)
    first.show()
    assert capsys.readouterr().out == f"{first!r}\n"


def test_in_a_notebook_rows_are_displayed(run: OpenedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[object] = []
    notebook = SimpleNamespace(get_ipython=lambda: object(), display=SimpleNamespace(display=displayed.append))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    run.sft.show()
    run.sft[0].show()
    assert [type(each) for each in displayed] == [Rows, Row]


def test_a_row_is_shown_with_its_image_and_trace(run: OpenedRun) -> None:
    page = page_of(run.sft[0])
    assert "data:image/" in page and "Content-Security-Policy" in page and "<script" not in page
    assert html.escape(run.sft[0]["question"], quote=False).split("\n")[0][:40] in html.unescape(page)
    rejected = page_of(run.rejected.where(reason="too_easy"))
    assert "Rejected by the stage" in rejected and "data:image/" in rejected
    assert page_of(run.rejected.where(reason="truncated")).count("no rows") == 1
    assert page_of(run) == (run.folder / "report.html").read_text("utf-8")


def test_a_record_without_a_readable_image_is_shown(run: OpenedRun) -> None:
    """Records that end at ingest have no media, no question and no traces."""
    values = dict.fromkeys(run.rejected.table.column_names) | {"id": "x", "stage": "ingest", "reason": "media_missing"}
    row = Row(run.folder, "rejected", values, run.summary.input)
    assert "media_missing" in page_of(row) and "no question (rejected: media_missing)" in row.line
    assert "question: no question\ngold answer: none\nrejected: ingest: media_missing" in repr(row)


def test_hostile_texts_are_escaped(run: OpenedRun) -> None:
    hostile = '"></iframe><script>alert(1)</script><img src=x onerror=alert(1)>'
    for rows in (run.sft, run.rejected):
        row = rows[0]
        values = {**row.values, "question": hostile, "id": hostile, "source": hostile, "reason": hostile}
        shown = Row(row.folder, row.set, values, row.input)
        element = shown._repr_html_()
        assert element.count("<") == 2 and "<script" not in html.unescape(element)


def test_two_runs_are_compared(run: OpenedRun) -> None:
    same = gt.diff(run, str(run.folder))
    assert repr(same).startswith("nothing differs: ") and page_of(same).startswith("<!doctype html>")


def test_a_comparison_is_the_text_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_run(tmp_path / "a", {"sft": [sft("1"), sft("2")]})
    second = write_run(tmp_path / "b", {"sft": [sft("1")], "rejected": [out("2", "too_hard")]})
    assert cli.main(["diff", str(first), str(second)]) == 0
    said = capsys.readouterr().out
    print(gt.diff(first, second))
    assert capsys.readouterr().out == said and "difficulty/too_hard" in said


def test_a_column_is_no_attribute(run: OpenedRun) -> None:
    row: Any = run.sft[0]
    with pytest.raises(AttributeError, match=r"^the row has no attribute 'answer': use row\[\"answer\"\]$"):
        _ = row.answer
    with pytest.raises(AttributeError, match=r"^the row has no attribute 'nope'$"):
        _ = row.nope
    assert copy.copy(row) == row == pickle.loads(pickle.dumps(row))


def test_a_row_is_shown_whole(run: OpenedRun, capsys: pytest.CaptureFixture[str]) -> None:
    row = run.sft[0]
    said = [{"role": "assistant", "content": "\n".join(f"line {number}" for number in range(20))}]
    long = replace(row, values={**row.values, "messages": said})
    long.show()
    assert "… and 14 more lines" in capsys.readouterr().out
    long.show(whole=True)
    shown = capsys.readouterr().out
    assert shown.endswith("  line 19\n") and "more line" not in shown
