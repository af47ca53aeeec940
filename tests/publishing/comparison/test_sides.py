"""Where the records of two runs ended: yields, transitions, and the ids themselves."""

import re
from typing import Any

import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.comparison.compare import all_moved, opened_pair
from groundtrace.publishing.comparison.sides import (
    count_moved,
    moved_records,
    overlap,
    transitions,
    yields,
    yields_by_source,
)

from .conftest import MakeRun, out, sft


def rl(row_id: str, **more: Any) -> dict[str, Any]:
    return {"id": row_id, "question": "Why?"} | more


A = {"sft": [sft("s1"), sft("s2"), sft("s3")], "rl": [rl("r1")], "rejected": [out("x1"), out("x2")]}
B = {"sft": [sft("s1"), sft("x1")], "rl": [rl("r1"), rl("s2")], "rejected": [out("s3"), out("x2", "too_hard")]}


def test_ids_are_counted_by_where_they_were_and_are(make_run: MakeRun) -> None:
    with opened_pair(make_run("a", A), make_run("b", B)) as (tables, _, _):
        section = transitions(tables)
        assert count_moved(tables) == 4
        assert overlap(tables).text == "Both runs read the same 6 ids."
        shares = {row[0]: row[1:] for row in yields(tables, ["sft", "rl"], overlap(tables)).rows}
    assert section.rows == [
        (1, "rejected: difficulty/too_easy", "rejected: difficulty/too_hard"),
        (1, "rejected: difficulty/too_easy", "sft"),
        (1, "sft", "rejected: difficulty/too_easy"),
        (1, "sft", "rl"),
    ]
    assert section.note == "3 ids changed side, and 1 rejected id changed only the reason or the scorer."
    assert shares["records read"][:2] == (6, 6)
    assert shares["sft"][:4] == (3, 2, "50.0 %", "33.3 %")
    assert re.fullmatch(r"−16\.7 \[−[\d.]+, \+[\d.]+\]", str(shares["sft"][4]))


def test_each_moved_record_has_both_sides_and_the_reason(make_run: MakeRun) -> None:
    moved = {each.id: each for each in all_moved(make_run("a", A), make_run("b", B))}
    assert moved["s3"].to_fields() == {
        "id": "s3",
        "from": {"set": "sft"},
        "to": {"set": "rejected", "stage": "difficulty", "reason": "too_easy", "detail": "too_easy by far"},
    }
    assert (moved["x1"].why, moved["x2"].why, moved["s2"].why) == ("too_easy by far", "too_hard by far", "")
    assert (moved["s2"].question, moved["x1"].question) == ("Why?", "How many?")


def test_a_rejection_by_another_scorer_is_a_change(make_run: MakeRun) -> None:
    first = make_run("a", {"rejected": [out("x", rejected_by="spatial"), out("y", rejected_by="final")]})
    second = make_run("b", {"rejected": [out("x", rejected_by="final"), out("y", rejected_by="final")]})
    with opened_pair(first, second) as (tables, _, _):
        assert transitions(tables).rows == [
            (1, "rejected: difficulty/too_easy (spatial)", "rejected: difficulty/too_easy (final)")
        ]
        assert (
            transitions(tables).note == "0 ids changed side, and 1 rejected id changed only the reason or the scorer."
        )
    [moved] = all_moved(first, second)
    assert moved.to_fields()["to"]["rejected_by"] == "final"


def test_a_run_that_does_not_name_scorers_is_compared_without_them(make_run: MakeRun) -> None:
    named = make_run("a", {"rejected": [out("x", rejected_by="spatial")]})
    old = make_run("b", {"rejected": [out("x")]})
    (shard,) = (old / "rejected").glob("*.parquet")
    pq.write_table(pq.read_table(shard).drop_columns(["rejected_by"]), shard)
    assert all_moved(named, old) == [] == all_moved(old, named)
    nameless = make_run("c", {"rejected": [out("x")]})
    assert all_moved(named, nameless) == [], "no row of this run names a scorer"


def test_a_limit_leaves_no_transition_out_that_it_has_room_for(make_run: MakeRun) -> None:
    many = [f"m{number}" for number in range(30)]
    first = make_run("a", {"sft": [*map(sft, many), sft("one")]})
    second = make_run("b", {"rl": [rl("one")], "rejected": [*map(out, many)]})
    with opened_pair(first, second) as (tables, _, _):
        listed = moved_records(tables, 4)
        assert [each.after.set for each in listed if each.after] == ["rejected"] * 3 + ["rl"]
        assert moved_records(tables, 4) == listed
        assert (len(moved_records(tables)), len(moved_records(tables, 0))) == (31, 0)


@pytest.mark.parametrize(
    ("ids_b", "text", "has_interval"),
    [
        (["1", "2"], "Both runs read the same 2 ids.", True),
        (["2", "3", "4"], "1 id is in both runs, 1 only in A, 2 only in B.", False),
        (["8", "9"], "0 ids are in both runs, 2 only in A, 2 only in B.", True),
        ([], "0 ids are in both runs, 2 only in A, 0 only in B.", False),
    ],
)
def test_runs_that_read_other_records(make_run: MakeRun, ids_b: list[str], text: str, has_interval: bool) -> None:
    first, second = make_run("a", {"sft": [sft("1"), sft("2")]}), make_run("b", {"rejected": [*map(out, ids_b)]})
    with opened_pair(first, second) as (tables, _, _):
        ids = overlap(tables)
        assert ids.text == text
        assert ("[" in str(yields(tables, ["sft"], ids).rows[1][-1])) == has_interval
        alone = {each.id for each in moved_records(tables, alone=True)} - {each.id for each in moved_records(tables)}
    assert alone == {"1", "2"} ^ set(ids_b)
    assert all((each.before is None) != (each.after is None) for each in all_moved(first, second) if each.id in alone)


def test_yields_by_source_need_several_sources(make_run: MakeRun) -> None:
    rows = {
        "sft": [sft("1", source="vqa"), sft("2", source="vqa")],
        "rejected": [out("3", source="it's <b>"), out("4")],
    }
    with opened_pair(make_run("a", rows), make_run("b", {"sft": [sft("1", source="vqa")]})) as (tables, _, _):
        section = yields_by_source(tables, ["sft"])
    assert section is not None
    assert section.columns == ("source", "read A", "read B", "sft A", "sft B", "rejected A", "rejected B")
    assert [tuple(row[:5]) for row in section.rows] == [
        ("vqa", 2, 1, "2 (100.0 %)", "1 (100.0 %)"),
        ("(no source)", 1, 0, "0 (0.0 %)", "0 (–)"),
        ("it's <b>", 1, 0, "0 (0.0 %)", "0 (–)"),
    ]
    one = {"sft": [sft("1", source="vqa")]}
    with opened_pair(make_run("c", one), make_run("d", one)) as (tables, _, _):
        assert yields_by_source(tables, ["sft"]) is None
