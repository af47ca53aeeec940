"""A second run beside the viewed one: where each record ended in both, over HTTP and by the columns to filter by."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from aiohttp.test_utils import TestClient, TestServer

from groundtrace.publishing.view.filters import Filters, read_filters
from groundtrace.publishing.view.guard import Guard
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.other_run import OtherRun, compare
from groundtrace.publishing.view.reviews import Mark, Reviews
from groundtrace.publishing.view.row_columns import CHANGE, DIFFERENCE, THERE
from groundtrace.publishing.view.rows import ViewedRows
from groundtrace.publishing.view.server import ViewServer
from groundtrace.vision.media import MediaStore

from .viewed import sft_row, write_run

OLD_TRACE = '<think>It is <points x1="3" y1="4" alt="cat">cat</points>.</think>\n<answer>2</answer>'


def rejected(row_id: str, reason: str) -> dict[str, Any]:
    return {"id": row_id, "stage": "verify", "reason": reason, "question": "Which?", "media": [], "detail": "why"}


@pytest.fixture
def folders(run: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A new and an old run over the same input. Each of them has one record that the other lacks."""
    scores = [{"final": 0.75}, {"final": 0.5}, None]
    new = [sft_row(name, scores=score) for name, score in zip(("same", "better", "won"), scores, strict=True)]
    old = [sft_row("same", scores={"final": 0.75}), sft_row("better", scores={"final": 0.25}, trace=OLD_TRACE)]
    sets = {"sft": [*new, sft_row("only here")], "rejected": [rejected("lost", "low_score"), rejected("still", "b")]}
    others = {"sft": [*old, sft_row("lost")], "rejected": [rejected(each, "a") for each in ("won", "still", "gone")]}
    return write_run(tmp_path / "new", run, sets), write_run(tmp_path / "old", run, others)


@pytest.fixture
def compared(folders: tuple[Path, Path]) -> Iterator[tuple[ViewedRows, OtherRun]]:
    new, old = (ViewedRows(each) for each in folders)
    yield new, compare(new, folders[1], old)
    new.close()
    old.close()


def test_each_record_has_its_outcome_in_both_runs(compared: tuple[ViewedRows, OtherRun]) -> None:
    rows, other = compared
    _, page = rows.page(Filters(), 0, 10)
    assert {row["id"]: (row[THERE], row[CHANGE], row[DIFFERENCE]) for row in page} == {
        "same": ("sft", "none", 0.0),
        "better": ("sft", "other trace", -0.25),
        "won": ("rejected: a", "sft → rejected", None),
        "only here": ("absent", "sft → absent", None),
        "lost": ("sft", "rejected → sft", None),
        "still": ("rejected: a", "other reason", None),
    }
    assert [row["n"] for row in page] == list(range(6)) and other.only_there == 1
    assert other.both == 5 and other.moved == {"sft → rejected": 1, "rejected → sft": 1, "other reason": 1}
    assert other.changes["other trace"] == 1


@pytest.mark.parametrize("is_named_there", [True, False])
def test_a_rejection_by_another_scorer_is_a_change(run: Path, tmp_path: Path, is_named_there: bool) -> None:
    here = {"rejected": [rejected("x", "low_score") | {"rejected_by": "spatial"}]}
    there = {"rejected": [rejected("x", "low_score") | {"rejected_by": "final"}]}
    new, old = write_run(tmp_path / "new", run, here), write_run(tmp_path / "old", run, there)
    if not is_named_there:  # as in runs of earlier versions
        (shard,) = (old / "rejected").glob("*.parquet")
        pq.write_table(pq.read_table(shard).drop_columns(["rejected_by"]), shard)
    rows, other = (ViewedRows(each) for each in (new, old))
    compare(rows, old, other)
    _, [row] = rows.page(Filters(), 0, 10)
    assert row[CHANGE] == ("other reason" if is_named_there else "none")
    rows.close()
    other.close()


@pytest.mark.parametrize(
    ("state", "ids"),
    [
        ([(CHANGE, "sft → rejected")], ["won"]),
        ([(CHANGE, "other trace")], ["better"]),
        ([(THERE, "rejected: a")], ["won", "still"]),
        ([(DIFFERENCE, "..-0.1")], ["better"]),
        ([("sort", DIFFERENCE), ("set", "sft")], ["better", "same", "won", "only here"]),
    ],
)
def test_the_columns_filter_and_sort(
    compared: tuple[ViewedRows, OtherRun], state: list[tuple[str, str]], ids: list[str]
) -> None:
    rows, _ = compared
    assert rows.ids(read_filters(state, rows.dimensions)) == ids
    rows.mark([Mark("won", flagged=True)])
    assert rows.ids(read_filters([("flagged", "true")], rows.dimensions)) == ["won"]


def test_a_real_run_beside_itself_has_no_change(run: Path, rows: ViewedRows) -> None:
    before = {each.name for each in rows.dimensions}
    other = ViewedRows(run)
    assert compare(rows, run, other).only_there == 0
    assert {each.name for each in rows.dimensions} == before | {THERE, CHANGE, DIFFERENCE}
    assert rows.counts(Filters())[CHANGE] == [("none", len(rows))]
    other.close()


def test_a_run_that_has_columns_of_these_names_keeps_one_of_each(
    compared: tuple[ViewedRows, OtherRun], folders: tuple[Path, Path]
) -> None:
    rows, other = compared
    again = compare(rows, folders[1], other.rows)
    names = [each.name for each in rows.dimensions]
    assert names.count(CHANGE) == 1 and again.only_there == 1


@pytest.mark.parametrize(("count", "left"), [(0, 0), (5, 0), (7, 2)])
def test_the_first_settings_that_differ_are_served(
    compared: tuple[ViewedRows, OtherRun], folders: tuple[Path, Path], count: int, left: int
) -> None:
    rows, other = compared
    settings = [(f"attempt.s{n}", "4", "8") for n in range(count)]
    again = compare(rows, folders[1], other.rows, settings)
    images = RowImages(MediaStore(str(folders[0]), str(folders[0]), cache_bytes=0))
    about = ViewServer(folders[0], rows, images, Reviews(folders[0]), Guard(), other=again).about()["other"]
    assert (about["settings"], about["more_settings"]) == (settings[:5], left)


def test_a_record_is_served_with_its_other_outcome(folders: tuple[Path, Path]) -> None:
    async def use() -> dict[str, Any]:
        new, old = folders
        rows, guard = ViewedRows(new), Guard()
        other = compare(rows, old, ViewedRows(old))
        images = RowImages(MediaStore(str(new), str(new), cache_bytes=0))
        app = ViewServer(new, rows, images, Reviews(new), guard, other=other).app()
        async with TestClient(TestServer(app)) as client:
            await client.get(f"/?token={guard.token}")
            found = {"run": await (await client.get("/api/run")).json()}
            for name in ("better", "won", "only here"):
                found[name] = await (await client.get("/api/record", params={"id": name})).json()
            return found

    found = asyncio.run(use())
    assert {name: found["run"]["other"][name] for name in ("name", "only_there")} == {"name": "old", "only_there": 1}
    assert found["run"]["titles"] == {
        THERE: "in the other run, old",
        CHANGE: "change of set, new → old",
        DIFFERENCE: "change of the final score, new → old",
    }
    there = found["better"]["other"]
    assert (there["set"], there["traces"][0]["score"], there["traces"][0]["marks"][0]["label"]) == ("sft", 0.25, "cat")
    assert (found["won"]["other"]["reason"], found["won"]["other"]["detail"]) == ("a", "why")
    assert found["only here"]["other"] is None and found["only here"]["set"] == "sft"
