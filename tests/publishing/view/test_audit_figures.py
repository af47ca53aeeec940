"""The figures of an audit for the data card, from judgements in the run folder."""

import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.card import write_card
from groundtrace.publishing.publication import FlaggedRows, Publication
from groundtrace.publishing.reading import InspectError, open_tables, read_summary
from groundtrace.publishing.view.audit import WHOLE, Audit, open_audit
from groundtrace.publishing.view.audit_estimate import KEPT, Share, estimate
from groundtrace.publishing.view.audit_figures import AuditFigures, audit_figures
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.rows import ViewedRows
from groundtrace.vision.media import MediaStore

from .viewed import sft_row, write_run


def rejected(row_id: str) -> dict[str, object]:
    trace = {"text": "<think>x</think><answer>2</answer>", "answer": "2", "score": 0.2, "verdicts": []}
    return {
        "id": row_id,
        "stage": "verify",
        "reason": "low_score",
        "question": "Which?",
        "media": [],
        "traces": [trace],
    }


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    """A run with 40 kept rows and 20 rejected ones."""
    verdict = {"name": "spatial", "value": 1.0, "failed": False, "reason": "", "evidence": []}
    kept = [sft_row(f"kept-{n:02}", verdicts=[verdict]) for n in range(40)]
    return write_run(tmp_path / "run", run, {"sft": kept, "rejected": [rejected(f"no-{n:02}") for n in range(20)]})


def audited(folder: Path, reviewer: str, count: int = 20) -> Audit:
    rows = ViewedRows(folder)
    return open_audit(folder, rows, RowImages(MediaStore(str(folder), str(folder))), count, reviewer)


def judge(folder: Path, reviewer: str, wrong: int, rows: int = 20) -> Audit:
    """Judge the first rows of the sample; of the kept ones, the first ``wrong`` are judged as wrong."""
    audit, kept = audited(folder, reviewer), 0
    for row in audit.rows[:rows]:
        is_kept = row.stratum == KEPT
        audit.judge(row.id, WHOLE, "right" if is_kept and kept >= wrong else "wrong")
        kept += is_kept
    return audit


def test_judgements_as_unclear_or_of_rejected_traces_alone_do_not_hide_those_of_others(folder: Path) -> None:
    audit = judge(folder, "ana", wrong=1, rows=6)
    unclear, rejected = audited(folder, "bob"), audited(folder, "cy")
    for row in audit.rows:
        unclear.judge(row.id, WHOLE, "unclear")
        if row.stratum != KEPT:
            rejected.judge(row.id, WHOLE, "wrong")
    assert audit_figures(folder).precision == estimate(audit.counted()).precision


def test_the_figures_are_those_of_the_reviewer_with_the_most_judgements(folder: Path) -> None:
    judge(folder, "ana", wrong=5, rows=6)
    audit = judge(folder, "", wrong=1)
    found = audit_figures(folder)
    expected = estimate(audit.counted())
    assert (found.sample, found.decided, found.precision, found.recall) == (20, 20, expected.precision, expected.recall)
    assert found.precision.value == 0.9 and found.recall is not None and found.recall.value == 1.0
    assert found.kappas == tuple(audit.kappa().values()) and len(found.kappas) == 1


@pytest.mark.parametrize(
    ("rows", "message"), [(None, "has no audit: judge traces with `beam view"), (0, "no SFT row of ")]
)
def test_a_run_without_judgements_is_refused_in_one_line(folder: Path, rows: int | None, message: str) -> None:
    if rows is not None:
        judge(folder, "", 0, rows)
    with pytest.raises(InspectError, match=re.escape(message)) as caught:
        audit_figures(folder)
    assert "\n" not in str(caught.value)


