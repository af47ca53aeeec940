"""The audit of a run: its sample, its judgements beside the run, and what a reviewer is not shown."""

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view.audit import (
    JUDGEMENTS,
    WHOLE,
    Audit,
    AuditedRow,
    open_audit,
)
from groundtrace.publishing.view.audit_estimate import KEPT, Judged
from groundtrace.publishing.view.audit_figures import audit_figures
from groundtrace.publishing.view.audit_routes import AuditRoutes
from groundtrace.publishing.view.audit_sample import MIN_PER_REASON, SAMPLE, draw
from groundtrace.publishing.view.guard import Guard
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.reviews import Reviews
from groundtrace.publishing.view.rows import ViewedRows
from groundtrace.publishing.view.server import ViewServer
from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.media import MediaStore

from .viewed import image, sft_row, write_run

ROWS = [AuditedRow("a", KEPT, "ta", ("spatial",)), AuditedRow("b", KEPT, "tb"), AuditedRow("c", "verify: low", "tc")]
STRATA = {"verify: low": 7, KEPT: 40}
DRAWN = "a sample"
TURN = {"text": "I count.", "code": "print(1)", "status": "ok", "output": "1", "images": 0}
"""A time at which a sample was drawn, before all judgements of the tests."""
POINT = '<points x1="10" y1="12" alt="cat">cat</points>'
OFF = json.dumps({"number": 1, "x": 10.0, "y": 12.0, "media_index": 0, "frame": None, "on": False})
"""The evidence that the point is not on its object."""


def rejected(row_id: str, reason: str = "low_grounding", **values: Any) -> dict[str, Any]:
    verdict = {"name": "spatial", "value": 0.25, "failed": False, "reason": "off"}
    trace = {"text": f"<think>{row_id} {POINT}</think><answer>2</answer>", "answer": "2", "score": 0.25}
    row: dict[str, Any] = {"id": row_id, "stage": "verify", "reason": reason, "question": "How many?", "answer": "1"}
    row["media"] = [{"uri": "input:a.png", "sha256": sha256_bytes(image()), "width": 40, "height": 30}]
    found = {"label": "cat", "x": 7.0, "y": 8.0, "media_index": 0, "frame": None, "t_s": None}
    return row | {"traces": [trace | {"verdicts": [verdict]}], "points": [found]} | values


def opened(run: Path, count: int = 12, reviewer: str = "") -> Audit:
    rows = ViewedRows(run)
    images = RowImages(MediaStore(str(run), str(run), cache_bytes=0))
    return open_audit(run, rows, images, count, reviewer)


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    """A run of 30 kept rows, 20 and 2 rejected ones, and 9 that are not part of an audit."""
    verdict = {"name": "spatial", "value": 1.0, "failed": False, "reason": "", "evidence": ["on it", OFF]}
    further = {"name": "counting", "value": 1.0, "failed": False, "reason": "", "evidence": []}  # of kept rows alone
    traces = [f"<think>{n} {POINT}</think><answer>1</answer>" for n in range(30)]
    kept = [
        sft_row(f"kept-{n:02}", verdicts=[verdict, further], attempts=[], trace=trace) for n, trace in enumerate(traces)
    ]
    sides = [rejected(f"low-{n:02}") for n in range(20)] + [rejected(f"odd-{n}", "odd_count") for n in range(2)]
    others = [rejected(f"left-{n}", "over_quota") for n in range(4)]
    others += [rejected(f"hard-{n}", "too_hard", stage="difficulty", traces=[]) for n in range(5)]
    made = write_run(tmp_path / "run", run, {"sft": kept, "rejected": [*sides, *others]})
    (made / "a.png").write_bytes(image())
    return made


@given(
    st.dictionaries(st.sampled_from([KEPT, "a", "b", "c"]), st.integers(0, 60), min_size=1),
    st.integers(1, 100),
)
def test_a_sample_is_of_each_stratum_and_of_the_wanted_size(sizes: Mapping[str, int], count: int) -> None:
    strata = {name: [f"{name}{n}" for n in range(size)] for name, size in sizes.items()}
    drawn = draw(strata, count)
    for name, ids in drawn.items():
        assert len(set(ids)) == len(ids) and set(ids) <= set(strata.get(name, ()))
    reasons = {name: ids for name, ids in strata.items() if name != KEPT}
    assert all(len(drawn[name]) >= min(MIN_PER_REASON, len(ids)) for name, ids in reasons.items() if ids)
    if sizes.get(KEPT, 0) >= count and sum(map(len, reasons.values())) >= count:
        assert count <= sum(map(len, drawn.values())) <= count + MIN_PER_REASON * len(reasons)
    assert drawn == draw(strata, count)
    assert drawn[KEPT] or not sizes.get(KEPT)


