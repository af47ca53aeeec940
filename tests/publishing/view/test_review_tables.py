"""The marks and judgements of reviewers as tables for queries."""

import json
from pathlib import Path
from typing import Any

import pytest

from groundtrace.pipelines.commands import cli
from groundtrace.publishing.view.audit import JUDGEMENTS, WHOLE, open_audit
from groundtrace.publishing.view.audit_sample import SAMPLE
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.reviews import FILE, Mark, Reviews, text_digest
from groundtrace.publishing.view.rows import ViewedRows
from groundtrace.vision.media import MediaStore

from .viewed import sft_row, write_run

OLD, NEW = "<think>old</think>\n<answer>1</answer>", "<think>new</think>\n<answer>1</answer>"


def made(folder: Path, like: Path, **traces: str) -> Path:
    """A run whose SFT rows have these traces, and with a rejected record of two traces."""
    tried = [{"text": text, "answer": "1", "score": score} for text, score in (("low", 0.1), ("high", 0.4))]
    no = {"id": "no", "stage": "verify", "reason": "low_score", "question": "Which?", "media": [], "traces": tried}
    kept = [sft_row(row_id, trace=trace) for row_id, trace in traces.items()]
    return write_run(folder, like, {"sft": kept, "rejected": [no]})


@pytest.fixture
def query(capsys: pytest.CaptureFixture[str]) -> Any:
    """Returns the rows of a query over runs."""

    def run(sql: str, *runs: Path) -> list[dict[str, Any]]:
        assert cli.main(["inspect", *map(str, runs), "--json", "--sql", sql]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_marks_are_a_table(run: Path, tmp_path: Path, query: Any) -> None:
    folder = made(tmp_path / "run", run, same=OLD, changed=NEW, unmarked=OLD)
    reviews = Reviews(folder)
    kept = reviews.keep(Mark("same", text_digest(OLD), True, ("dark", "odd"), "wrong half box", set="sft"))
    reviews.keep(Mark("changed", text_digest(OLD), True))
    reviews.keep(Mark("no", text_digest("high"), note="right", set="rejected"))
    reviews.keep(Mark("gone", text_digest(OLD), True))
    reviews.keep(Mark("unmarked", text_digest(OLD), True))
    reviews.keep(Mark("unmarked", text_digest(OLD), False))
    lines = (folder / FILE).read_text("utf-8")
    (folder / FILE).write_text(lines.replace("half", "\\ud83d"), "utf-8")  # as earlier versions wrote it
    [same] = query("SELECT * FROM marks WHERE id = 'same'", folder)
    values = {"flagged": True, "tags": ["dark", "odd"], "note": "wrong \ufffd box", "at": kept.at, "is_current": True}
    assert same == {"id": "same", "set": "sft"} | values
    found = query('SELECT id, "set", flagged, is_current FROM marks ORDER BY id', folder)
    assert [tuple(row.values()) for row in found] == [
        ("changed", "sft", True, False),
        ("gone", None, True, False),
        ("no", "rejected", False, True),
        ("same", "sft", True, True),
    ]
    assert query("SELECT answer FROM marks JOIN sft USING (id) WHERE note <> ''", folder) == [{"answer": "1"}]


def test_judgements_are_a_table(run: Path, tmp_path: Path, query: Any) -> None:
    folder = made(tmp_path / "run", run, a=OLD, b=OLD)
    rows = ViewedRows(folder)
    audit = open_audit(folder, rows, RowImages(MediaStore(str(folder), str(folder))), 10, "ana")
    rows.close()
    for record_id, choice in (("a", "wrong"), ("a", "right"), ("b", "unclear"), ("no", "wrong"), ("no", "")):
        audit.judge(record_id, WHOLE, choice)
    sql = 'SELECT id, "set", about, choice, reviewer, is_current FROM judgements ORDER BY id'
    expected = [("a", "sft", WHOLE, "right", "ana", True), ("b", "sft", WHOLE, "unclear", "ana", True)]
    assert [tuple(row.values()) for row in query(sql, folder)] == expected

    repeated = made(tmp_path / "repeated", run, a=OLD, b=NEW)
    (folder / "reviews").rename(repeated / "reviews")
    found = query("SELECT id, is_current FROM judgements ORDER BY id", repeated)
    assert [tuple(row.values()) for row in found] == [("a", True), ("b", False)]
    lines = (repeated / JUDGEMENTS).read_text("utf-8").splitlines()
    earlier = json.dumps(json.loads(lines[1]) | {"sample": "earlier"})  # of the same trace, in a former sample
    (repeated / JUDGEMENTS).write_text("\n".join([*lines, earlier]) + "\n", "utf-8")
    found = query("SELECT is_current FROM judgements WHERE id = 'a' ORDER BY 1", repeated)
    assert [row["is_current"] for row in found] == [False, True]
    sample = repeated / "reviews/audit.json"
    sample.write_text(json.dumps(json.loads(sample.read_text("utf-8")) | {"name": "another"}), "utf-8")
    assert query("SELECT DISTINCT is_current FROM judgements", repeated) == [{"is_current": False}]


def test_the_tables_of_a_run_that_nobody_reviewed_are_empty(run: Path, tmp_path: Path, query: Any) -> None:
    folder = made(tmp_path / "run", run, a=OLD)
    sql = "SELECT (SELECT count(*) FROM marks) AS marks, (SELECT count(*) FROM judgements WHERE is_current) AS judged"
    assert query(sql, folder) == [{"marks": 0, "judged": 0}]
    assert not (folder / "reviews").exists()


def test_each_of_several_runs_has_its_marks(run: Path, tmp_path: Path, query: Any) -> None:
    folders = [made(tmp_path / name, run, x=OLD) for name in ("first", "second")]
    Reviews(folders[1]).keep(Mark("x", text_digest(OLD), True, note="second", set="sft"))
    sql = "SELECT note, is_current FROM second.marks UNION ALL SELECT note, is_current FROM a.marks"
    assert query(sql, *folders) == [{"note": "second", "is_current": True}]


def damage(folder: Path, file: str) -> None:
    """Write a file of reviews that cannot be read, or make the folder of reviews a link."""
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "marks.jsonl").write_text("", "utf-8")
    if file == "link":
        (folder / "reviews").symlink_to(elsewhere)
        return
    (folder / file).parent.mkdir()
    (folder / file).write_text("text\n", "utf-8")


@pytest.mark.parametrize(
    ("file", "reads", "does_not", "message"),
    [
        (FILE, "marks", "judgements", "reviews/marks.jsonl is damaged at line 1: remove this line"),
        (JUDGEMENTS, "judgements", "marks", "is damaged at line 1: remove this line"),
        (SAMPLE, "judgements", "marks", "is damaged (JSONDecodeError): move it away to draw another sample"),
        ("link", "Marks", "sft", "reviews is a link"),
        ("link", "judgements", "sft", "reviews is a link"),
    ],
)
def test_only_queries_on_reviews_need_their_files(
    run: Path,
    tmp_path: Path,
    query: Any,
    capsys: pytest.CaptureFixture[str],
    file: str,
    reads: str,
    does_not: str,
    message: str,
) -> None:
    folder = made(tmp_path / "run", run, a=OLD)
    damage(folder, file)
    assert query("SELECT count(*) AS rows FROM sft", folder) == [{"rows": 1}]
    query(f"SELECT * FROM {does_not}", folder)
    assert cli.main(["inspect", str(folder), "--sql", f"SELECT id FROM {reads}"]) == 2
    assert message in capsys.readouterr().err