def test_traces_that_have_changed_must_be_judged_again(folder: Path) -> None:
    audit = judge(folder, "ana", wrong=1)
    [shard] = (folder / "sft").iterdir()
    table, changed = pq.read_table(shard).to_pylist(), [row.id for row in audit.rows if row.stratum == KEPT][:3]
    for row in table:
        if row["id"] in changed:
            row["messages"][1]["content"] = "<think>There.</think><answer>1</answer>"
    pq.write_table(pa.Table.from_pylist(table, schema=pq.read_schema(shard)), shard)
    with pytest.raises(InspectError) as caught:
        audit_figures(folder)
    assert str(caught.value) == (
        f"a repeated run has changed 3 judged traces of the sample in {folder}/reviews/audit.json, so the other judged "
        "traces are not a random sample: judge the changed traces again with "
        f"`beam view {folder} --audit 20 --reviewer ana`"
    )
    again = audited(folder, "ana")
    for record_id in again.changed:
        again.judge(record_id, WHOLE, "right")
    assert audit_figures(folder).decided == 20


def test_single_verdicts_and_undone_judgements_do_not_count(folder: Path) -> None:
    audit = judge(folder, "", wrong=0)
    audit.judge(audit.rows[0].id, WHOLE, "")
    audit.judge(audit.rows[1].id, "spatial", "wrong")
    found = audit_figures(folder)
    assert (found.decided, found.open) == (19, 1)


@pytest.mark.slow
def test_the_card_states_that_an_audit_is_not_complete_or_has_judged_all_rows(folder: Path) -> None:
    judge(folder, "", wrong=2)
    found, summary = audit_figures(folder), read_summary(folder)
    partial = replace(found, decided=17, open=3)
    exact = replace(found, precision=Share(0.9, 0.9, 0.9))
    for figures, is_partial, is_exact in ((found, False, False), (partial, True, False), (exact, False, True)):
        with open_tables(folder, summary) as tables:
            write_card(folder, summary, tables, [], Publication("my-team/my-set", "0" * 64, (), None, {}, figures))
        card = (folder / "README.md").read_text("utf-8")
        assert ("3 of the sample's traces were not judged." in card) == is_partial
        assert ("An interval from a number to the same number" in card) == is_exact


@pytest.mark.parametrize("are_left_out", [True, False])
def test_the_card_states_flags_beside_the_figures(folder: Path, are_left_out: bool) -> None:
    judge(folder, "", wrong=0)
    found, summary = audit_figures(folder), read_summary(folder)
    flagged = FlaggedRows({"sft": 2, "rl": 0}, are_left_out)
    part = "left out of" if are_left_out else "part of"
    sentence = f"a reviewer also flagged the records of 2 SFT rows, which are {part} this publication."
    for of_card, is_there in ((flagged, True), (FlaggedRows({"sft": 0, "rl": 0}, are_left_out), False)):
        publication = Publication("my-team/my-set", "0" * 64, (), None, {}, found, of_card)
        with open_tables(folder, summary) as tables:
            write_card(folder, summary, tables, [], publication)
        section = (folder / "README.md").read_text("utf-8").partition('### How often "verified" is right')[2]
        assert (sentence in section.partition("\n### ")[0]) == is_there


@pytest.mark.slow
@pytest.mark.parametrize("has_recall", [True, False])
def test_the_card_states_the_figures_and_no_reviewer(folder: Path, has_recall: bool) -> None:
    judge(folder, "ana-maria", wrong=2)
    judge(folder, "bo", wrong=1, rows=12)
    found = audit_figures(folder)
    figures = found if has_recall else AuditFigures(20, 10, found.open, found.precision, None, ())
    summary = read_summary(folder)
    with open_tables(folder, summary) as tables:
        write_card(folder, summary, tables, [], Publication("my-team/my-set", "0" * 64, (), None, {}, figures))
    card = (folder / "README.md").read_text("utf-8")
    low, high = f"{found.precision.low:.2f}", f"{found.precision.high:.2f}"
    assert f"| precision: the share of the kept rows that are right | 0.80 | {low}–{high} |" in card
    assert ("| recall:" in card, "Cohen's kappa" in card) == (has_recall, has_recall)
    assert "ana-maria" not in card and f"judged {figures.decided} of 20 traces" in card
    with open_tables(folder, summary) as tables:
        write_card(folder, summary, tables, [], Publication("my-team/my-set", "0" * 64, (), None, {}))
    assert "How often" not in (folder / "README.md").read_text("utf-8")