def test_the_sample_of_a_run_is_drawn_once_and_of_verified_traces_alone(folder: Path) -> None:
    audit = opened(folder)
    strata = {name: sorted(row.id for row in audit.rows if row.stratum == name) for name in audit.strata}
    assert audit.strata == {KEPT: 30, "verify: low_grounding": 20, "verify: odd_count": 2}
    assert {name: len(ids) for name, ids in strata.items()} == {
        KEPT: 6,
        "verify: low_grounding": 5,
        "verify: odd_count": 2,
    }
    assert opened(folder).rows == audit.rows
    assert len({row.stratum for row in audit.rows[:6]}) > 1
    with pytest.raises(
        InspectError, match=r"sample of 13 rows in .* was drawn with --audit 12, not --audit 40: use --audit 12"
    ):
        opened(folder, 40)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "note"),
    [
        (6, "the sample has 10 rows instead of 6: at least 5 of each reason of rejection are drawn"),
        (24, ""),
        (90, "the sample has 52 rows instead of 90: the run has only 30 kept rows with a trace"),
    ],
)
def test_the_real_size_of_a_sample_has_its_reason(folder: Path, count: int, note: str) -> None:
    for audit in (opened(folder, count), opened(folder, count)):
        assert audit.note.startswith(note) and bool(audit.note) == bool(note)


def test_a_sample_is_of_no_use_for_a_run_that_keeps_other_rows(folder: Path, run: Path, tmp_path: Path) -> None:
    """All rows of a small reason were drawn, but only a part of the kept rows: after a run that keeps the former, the
    sample is no random sample of the kept rows, so the figures would be wrong.
    """
    audit = opened(folder, 24)
    audit.judge(audit.rows[0].id, WHOLE, "right")
    moved = [sft_row(f"odd-{n}", attempts=[], trace="<answer>2</answer>") for n in range(2)]
    again = write_run(tmp_path / "again", run, {"sft": [sft_row("kept-00"), *moved], "rejected": [rejected("low-00")]})
    (again / "a.png").write_bytes(image())
    shutil.copytree(folder / "reviews", again / "reviews")
    for reading in (lambda: opened(again, 24), lambda: audit_figures(again)):
        with pytest.raises(InspectError, match=r"audit\.json is not a random sample of this run.*move this file away"):
            reading()
    (again / SAMPLE).unlink()
    assert {row.stratum for row in opened(again, 24).rows} == {KEPT, "verify: low_grounding"}


def test_judgements_of_an_earlier_draw_are_kept_but_not_counted(folder: Path) -> None:
    """The rows that both samples have are no random part of the later one."""
    audit = opened(folder, 24)
    audit.judge(audit.rows[0].id, WHOLE, "right")
    assert len(opened(folder, 24).judgements) == 1
    sample = json.loads((folder / SAMPLE).read_text("utf-8"))
    (folder / SAMPLE).unlink()
    later = opened(folder, 24)
    assert json.loads((folder / SAMPLE).read_text("utf-8"))["ids"] == sample["ids"]
    assert (later.judgements, later.reviewers, later.changed) == ({}, [], [])
    assert len((folder / JUDGEMENTS).read_text("utf-8").splitlines()) == 1
    later.judge(later.rows[0].id, WHOLE, "wrong")
    assert len(opened(folder, 24).judgements) == 1


@pytest.mark.parametrize("lacking", ["strata_sha256", "name"])
def test_a_sample_of_an_earlier_version_is_refused(folder: Path, lacking: str) -> None:
    opened(folder, 24)
    sample = json.loads((folder / SAMPLE).read_text("utf-8"))
    del sample[lacking]
    (folder / SAMPLE).write_text(json.dumps(sample), "utf-8")
    for reading in (lambda: opened(folder, 24), lambda: audit_figures(folder)):
        with pytest.raises(InspectError, match="was drawn by an earlier version of Groundtrace, which did not record"):
            reading()


@pytest.mark.parametrize(
    "edited",
    [
        lambda ids: [*ids, "gone"],
        lambda ids: [*ids, "left-0"],  # a record of the run without a verified trace
        lambda ids: ids[1:],  # somebody removed a row that is hard to judge
        lambda ids: ids[::-1],
    ],
)
def test_a_sample_that_was_edited_is_refused(folder: Path, edited: Callable[[list[str]], list[str]]) -> None:
    opened(folder, 24)
    sample = json.loads((folder / SAMPLE).read_text("utf-8"))
    (folder / SAMPLE).write_text(json.dumps(sample | {"ids": edited(sample["ids"])}), "utf-8")
    for reading in (lambda: opened(folder, 24), lambda: audit_figures(folder)):
        with pytest.raises(InspectError, match=r"are not those that --audit 24 draws from this run.*move it away"):
            reading()


def test_the_last_judgement_counts_and_can_be_undone(tmp_path: Path) -> None:
    audit = Audit(tmp_path, STRATA, ROWS, DRAWN)
    audit.judge("a", WHOLE, "wrong")
    audit.judge("a", WHOLE, "right")
    audit.judge("b", WHOLE, "unclear")
    audit.judge("c", WHOLE, "wrong")
    audit.judge("c", WHOLE, "")
    audit.judge("a", "spatial", "wrong")
    for each in (audit, Audit(tmp_path, STRATA, ROWS, DRAWN)):
        assert each.counted() == [Judged(KEPT, 40, 1, 0, 1, 0), Judged("verify: low", 7, 0, 0, 0, 1)]
        assert each.judgements["a", "spatial"].choice == "wrong"


def test_a_judgement_does_not_pass_to_another_trace(tmp_path: Path) -> None:
    Audit(tmp_path, STRATA, ROWS, DRAWN).judge("a", WHOLE, "right")
    changed = [AuditedRow("a", KEPT, "other"), *ROWS[1:]]
    assert Audit(tmp_path, STRATA, changed, DRAWN).judgements == {}
    assert Audit(tmp_path, STRATA, ROWS, DRAWN).judgements["a", WHOLE].choice == "right"


@pytest.mark.parametrize(
    "change",
    [
        {"question": "Which?"},
        {"answer": "2"},
        {"choices": ["1", "2"]},
        {"trace": "<think>other</think><answer>1</answer>"},
        {"turns": [TURN | {"code": "print(2)"}]},
        {"turns": [TURN | {"output": "2"}]},
    ],
    ids=str,
)
def test_a_judgement_is_of_all_that_the_reviewer_saw(run: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    """A repeated run may have another question, another gold answer or other code before the same last message."""
    folder = write_run(tmp_path / "run", run, {"sft": [sft_row("a", turns=[TURN])]}, turns=True)
    audit = opened(folder, 2)
    audit.judge("a", WHOLE, "right")
    assert opened(folder, 2).changed == []
    again = write_run(tmp_path / "again", run, {"sft": [sft_row("a", **{"turns": [TURN]} | change)]}, turns=True)
    shutil.copytree(again, folder, dirs_exist_ok=True)
    assert opened(folder, 2).changed == ["a"]


def test_a_judged_trace_that_has_changed_is_named_until_it_is_judged_again(tmp_path: Path) -> None:
    first = Audit(tmp_path, STRATA, ROWS, DRAWN)
    for record_id in ("a", "b", "c"):
        first.judge(record_id, WHOLE, "right")
    first.judge("b", WHOLE, "")
    first.judge("b", "spatial", "wrong")
    assert first.changed == []
    rows = [AuditedRow(row.id, row.stratum, f"new {row.trace}") for row in ROWS]
    again = Audit(tmp_path, STRATA, rows, DRAWN)
    assert again.changed == ["a", "c"] and Audit(tmp_path, STRATA, rows, DRAWN, "another").changed == []
    again.judge("a", WHOLE, "wrong")
    again.judge("c", WHOLE, "unclear")
    assert again.changed == []
    again.judge("c", WHOLE, "")
    assert again.changed == ["c"]
    back = Audit(tmp_path, STRATA, ROWS, DRAWN)  # a third run has made the first traces again
    assert back.changed == [] and back.judgements.keys() == {("a", WHOLE), ("b", "spatial"), ("c", WHOLE)}


def test_the_result_has_no_estimates_until_changed_traces_are_judged_again(tmp_path: Path) -> None:
    first = Audit(tmp_path, STRATA, ROWS, DRAWN)
    for row in ROWS:
        first.judge(row.id, WHOLE, "right")

    async def result(audit: Audit) -> dict[str, Any]:
        app, unused = web.Application(), Any
        AuditRoutes(audit, unused, unused).add_to(app.router)  # type: ignore[arg-type]
        async with TestClient(TestServer(app)) as client:
            return await (await client.get("/api/audit/result")).json()

    found = asyncio.run(result(first))
    assert found["changed"] == 0 and found["precision"]["value"] == 1.0
    rows = [AuditedRow("a", ROWS[0].stratum, "new"), *ROWS[1:]]
    found = asyncio.run(result(Audit(tmp_path, STRATA, rows, DRAWN)))
    assert (found["changed"], found["precision"], found["recall"]) == (1, None, None)


@pytest.mark.parametrize(
    ("record_id", "about", "choice"),
    [("x", WHOLE, "right"), ("a", WHOLE, "maybe"), ("", WHOLE, ""), ("a", "nonsense", "right"), ("a", "", "")],
)
def test_what_the_page_does_not_offer_is_not_judged(tmp_path: Path, record_id: str, about: str, choice: str) -> None:
    with pytest.raises(ValueError, match=r"not in the sample|is not a judgement|: use one of whole trace, spatial$"):
        Audit(tmp_path, STRATA, ROWS, DRAWN).judge(record_id, about, choice)
    assert not (tmp_path / JUDGEMENTS).exists()


def test_two_reviewers_judge_apart_and_their_agreement_is_kappa(tmp_path: Path) -> None:
    rows = [AuditedRow(str(n), KEPT, f"t{n}") for n in range(4)]
    ana, ben = (Audit(tmp_path, {KEPT: 4}, rows, DRAWN, name) for name in ("ana", "ben"))
    for n, (one, other) in enumerate([("right", "right"), ("right", "wrong"), ("wrong", "wrong"), ("right", "right")]):
        ana.judge(str(n), WHOLE, one)
        ben.judge(str(n), WHOLE, other)
    assert ana.counted()[0].right == 3 and ben.counted()[0].right == 2
    # by hand: agreed .75, by chance .75·.5 + .25·.5 = .5
    assert Audit(tmp_path, {KEPT: 4}, rows, DRAWN, "ana").kappa() == {"ben": (pytest.approx(0.5), 4)}
    assert Audit(tmp_path, {KEPT: 4}, rows, DRAWN, "cy").kappa() == {}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"ids": [1], "count": 2}',
        '{"ids": ["a"]}',
        '{"ids": ["a", "a"], "count": 2}',
        '{"ids": "ab", "count": 2}',
        '{"ids": ["a"], "count": true}',
        '{"ids": ["a"], "count": -3}',
        '{"ids": ["a"], "count": 2}',
        '{"ids": ["a"], "count": 2, "at": 5}',
        '{"ids": ["a"], "count": 2, "at": "", "name": 5}',
        "[" * 100_000,
    ],
    ids=lambda content: content[:30],
)
def test_a_damaged_sample_is_one_line(folder: Path, content: str) -> None:
    (folder / "reviews").mkdir()
    (folder / SAMPLE).write_text(content)
    with pytest.raises(InspectError, match="is damaged"):
        opened(folder)


def test_a_run_without_kept_traces_has_no_audit(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InspectError, match="no SFT row, so there is nothing to audit"):
        opened(write_run(tmp_path / "run", run, {"rejected": [rejected("a")]}))


def test_a_reviewer_sees_no_verdict_before_judging_and_the_result_after(folder: Path) -> None:
    shutil.rmtree(folder / "reviews", ignore_errors=True)

    async def work() -> None:
        rows, guard = ViewedRows(folder), Guard()
        images = RowImages(MediaStore(str(folder), str(folder), cache_bytes=0))
        audit = open_audit(folder, rows, images, 12, "ana")
        app = ViewServer(folder, rows, images, Reviews(folder), guard, audit).app()
        async with TestClient[web.Request, web.Application](TestServer(app)) as client:
            await client.get(f"/?token={guard.token}", allow_redirects=False)
            origin = {"Origin": str(client.make_url("/")).rstrip("/")}
            listed = await (await client.get("/api/audit")).json()
            assert [choice for _, choice in listed["rows"]] == [""] * 13
            shapes = set[str]()
            for row_id, _ in listed["rows"]:
                answer = await client.get("/api/audit/record", params={"id": row_id})
                text = await answer.text()
                record = json.loads(text)
                assert record["names"] == ["counting", "spatial"] and record["pointed"] == []
                assert record["traces"][0]["marks"] and not {"n", "column"} & {*record, *record["images"][0]}
                picture = await client.get(record["images"][0]["address"])
                assert picture.status == 200 and (await picture.read()).startswith(b"\x89PNG")
                shapes.add(f"{sorted(record)} {sorted(record['traces'][0])} {record['traces'][0]['marks'][0].keys()}")
                for secret in (
                    "low_grounding",
                    "odd_count",
                    "0.25",
                    "1.0",
                    "verify",
                    "sft",
                    "rejected",
                    "on it",
                    "off",
                ):
                    assert secret not in text, (secret, text)
                choice = "right" if row_id.startswith("kept") else "wrong"
                body = {"id": row_id, "about": WHOLE, "choice": choice}
                assert (await client.post("/api/audit/judge", json=body)).status == 403
                assert (await client.post("/api/audit/judge", json=body, headers=origin)).status == 200
            assert len(shapes) == 1  # fields that only kept rows have would give the verdict away
            nonsense = {"id": listed["rows"][0][0], "about": "nonsense", "choice": "right"}
            for wrong in ({"id": "x", "about": WHOLE, "choice": "right"}, {"id": listed["rows"][0][0]}, nonsense, []):
                assert (await client.post("/api/audit/judge", json=wrong, headers=origin)).status == 400
            assert (await client.get("/api/audit/record?id=left-0")).status == 404
            result = await (await client.get("/api/audit/result")).json()
            assert (result["precision"]["value"], result["recall"]["value"]) == (1.0, 1.0)
            assert result["precision"]["low"] < 1 and result["precision"]["high"] == 1

    asyncio.run(work())


@pytest.mark.parametrize(
    "line",
    [
        '{"id": ["x"], "trace": "t", "about": "whole trace", "choice": "right"}',
        '{"id": "x", "trace": "t", "about": "whole trace", "choice": "right", "reviewer": 5}',
        '{"id": "x", "trace": "t", "about": "whole trace", "choice": ["right"]}',
        '{"id": "x", "trace": "t", "about": "whole trace", "choice": "maybe"}',
        "[" * 100_000,
    ],
    ids=lambda line: line[:60],
)
def test_a_damaged_judgement_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / JUDGEMENTS).parent.mkdir()
    (tmp_path / JUDGEMENTS).write_text(f"{line}\n", "utf-8")
    with pytest.raises(InspectError, match="is damaged at line 1"):
        Audit(tmp_path, {KEPT: 1}, [], DRAWN)


@pytest.mark.parametrize("link", ["reviews", "reviews/judgements.jsonl", "reviews/audit.json"])
def test_no_sample_or_judgement_is_written_through_a_link(folder: Path, tmp_path: Path, link: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / link).parent.mkdir(exist_ok=True)
    (folder / link).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeFile, match=rf"^{folder / link} is a link, but .*, or remove it$"):
        opened(folder)
    assert not any((tmp_path / "elsewhere").iterdir())


def test_the_sample_replaces_no_file_but_its_own(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("precious")
    (folder / "reviews").mkdir()
    for name in ("audit.new", ".audit.json.tmp"):
        (folder / "reviews" / name).symlink_to(tmp_path / "letter")
    opened(folder)
    assert (tmp_path / "letter").read_text() == "precious"


def test_a_judgement_is_refused_if_its_file_has_become_a_link(folder: Path, tmp_path: Path) -> None:
    audit = opened(folder)
    (folder / JUDGEMENTS).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeFile, match="is a link"):
        audit.judge(audit.rows[0].id, WHOLE, "right")
    assert not (tmp_path / "elsewhere").exists()
